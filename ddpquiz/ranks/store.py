"""The key-value store through which ranks find each other, in a process of its own.

torch serves the store from a thread. A process with threads must not fork: locks that a thread holds at that moment
stay locked in the child. So the server, which forks ranks, leaves the store to a process that forks nothing.
"""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from ddpquiz.ranks.forks import fork
from ddpquiz.ranks.resolver import without_lookups

if TYPE_CHECKING:
    import socket


def host_store(listener: socket.socket, close: list[int]) -> int:
    """Fork a process that serves a store on a listening socket, without the descriptors in `close`; return its id."""
    return fork(lambda: _serve(listener), close=close)


def _serve(listener: socket.socket) -> NoReturn:
    from torch.distributed import TCPStore

    host, port = listener.getsockname()[:2]
    store = without_lookups(
        lambda: TCPStore(  # without libuv, since torch 2.6 refuses a listening socket with it
            host, port, None, True, timedelta(days=1), wait_for_workers=False,
            master_listen_fd=listener.detach(), use_libuv=False,
        )
    )  # fmt: skip
    while store:
        signal.pause()
    raise AssertionError
