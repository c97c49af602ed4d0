"""Starts the process that forks ranks. To import torch takes longest of all, so nothing else is imported first."""

import atexit
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.ranks.forks import adopt_orphans, children

# Not with -m, which searches the working directory first: a `types.py` there would replace Python's own. A rank later
# puts the folder of its script in the place of os.devnull.
START = """import os, sys
if not sys.flags.safe_path:
    sys.path[0] = os.devnull
sys.path += {sys.argv.pop(1)} - {*sys.path}
from ddpquiz.ranks.server import main
main()"""
OPEN_FILES = 4096  # more than the pipes of the largest run


class ServerProcess:
    """A server that imports torch, our end of the socket to it, and the file that takes its standard error.

    UserError if asserts are turned off or the working folder is gone.
    """

    def __init__(self) -> None:
        if sys.flags.optimize:
            raise UserError("Python runs with -O, which drops the asserts that demos make; start it without -O.")
        try:
            os.getcwd()  # noqa: PTH109  # Path.cwd() is the same
        except FileNotFoundError:
            raise UserError("The current folder was deleted; change to another one.") from None
        self.open_files = _raise_open_files()
        adopt_orphans()  # should the server be killed, the processes of its ranks become our children
        self.other_children = children()
        self.socket, theirs = socket.socketpair()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe would be full one day
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(Path(__file__).parents[2]), str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=None if _has_input() else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self.log, start_new_session=True, env=os.environ | threads,
        )  # fmt: skip
        theirs.close()


def _has_input() -> bool:
    """Whether standard input is a file or a pipe, which ranks may read; the keys of a terminal are ours."""
    if sys.stdin is None:  # it is closed, and another file may have taken its number
        return False
    mode = os.fstat(0).st_mode
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


_early: list[ServerProcess] = []  # started, and not yet taken


def start_early() -> None:
    """Start a server for the connection that is made later. UserError as for `ServerProcess`."""
    _early.append(ServerProcess())
    atexit.register(_end_unused)


def _end_unused() -> None:
    for server in _early:
        server.process.kill()  # it may be busy with an import for a second
        server.process.wait()


def take() -> ServerProcess:
    """The server that was started early, or a new one."""
    return _early.pop() if _early else ServerProcess()


@cache
def _raise_open_files() -> int:
    """Raise the soft limit on open files as far as runs need, and return what it was: the ranks get that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft
