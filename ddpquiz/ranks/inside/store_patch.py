"""Where ranks find each other: what torchrun would tell them, and one store, whatever address their script names."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing.spawn
import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable


def environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return what torchrun would set, and what keeps all traffic on this machine."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    r, n = str(rank), str(ranks)
    return {
        "RANK": r, "LOCAL_RANK": r, "ROLE_RANK": r, "GROUP_RANK": "0", "ROLE_NAME": "default",
        "WORLD_SIZE": n, "LOCAL_WORLD_SIZE": n, "ROLE_WORLD_SIZE": n, "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "TORCHELASTIC_ERROR_FILE": os.devnull,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "GLOO_SOCKET_IFNAME": loopback, "TP_SOCKET_IFNAME": loopback,
    }  # fmt: skip


def meet(host: str, port: int, life: str, *, own: bool = False) -> None:
    """Let every rendezvous of this process use our store, whatever address it names: torch's own listen everywhere.

    `life` keeps the groups of one set of ranks from finding keys of another. Ranks that a script starts itself are
    counted as they come: the first `world_size` of them are a set, the next ones another.
    """
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")  # the package's attribute is a function
    calls, process = itertools.count(), os.getpid()

    def store(*_: Any, **kwargs: Any) -> dist.Store:
        ours = dist.TCPStore(host, port, is_master=False, timeout=kwargs.get("timeout", timedelta(minutes=5)))
        whose = f"rendezvous {life} {next(calls)}"
        if own or os.getpid() != process:
            whose += f" of {os.getppid()}"
            whose += f" {(ours.add(whose, 1) - 1) // (kwargs.get('world_size') or 1)}"
        return dist.PrefixStore(whose, ours)

    rendezvous.TCPStore = store
    _send_spawned_there(host, port, life)


def wait_for_all() -> None:
    """Come back when every rank of the default group is in it.

    Over Gloo a rank may be in while a slower one is still connecting; if it leaves at once, that one fails with
    "Connection closed by peer".
    """
    store, ranks = dist.distributed_c10d._get_default_store(), dist.get_world_size()
    if store.add("ddpquiz ranks in", 1) == ranks:
        store.set("ddpquiz all in", "yes")
    store.wait(["ddpquiz all in"])


def _send_spawned_there(host: str, port: int, life: str) -> None:
    """Let the processes that multiprocessing spawns from this one meet in our store too."""
    original = multiprocessing.spawn.get_command_line
    first = f"from ddpquiz.ranks.inside.store_patch import meet; meet({host!r}, {port}, {life!r}, own=True); "

    def get_command_line(**kwargs: Any) -> list[str]:
        command: list[str] = original(**kwargs)
        code = command.index("-c") + 1
        command[code] = first + command[code]
        return command

    multiprocessing.spawn.get_command_line = get_command_line


def tell_of_spawning(tell: Callable[[str], None]) -> None:
    """Call `tell` when the script starts ranks of its own with torch.multiprocessing."""
    spawning: Any = importlib.import_module("torch.multiprocessing.spawn")
    original = spawning.start_processes

    def start_processes(*args: Any, **kwargs: Any) -> Any:
        tell(
            "The script starts ranks of its own with torch.multiprocessing; those are not watched. Give --nproc 1, or "
            "let `ddpquiz run` start the ranks: they find RANK and WORLD_SIZE in os.environ."
        )
        return original(*args, **kwargs)

    spawning.start_processes = start_processes
    importlib.import_module("torch.multiprocessing").start_processes = start_processes  # type: ignore[attr-defined]
