"""Starts a rank in a Python interpreter of its own, as torchrun does: it shares no hash secret with other ranks.

A rank is forked as usual, and then becomes the new interpreter: its process id, its pipes, and what happens to it when
its parent dies stay the same. It imports torch itself, which takes a second or two.
"""

import os
import pickle
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from ddpquiz.ranks.forks import STACK_BY_FORCE, STACK_SIGNAL, THREADS_SIGNAL
from ddpquiz.ranks.messages import RunPlan

# As the server itself is started: see START in server_process.py.
_START = """import os, sys
if not sys.flags.safe_path:
    sys.path[0] = os.devnull
sys.path += {sys.argv.pop(1)} - {*sys.path}
from ddpquiz.ranks.fresh_rank import main
main()"""


def exec_rank(rank: int, fds: list[int], plan: RunPlan, variables: dict[str, str]) -> NoReturn:
    """Become a new interpreter that runs the script of a plan as a rank: see worker.run."""
    with tempfile.TemporaryFile() as file:
        pickle.dump((rank, fds, plan, variables), file)
        file.flush()
        for fd in (file.fileno(), *fds):
            os.set_inheritable(fd, True)
        arguments = [sys.executable, "-c", _START, str(Path(__file__).parents[2]), str(file.fileno())]
        if STACK_BY_FORCE is not None:  # before libraries start threads: see answer_signals in inside/main_thread.py
            signal.pthread_sigmask(signal.SIG_BLOCK, (STACK_SIGNAL, THREADS_SIGNAL or STACK_SIGNAL))
        os.execve(sys.executable, arguments, {**plan.environment, **variables})  # noqa: S606  # no shell


def main() -> None:
    """Run the rank that the file describes whose descriptor is the only argument."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        file.seek(0)
        rank, fds, plan, variables = pickle.load(file)  # noqa: S301  # from our own parent
    from ddpquiz.ranks.inside import worker

    worker.run(rank, fds, plan, variables)
