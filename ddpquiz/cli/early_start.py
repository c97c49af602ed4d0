"""Start the slowest part of `demo` and `run`, the import of torch, before the command line is parsed."""

from ddpquiz.errors import UserError

_NO_RUN = {"--emit", "--replay", "--copy", "--help", "-h"}


def begin(words: list[str]) -> None:
    """Let the server of ranks import torch if this command line is likely to need it."""
    if words[:1] not in (["demo"], ["run"]) or not words[1:] or {word.partition("=")[0] for word in words} & _NO_RUN:
        return
    from ddpquiz.ranks import server_process  # noqa: PLC0415  # most commands start no ranks

    try:
        server_process.start_early()
    except UserError:
        return  # the command raises it again, where errors are printed
