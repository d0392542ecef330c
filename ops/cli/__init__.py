"""The command line: ``lethelog``, by Typer and Rich."""

from .running import main

__all__ = ["main"]
