"""What is begun before the command line is read, because it takes longest."""

from __future__ import annotations


def begin(words: list[str]) -> None:
    """Have torch imported in the server of ranks when these words are likely to need it."""
    if words[:1] not in (["demo"], ["run"]) or not words[1:] or words[1].startswith("-") or "--emit" in words:
        return
    from ddpquiz.errors import UserError
    from ddpquiz.ranks import launch

    try:
        launch.server()
    except UserError:
        return  # the command meets it again, where errors are printed
