"""``python -m lethelog`` and the ``lethelog`` command."""


def main() -> None:
    """Run the command line."""
    from .ops.cli import main as run

    run()


if __name__ == "__main__":
    main()
