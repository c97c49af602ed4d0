"""The key-value store in which ranks meet, in a process of its own.

Torch serves it from a thread. A process with threads must not fork: what a thread has locked at that moment, the
child finds locked for ever. Those who fork ranks leave the store to a process that forks nothing, therefore, and have
no thread, but for the one in which torchrun's agent tells other nodes every few seconds that it is there.
"""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from ddpquiz.ranks.forks import fork

if TYPE_CHECKING:
    import socket


def host_store(listener: socket.socket, close: list[int]) -> int:
    """Fork a process that serves a store on a listening socket, without the descriptors in `close`; return its id."""
    return fork(lambda: _serve(listener), close=close)


def _serve(listener: socket.socket) -> NoReturn:
    """Serve it until a signal ends us."""
    from torch.distributed import TCPStore

    where, port = listener.getsockname()[:2]
    store = TCPStore(  # without libuv, since torch 2.6 refuses a listening socket with it
        where, port, None, True, timedelta(days=1), wait_for_workers=False,
        master_listen_fd=listener.detach(), use_libuv=False,
    )  # fmt: skip
    while store:
        signal.pause()
    raise AssertionError
