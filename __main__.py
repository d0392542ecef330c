"""``python -m lethelog`` and the ``lethelog`` command."""


def main() -> None:
    """Run the command line."""
    try:
        from .ops.cli import main as run

        run()
    except KeyboardInterrupt:
        # While modules are still being loaded nothing has begun that would have to be said.
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
