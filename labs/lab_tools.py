"""What the checks of the labs share: the learner's file, seeds, delays, comparisons, phases and live memory.

A check is a plain torchrun script that imports torch, the standard library and this module. It runs like this:

    torchrun --nproc-per-node 4 labs/ring_all_reduce/check.py ring_all_reduce.py --seed 7
"""

import argparse
import contextlib
import importlib.util
import io
import math
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

_HOSTED = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun's store outlives the ranks
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_ATTEMPT = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")


class Check:
    """One check on this rank: the learner's module, the group of all ranks, and the seeds to use.

    `needed` are the names that the learner's file must define. `options` are further arguments of the check with their
    default values: `layers=4` is read from `--layers`. Leave the check with `end`.
    """

    def __init__(self, *needed: str, **options: Any) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("file", type=Path, help="the file to check")
        parser.add_argument("--seed", type=int, action="append", help="may be repeated; 1 without it")
        for name, default in options.items():
            parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
        self.args = parser.parse_args()
        _form_group()
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.random = random.Random()  # the same on every rank
        self._own_random = random.Random()
        self._cases = 0
        self.learner: Any = _load(self.args.file, needed)

    def seeds(self) -> Iterator[int]:
        """Yield each seed once, after all ranks have finished with the one before and all dice are seeded with it."""
        for seed in self.args.seed or [1]:
            dist.barrier()
            print(f"seed: {seed}", flush=True)
            self.random.seed(seed)
            self._own_random.seed(1000 * seed + self.rank)
            torch.manual_seed(seed)
            yield seed
            self._cases += 1

    def tensor(self, *shape: int, of_rank: int | None = None) -> torch.Tensor:
        """Return the input of a rank, by default of this one: whole numbers, whose sums are exact in any order.

        The next tensors differ from these. Every rank must ask for the same tensors in the same order, since all of
        them draw the inputs of all ranks: `tensors` returns these.
        """
        return self.tensors(*shape)[self.rank if of_rank is None else of_rank]

    def tensors(self, *shape: int) -> list[torch.Tensor]:
        """Return an input for each rank; every rank gets the same list."""
        return [torch.randint(-50, 50, shape).float() for _ in range(self.world_size)]

    def delay(self, longest: float = 0.01) -> None:
        """Sleep for a random time on this rank, so that ranks arrive in a different order each time."""
        time.sleep(self._own_random.random() * longest)

    @contextlib.contextmanager
    def phase(self, name: str, **values: float) -> Iterator[dict[str, float]]:
        """Mark what the budgets of phase `name` measure: the learner's code runs in here, and nothing else.

        Budgets may use `values`, and what the block adds to the dictionary that it gets, such as `peak`.
        """
        _print_phase(name, values)
        measured: dict[str, float] = {}
        yield measured
        _print_phase("end", measured)

    def end(self) -> None:
        """Say that this rank has finished its check."""
        dist.barrier()
        print(f"checked: {self._cases}", flush=True)
        dist.destroy_process_group()


class Restarts:
    """A run in which the check kills ranks on purpose, so that torchrun starts all of them again.

    All ranks share `folder`, which outlives them until `end` removes it. `stage` is 0 at first, and then what the rank
    that was killed last passed to `die`. Ranks that failed otherwise start again in the same stage.
    """

    def __init__(self) -> None:
        if os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") == "0":
            sys.exit("This check kills ranks, so torchrun has to start them again: use --max-restarts 2.")
        job = os.environ["MASTER_PORT"] if _HOSTED else os.environ["TORCHELASTIC_RUN_ID"]  # the same in each attempt
        self.folder = Path(tempfile.gettempdir(), f"ddpquiz-lab-{os.getuid()}-{job}")
        if dist.get_rank() == 0 and _ATTEMPT == "0":
            shutil.rmtree(self.folder, ignore_errors=True)  # left by a run that failed
            _remove_old_folders(self.folder.parent)
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir(mode=0o700)
        dist.barrier()
        if not _is_private(self.folder):
            sys.exit(f"{self.folder} was made by another user; set TMPDIR to a folder of your own.")
        self._stage = self.folder / "stage"
        self.stage = int(self._stage.read_text()) if self._stage.exists() else 0

    def die(self, stage: int) -> NoReturn:
        """Kill this process; all ranks go on with `stage`."""
        self._stage.write_text(str(stage))
        os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit  # not reached

    def end(self) -> None:
        """Remove the folder when no rank needs it any more."""
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(self.folder)


class Disk:
    """Sees what this rank is about to do in the folder of a run, just before it is done, and may kill the rank there.

    `changes` counts changes of files, and `read` has the files that are read. `fatal` is the number of the change in
    which the rank is killed, or "write" for the first file that it writes. A file that it writes then is left torn:
    half of it is there if torch writes it, and otherwise nothing. `slow` is how many seconds longer each change takes.
    """

    def __init__(self, restarts: Restarts) -> None:
        self._restarts = restarts
        self._watching = True
        self.changes, self.slow = 0, 0.0
        self.read: set[str] = set()
        self.fatal: int | str = 0
        self._torch_save, torch.save = torch.save, self._save
        sys.addaudithook(self._watch)

    def _save(self, obj: object, file: Any, *args: Any, **options: Any) -> None:
        """Save as torch does, or only half of it."""
        name = file if isinstance(file, str | os.PathLike) else getattr(file, "name", "")
        if not self._is_here(name):  # in memory, as all_gather_object does with tensors
            self._torch_save(obj, file, *args, **options)
            return
        self._watching = False
        if self._is_fatal(writes=True):
            whole = io.BytesIO()
            self._torch_save(obj, whole, *args, **options)
            half = whole.getvalue()[: whole.tell() // 2]
            if isinstance(file, str | os.PathLike):
                Path(file).write_bytes(half)
            else:
                file.write(half)
                file.flush()
            self._kill()
        self._torch_save(obj, file, *args, **options)
        self._watching = True

    def _watch(self, event: str, args: tuple[Any, ...]) -> None:
        """Look at what Python is about to do."""
        if not (self._watching and args and self._is_here(args[0])):
            return
        flags = args[2] if event == "open" else 0
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        if event == "open" and not writes:
            self.read.add(str(args[0]))
        elif (writes or event in _CHANGES) and self._is_fatal(writes):
            self._watching = False
            if flags & os.O_TRUNC:
                Path(args[0]).write_bytes(b"")
            self._kill()

    def _is_here(self, file: object) -> bool:
        return str(file).startswith(str(self._restarts.folder))

    def _is_fatal(self, writes: bool) -> bool:
        self.changes += 1
        time.sleep(self.slow)
        return self.fatal == ("write" if writes and self.fatal == "write" else self.changes)

    def _kill(self) -> None:
        time.sleep(0.02)  # meanwhile the others go on, unless they wait for this rank
        self._restarts.die(self._restarts.stage + 1)


def same(found: Any, expected: Any, *, tolerance: float = 0.0, what: str = "", before: Any = None) -> bool:
    """Return whether a tensor or number is as expected; print the first difference if it is not.

    `tolerance` is relative to the largest number that is expected. `what` names the tensor, as in "`x.grad`", or says
    what was counted, such as `batches`; a count needs it. With `before`, what the tensor was before the learner's code
    ran, the difference says that nothing has changed it. In a claim: `assert same(x, total, what="`x`"), "the sum"`.
    """
    difference = _difference(found, expected, tolerance, what, before)
    if difference and what and not isinstance(expected, torch.Tensor):
        is_count = type(found) is type(expected) is int
        difference = f"{found} {what}, expected {expected}" if is_count else f"{what}: {difference}"
    if difference:
        print(f"differs: {difference}", flush=True)
    return not difference


def differs(text: str) -> None:
    """Print what is wrong, in words: `3 all_reduce calls, expected 1`. The verdict shows it beside the claim."""
    print(f"differs: {text}", flush=True)


def raised(call: str, wrong: Exception, file: Path) -> None:
    """Print what a function of the learner's file raised, where the check catches it: the type, line and message."""
    here = str(file.absolute())
    line = next((at.lineno for at in reversed(traceback.extract_tb(wrong.__traceback__)) if at.filename == here), None)
    where = f" in line {line}" if line else " when the check called it"
    message = str(wrong).strip().partition("\n")[0]
    differs(f"`{call}` raised {type(wrong).__name__}{where}{': ' if message else ''}{message[:300]}")


@contextlib.contextmanager
def explain_hang(explain: Callable[[], str]) -> Iterator[None]:
    """Print what `explain` says when the block has stood still; if the ranks hang there, the verdict says it.

    `explain` runs in a thread of its own. It returns "" if it sees nothing wrong.
    """
    over = threading.Event()

    def watch() -> None:
        said = before = ""
        while not over.wait(0.5):
            now = explain()
            if now and now == before and now != said and not over.is_set():
                print(f"stuck: {now}", flush=True)
                said = now
            before = now

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


class LiveMemory(TorchDispatchMode):
    """Counts the bytes of all storages that are alive of those made inside the block, and of those passed to `watch`.

    `now` is the sum and `peak` its highest value. Views share a storage, which counts once. A storage that would take
    the sum above `limit` counts only after `wait_below`: Gloo's threads may still hold what the code has dropped. Once
    such a wait was in vain, later objects do not wait, and their `peak` stays at `limit`: only the first excess counts.
    """

    _patient = True  # until a wait was in vain: the code holds too much, and long waits would only take time

    def __init__(self, limit: float = math.inf) -> None:
        super().__init__()
        self.limit = limit
        self.now = self.peak = 0
        self._tells_excess = LiveMemory._patient
        self._sizes: dict[int, int] = {}

    def watch(self, *tensors: torch.Tensor) -> None:
        """Count tensors that were made before."""
        for tensor in tensors:
            self._add(tensor)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes seconds, before the first operation

    def wait_below(self, limit: float, seconds: float = 2.0) -> int:
        """Return `now` as soon as it is at most `limit`: Gloo's threads free what they sent a moment after the call."""
        end = time.monotonic() + (seconds if LiveMemory._patient else seconds / 20)
        while self.now > limit:
            time.sleep(0.001)
            if time.monotonic() > end:
                LiveMemory._patient = False
                break
        return self.now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_storage_key(each) for each in tree_iter((args, kwargs)) if isinstance(each, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        for each in tree_iter(out):
            if isinstance(each, torch.Tensor) and _storage_key(each) not in given:  # else it writes to what was there
                self._add(each)
        return out

    def _add(self, tensor: torch.Tensor) -> None:
        storage, key = tensor.untyped_storage(), _storage_key(tensor)
        if key in self._sizes:
            return
        if LiveMemory._patient:
            self.wait_below(self.limit - storage.nbytes())
        self._sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now if self._tells_excess else min(self.now, self.limit))
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key: int) -> None:
        self.now -= self._sizes.pop(key, 0)


def _form_group() -> None:
    """Form the group of all ranks; after a restart, the store still has the keys of the last one (pytorch 135712)."""
    if not _HOSTED or _ATTEMPT == "0":
        dist.init_process_group("gloo")
        return
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=dist.PrefixStore(f"attempt {_ATTEMPT}", store), rank=rank, world_size=world)


def _remove_old_folders(parent: Path) -> None:
    """Remove what runs that failed more than an hour ago left."""
    for folder in parent.glob(f"ddpquiz-lab-{os.getuid()}-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > 3600:
                shutil.rmtree(folder)


def _is_private(folder: Path) -> bool:
    """Return whether this is a folder, not a link to one, in which no other user can write."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _storage_key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _load(file: Path, needed: tuple[str, ...]) -> ModuleType:
    """Import the learner's file; exit with a sentence if it lacks a name."""
    if not file.is_file():
        sys.exit(f"There is no file {file}.")
    spec = importlib.util.spec_from_file_location(file.stem, file.absolute())
    if spec is None or spec.loader is None:
        sys.exit(f"{file} is not a Python file.")
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in needed:
        if not callable(getattr(module, name, None)):
            sys.exit(f"{file.name} does not define `{name}`, which the check calls.")
    return module


def _print_phase(name: str, values: dict[str, float]) -> None:
    sys.stdout.flush()
    print(
        " ".join(
            [
                f"phase: {name}",
                *(f"{key}={float(value):g}" if value % 1 else f"{key}={int(value)}" for key, value in values.items()),
            ]
        ),
        flush=True,
    )


def _difference(found: Any, expected: Any, tolerance: float, what: str = "", before: Any = None) -> str:
    if not isinstance(expected, torch.Tensor):
        if found is None:
            return f"the result is None, expected {_short(expected)}"
        if isinstance(expected, float) or tolerance:
            fine = isinstance(found, int | float) and abs(found - expected) <= tolerance * abs(expected)
        else:
            fine = found == expected
        return "" if fine else f"{_short(found)}, expected {_short(expected)}"
    of = f" of {what}" if what else ""
    if not isinstance(found, torch.Tensor):
        kind = "None" if found is None else _kind(found)
        return f"{what or 'the result'} is {kind}, expected {_kind(expected)}"
    if found.shape != expected.shape:
        return f"the shape{of} is {tuple(found.shape)}, expected {tuple(expected.shape)}"
    if found.dtype != expected.dtype:
        return f"the dtype{of} is {found.dtype}, expected {expected.dtype}"
    ours, theirs = _numbers(found), _numbers(expected)
    limit = tolerance * max(theirs.abs().max().item(), 1e-30) if theirs.numel() else 0.0
    wrong = ((ours - theirs).abs() > limit) | (ours.isnan() != theirs.isnan())
    count = int(wrong.sum())
    if not count:
        return ""
    at = int(wrong.nonzero()[0])
    which = f"element {at} of {wrong.numel()}{of}" if wrong.numel() > 1 else what or "the number"
    more = f" ({count} elements differ)" if count > 1 else ""
    digits = 7 if f"{ours[at].item():.7g}" != f"{theirs[at].item():.7g}" else 17
    looks = _looks(ours, theirs, None if before is None else _numbers(before))
    return f"{which} is {ours[at].item():.{digits}g}, expected {theirs[at].item():.{digits}g}{more}{looks}"


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().double().flatten()


def _looks(found: torch.Tensor, expected: torch.Tensor, before: torch.Tensor | None) -> str:
    """Say what wrong numbers look like as a whole: what was there before, zeros, a multiple, or another order."""
    n, close = int(os.environ.get("WORLD_SIZE", "1")), 1e-4 * expected.abs().max().item()
    if before is not None and torch.equal(found, before):
        return "; it still holds what this rank had before"
    if not found.any():
        return "; all are 0" if found.numel() > 1 else ""
    if not close or found.isnan().any():
        return ""
    if n > 1 and (found - n * expected).abs().max() <= n * close:
        return f"; {n} times too large, as a sum over {n} ranks is compared with a mean"
    if n > 1 and (n * found - expected).abs().max() <= close:
        return f"; {n} times too small, as a mean over {n} ranks is compared with a sum"
    if found.numel() > 1 and (found.sort().values - expected.sort().values).abs().max() <= close:
        return "; the numbers are right, but are in the wrong places"
    return ""


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
