"""Where ranks find each other: the variables that torchrun would set, and one store for every address."""

import collections
import functools
import importlib
import multiprocessing.spawn
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ddpquiz.ranks.store import no_lookups

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"  # that torchrun passes on


def environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """The variables that torchrun would set, and those that hold all traffic on this machine."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    r, n = str(rank), str(ranks)
    return {
        "RANK": r, "LOCAL_RANK": r, "ROLE_RANK": r, "GROUP_RANK": "0", "ROLE_NAME": "default",
        "WORLD_SIZE": n, "LOCAL_WORLD_SIZE": n, "ROLE_WORLD_SIZE": n, "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": SIGNALS, "TORCHELASTIC_ERROR_FILE": os.devnull,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "GLOO_SOCKET_IFNAME": loopback, "TP_SOCKET_IFNAME": loopback,
    }  # fmt: skip


def use_store(
    host: str, port: int, life: str, *, spawned: bool = False, note: Callable[[str], None] = lambda _: None
) -> None:
    """Let every rendezvous of this process use the store of the run, whatever address it names.

    torch's own stores would listen on all addresses. `life` separates the keys of ranks from those that they had before
    a restart. The key of a rendezvous holds the port that the script names, since that is what tells two groups on one
    machine apart, and how often this process has met others there. Ranks that a script starts itself are counted as
    they come: the first `world_size` of them form a group, the next ones another. `note` gets sentences on what a
    rendezvous asks for that torchrun would not give.
    """
    look_nothing_up()
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")  # dist.rendezvous is a function
    calls: collections.Counter[int] = collections.Counter()
    process, launched = os.getpid(), int(os.environ.get("WORLD_SIZE", "0"))

    def store(*args: Any, **kwargs: Any) -> dist.Store:
        asked = dict(zip(("host_name", "port", "world_size", "is_master", "timeout"), args, strict=False)) | kwargs
        timeout, port_asked = asked.get("timeout", timedelta(minutes=5)), asked["port"]
        ours = dist.TCPStore(host, port, is_master=False, timeout=timeout)
        key = f"rendezvous {life} {port_asked} {calls[port_asked]}"
        calls[port_asked] += 1
        if spawned or os.getpid() != process:
            key += f" of {os.getppid()}"
            key += f" {(ours.add(key, 1) - 1) // (asked.get('world_size') or 1)}"
        else:
            _note_difference(note, port_asked, port, asked.get("world_size") or 0, launched)
        return dist.PrefixStore(key, ours)

    rendezvous.TCPStore = store
    _send_spawned_there(host, port, life)


@functools.cache
def look_nothing_up() -> None:
    """Let no store that this process or its children make, the script's own included, ask a nameserver."""
    original = dist.TCPStore.__init__

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> None:
        with no_lookups():
            original(*args, **kwargs)

    dist.TCPStore.__init__ = make


def _note_difference(note: Callable[[str], None], port_asked: int, port: int, asked: int, launched: int) -> None:
    """Note what a rendezvous of a rank asks for that differs from what its launcher gave it."""
    if port_asked != port and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        note(
            f"The script names port {port_asked} itself; under torchrun, whose store listens on another port, it would "
            "wait there forever. Leave the port to the launcher: init_process_group() finds it in MASTER_PORT."
        )
    if asked > launched > 0:
        note(
            f"The script asks for {asked} ranks, but there are {launched}: they wait for the others forever. Take the "
            f"world size from WORLD_SIZE, or give --nproc {asked}."
        )


def _send_spawned_there(host: str, port: int, life: str) -> None:
    """Let the processes that multiprocessing spawns from this one use the same store."""
    original = multiprocessing.spawn.get_command_line
    first = (
        f"from ddpquiz.ranks.inside.store_patch import use_store; use_store({host!r}, {port}, {life!r}, spawned=True); "
    )

    @functools.wraps(original)
    def get_command_line(**kwargs: Any) -> list[str]:
        command: list[str] = original(**kwargs)
        code = command.index("-c") + 1
        command[code] = first + command[code]
        return command

    multiprocessing.spawn.get_command_line = get_command_line


def note_spawned_ranks(note: Callable[[str], None]) -> None:
    """Call `note` when the script starts ranks of its own with torch.multiprocessing."""
    spawning: Any = importlib.import_module("torch.multiprocessing.spawn")
    original = spawning.start_processes

    @functools.wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        once = "Give --nproc 1. " if os.environ.get("WORLD_SIZE", "1") != "1" else ""
        note(
            f"The script starts ranks of its own with torch.multiprocessing; those are not watched. {once}To see what "
            "they do, put the body of the function that it starts inside `with ddpquiz.record.start(FOLDER):`, and "
            "run `ddpquiz diagnose FOLDER`."
        )
        return original(*args, **kwargs)

    spawning.start_processes = start_processes
    importlib.import_module("torch.multiprocessing").start_processes = start_processes  # type: ignore[attr-defined]
