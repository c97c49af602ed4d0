"""A script for ranks: it writes what it sees of its process into FOLDER/RANK.json, as {name: value}.

What differs between any two processes, such as a port, is left out, or told as a fact about it.
"""

import os
import sys

BEFORE = sorted(sys.modules)

# ruff: noqa: E402  # only now the imports of this script

import ctypes
import faulthandler
import fcntl
import gc
import inspect
import json
import locale
import logging
import multiprocessing
import random
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import warnings
from pathlib import Path

IN_A_CHILD = """\
import json, os, resource, signal, sys
seen = {"flags": str(sys.flags), "path": sys.path, "fds": sorted(os.listdir("/dev/fd"))[:4], "files": resource.getrlimit(7)}
seen["ignored"] = [int(each) for each in signal.valid_signals() if signal.getsignal(each) == signal.SIG_IGN]
seen["blocked"] = [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])]
print(json.dumps(seen | {f"environment {name}": value for name, value in os.environ.items()}))
"""


def status(*names):
    """Lines of /proc/self/status (Linux)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: lines[name].strip() for name in names}


def prctl(option):
    value = ctypes.c_int()
    ctypes.CDLL(None).prctl(option, ctypes.byref(value))
    return value.value


def stream(file, original):
    names = "name", "mode", "encoding", "errors", "line_buffering", "write_through", "newlines", "closed"
    seen = {name: getattr(file, name) for name in names} | {"is the original": file is original}
    flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
    unbuffered = not hasattr(file.buffer, "raw")
    return seen | {"fileno": file.fileno(), "flags": flags, "unbuffered": unbuffered, "terminal": file.isatty()}


def child():
    """What a program that the script starts sees."""
    ran = subprocess.run([sys.executable, "-c", IN_A_CHILD], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def seen_by_python():
    main = sys.modules["__main__"]
    yield "arguments", sys.argv
    yield "original arguments", sys.orig_argv[1:]
    for name, value in os.environ.items():
        yield f"environment {name}", value
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    yield (
        "environment in C is the same",
        all(getenv(os.fsencode(name)) == os.fsencode(os.environ[name]) for name in os.environ),
    )
    for name in sorted(vars(main)):
        if name.startswith("__"):
            value = vars(main)[name]
            yield f"main {name}", value if isinstance(value, str) else type(value).__name__
    yield "main is this module", vars(main) is globals()
    yield "main of spawned processes", sys.modules["__mp_main__"] is main
    yield "source of main", inspect.getsource(main) == Path(__file__).read_text()
    yield "search path", sys.path
    yield "finders", [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path]
    yield "working folder", str(Path.cwd())
    yield "flags", str(sys.flags)
    yield "options of warnings", sys.warnoptions
    yield "modules before the first import", [name for name in BEFORE if not name.startswith("ddpquiz")]
    yield (
        "hooks",
        [
            sys.excepthook is sys.__excepthook__,
            sys.unraisablehook is sys.__unraisablehook__,
            sys.displayhook is sys.__displayhook__,
            threading.excepthook is threading.__excepthook__,
            sys.gettrace(),
            sys.getprofile(),
        ],
    )
    yield "locale", [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()]
    yield "limits of Python", [sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()]
    yield "frames below the script", len(inspect.stack(0)) - 3  # this generator, seen(), and the module
    yield "collector", [gc.isenabled(), gc.get_threshold(), gc.get_debug()]
    yield "objects that the collector leaves alone", gc.get_freeze_count() > 0
    yield "faulthandler", faulthandler.is_enabled()
    yield "folder for temporary files", tempfile.gettempdir()
    yield "timeout of sockets", socket.getdefaulttimeout()
    process = multiprocessing.current_process()
    yield (
        "multiprocessing",
        [process.name, str(multiprocessing.parent_process()), process.daemon, process.pid == os.getpid()],
    )
    yield "way to start processes", multiprocessing.get_start_method(allow_none=True)
    yield "root logger", [logging.root.level, len(logging.root.handlers)]
    yield "threads of Python", [thread.name for thread in threading.enumerate()]
    yield "random", random.random()
    yield "hash", hash("a word")


def seen_of_the_process():
    for number in sorted(signal.valid_signals()):
        yield f"signal {int(number)}", str(signal.getsignal(number))
    yield "blocked signals", sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    for name in dir(resource):
        if name.startswith("RLIMIT"):
            yield name, resource.getrlimit(getattr(resource, name))
    yield "nice", os.nice(0)
    mask = os.umask(0)
    os.umask(mask)
    yield "umask", mask
    yield "leads its session", os.getsid(0) == os.getpid()
    yield "leads its process group", os.getpgrp() == os.getpid()
    for name in ("stdin", "stdout", "stderr"):
        for what, value in stream(getattr(sys, name), getattr(sys, f"__{name}__")).items():
            yield f"{name} {what}", value
    there = [int(fd.name) for fd in [*Path("/dev/fd").iterdir()] if fd.is_symlink() and int(fd.name) > 2]
    yield "descriptors", [fd for fd in there if fd < 100]
    yield "descriptors from 100 on", len([fd for fd in there if fd >= 100])
    if sys.platform == "linux":
        yield "command line", Path("/proc/self/cmdline").read_text().split("\0")[1:]
        for name, value in status("SigIgn", "SigBlk", "SigCgt", "Threads", "NoNewPrivs", "Cpus_allowed").items():
            yield f"status {name}", value
        yield "signal at the end of the parent", prctl(2)
        yield "adopts orphans", prctl(37)
        yield "standard input", sys.stdin.read() if os.environ["RANK"] == "0" else ""
    for name, value in child().items():
        yield f"child {name}", value


def seen_by_torch():
    import torch
    import torch.distributed as dist

    yield "torch modules", sorted(name for name in sys.modules if name.partition(".")[0] == "torch")
    yield "filters of warnings", [str(each) for each in warnings.filters]
    loggers = {name: each for name, each in logging.root.manager.loggerDict.items() if isinstance(each, logging.Logger)}
    yield "loggers", sorted(str((name, each.level, len(each.handlers))) for name, each in loggers.items())
    yield "threads of torch", [torch.get_num_threads(), torch.get_num_interop_threads()]
    yield "parallel", [line for line in torch.__config__.parallel_info().splitlines() if "hread" in line]
    yield (
        "defaults",
        [str(torch.get_default_dtype()), str(torch.get_default_device()), str(torch._tensor_str.PRINT_OPTS)],
    )
    yield (
        "deterministic",
        [torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()],
    )
    yield "precision", [torch.get_float32_matmul_precision(), torch.tensor([1e-310], dtype=torch.float64).item()]
    yield "grad mode", [torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()]
    yield "GPUs", torch.cuda.device_count()
    yield "sharing of tensors", torch.multiprocessing.get_sharing_strategy()
    yield "debug level", str(dist.get_debug_level())
    yield "launched by torchrun", dist.is_torchelastic_launched()
    yield "group exists", dist.is_initialized()
    yield "random of torch", torch.rand(1).item()
    yield "seed of torch", torch.initial_seed()
    if numpy := sys.modules.get("numpy"):
        yield "random of numpy", numpy.random.rand()
        yield "errors of numpy", str(numpy.geterr())
    dist.init_process_group("gloo")
    yield "backend", dist.get_backend()
    dist.barrier()  # a rank that leaves while another still connects makes that one fail
    dist.destroy_process_group()


def seen():
    found = {}
    for part in (seen_by_python, seen_of_the_process, seen_by_torch):
        found |= dict(part())
    return found


if __name__ == "__main__":
    sys.stdout.write(f"seen: {sys.argv[3]}\n")  # at once: what ranks print may mix
    Path(sys.argv[1], f"{os.environ['RANK']}.json").write_text(json.dumps(seen(), indent=1))
