"""The key-value store through which ranks find each other, in a process of its own.

torch serves the store from a thread. A process with threads must not fork: locks that a thread holds at that moment
stay locked in the child. So the server, which forks ranks, leaves the store to a process that forks nothing.

torch asks for the host name of 127.0.0.1 at its first connection to a store, for a log message. Where the nameserver
does not answer, that takes 10 s or more. glibc's resolver has its state per thread, so a thread of our own that may
not send a query leaves the lookups of the script as they are.
"""

import ctypes
import signal
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn, TypeVar

from ddpquiz.ranks.forks import fork

_Made = TypeVar("_Made")


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
    store = without_lookups(
        lambda: TCPStore(  # without libuv, since torch 2.6 refuses a listening socket with it
            host, port, None, True, timedelta(days=1), wait_for_workers=False,
            master_listen_fd=listener.detach(), use_libuv=False,
        )
    )  # fmt: skip
    while store:
        signal.pause()
    raise AssertionError


def without_lookups(make: Callable[[], _Made]) -> _Made:
    """Return what `make` returns, or raise what it raises; names are not looked up in DNS while it runs (Linux)."""
    made: list[_Made] = []
    raised: list[BaseException] = []

    def work() -> None:
        _disable_queries()
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that called us
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    for error in raised:
        raise error
    return made[0]


def _disable_queries() -> None:
    """Let this thread's resolver try each nameserver zero times (glibc; elsewhere nothing changes)."""
    libc = ctypes.CDLL(None)
    try:
        init, state = libc["__res_init"], libc["__res_state"]
    except AttributeError:
        return
    state.restype = ctypes.POINTER(ctypes.c_int)
    init()
    state()[1] = 0  # struct __res_state begins with the ints `retrans` and `retry`
