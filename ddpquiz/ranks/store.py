"""The key-value store through which ranks find each other, in a process of its own.

torch serves the store from a thread. A process with threads must not fork: locks that a thread holds at that moment
stay locked in the child. So the server, which forks ranks, leaves the store to a process that forks nothing.

torch asks for the host name of 127.0.0.1 at its first connection to a store, for a log message. Where the nameserver
does not answer, that takes 10 s or more. glibc's resolver has its state per thread: it may not send a query
while a store is made, and the lookups of the script remain as they are.
"""

import contextlib
import ctypes
import signal
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NoReturn

from ddpquiz.ranks.forks import fork


def host_store(close: list[int]) -> tuple[int, int]:
    """Fork a process that serves a store, without the descriptors in `close`; return its id and its port.

    It listens on loopback only, at a port that the kernel chooses.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        return fork(lambda: _serve(listener), close=close), listener.getsockname()[1]


def _serve(listener: socket.socket) -> NoReturn:
    from torch.distributed import TCPStore

    host, port = listener.getsockname()[:2]
    with no_lookups():
        store = TCPStore(  # without libuv, since torch 2.6 refuses a listening socket with it
            host, port, None, True, timedelta(days=1), wait_for_workers=False,
            master_listen_fd=listener.detach(), use_libuv=False,
        )  # fmt: skip
    while store:
        signal.pause()
    raise AssertionError


@contextlib.contextmanager
def no_lookups() -> Iterator[Callable[[], None]]:
    """Let no name be looked up in DNS by this thread (glibc); the value ends that early, as in a child."""
    libc = ctypes.CDLL(None)
    try:
        init, state = libc["__res_init"], libc["__res_state"]
    except AttributeError:
        yield lambda: None
        return
    state.restype = ctypes.POINTER(_Resolver)
    resolver = state().contents
    if not resolver.options & 1:  # RES_INIT: this thread has not looked anything up yet
        init()
    before, resolver.retry = resolver.retry, 0

    def allow() -> None:
        resolver.retry = before

    try:
        yield allow
    finally:
        allow()


class _Resolver(ctypes.Structure):
    """What struct __res_state begins with; each nameserver is tried `retry` times."""

    _fields_ = (("retrans", ctypes.c_int), ("retry", ctypes.c_int), ("options", ctypes.c_ulong))
