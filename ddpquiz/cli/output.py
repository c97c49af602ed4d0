"""What a command prints in words: names, paths and texts in it may come from others."""

import typer

from ddpquiz.safe_text import plain


def say(text: str = "", *, end: str = "\n", err: bool = False) -> None:
    """Print a text without control characters, on standard error if asked."""
    typer.echo(plain(text) + end, nl=False, err=err)
