"""Lets another process ask this rank where all of its threads are, while it hangs too (Linux)."""

import faulthandler
import os
import signal

from ddpquiz.ranks.inside.event_writer import move_up
from ddpquiz.ranks.process_stacks import MEMORY_FILE, THREADS_SIGNAL


def offer(rank: int) -> None:
    """Write the stacks of all threads into memory that others can open, when the signal comes; so do forked children.

    The C handler of faulthandler does so whatever Python is busy with.
    """
    create = getattr(os, "memfd_create", None)
    if create is None or THREADS_SIGNAL is None or signal.getsignal(THREADS_SIGNAL) is not signal.SIG_DFL:
        return
    file = move_up(create(f"{MEMORY_FILE}{rank}"))
    faulthandler.register(THREADS_SIGNAL, file=file, all_threads=True)
