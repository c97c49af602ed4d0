"""Every failure is explained in a sentence or two, to the letter: what happened, on which rank, where, what to do."""

import io
import os
import subprocess
import sys
import textwrap
import tomllib

import passed
import pytest
from inline_snapshot import snapshot
from places import ROOT
from real_run import of

from ddpquiz.diagnosis.diagnosis import ADVICE, LONGER
from ddpquiz.events.event import End, Hung, Note, Output, Raised
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks.installed_torch import OLDEST
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.runs.frame import failure, result
from ddpquiz.terminal.runs.plain_lines import print_events

pytestmark = passed.COMMANDS

HEAD = """\
import os, sys, time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=float(os.environ.get("PATIENCE", "60"))))
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2) * (rank + 1)
"""  # five lines: what follows begins at line 6


@pytest.fixture
def run(tmp_path):
    def run(body, ranks=2, head=HEAD, name="train.py", **request):
        path = tmp_path / name
        path.write_text(head + textwrap.dedent(body))
        found = list(Run(Request(path, ranks=ranks, device="cpu", **{"timeout": 20.0} | request)).events())
        assert isinstance(found[-1], End)
        return found

    return run


def shown(events):
    """Return what the last frame and what plain lines say of a failure."""
    picture, framed, lines = (
        RunState(),
        style.console(io.StringIO(), width=200),
        style.console(io.StringIO(), width=200),
    )
    for event in events:
        picture.add(event)
        print_events([event], picture, lines, lines)
    frame = describe_frame(picture)
    framed.print(*failure(frame), result(frame), sep="\n")
    return framed.file.getvalue(), lines.file.getvalue()


# What rank 1 does wrong while the others go on: the message, and what to do.
FAULTS = {
    "raise ValueError('bad')": ("Rank 1 raised ValueError at train.py:8: bad", ADVICE["raised"]),
    "raise RuntimeError('first line\\nsecond line')": (
        "Rank 1 raised RuntimeError at train.py:8: first line",
        ADVICE["raised"],
    ),
    "sys.exit(3)": ("Rank 1 exited with status 3 at train.py:8.", "The script calls sys.exit() there."),
    "os._exit(3)": (
        "Rank 1 exited with status 3, after all_reduce at train.py:6.",
        "It exited without an exception, for example through os._exit().",
    ),
    "sys.exit(-1)": ("Rank 1 exited with status 255 at train.py:8.", "The script calls sys.exit() there."),
    "sys.exit(x is not None)": ("Rank 1 exited with status 1 at train.py:8.", "The script calls sys.exit() there."),
    "sys.exit('')": ("Rank 1 exited with status 1 at train.py:8.", "The script calls sys.exit() there."),
    "sys.exit('needs 5 ranks')": ("needs 5 ranks", ""),
    "sys.exit(0)": (
        "Rank 0 waits in all_reduce at train.py:9 for rank 1: it has finished.",
        ADVICE["left"],
    ),
    "os.kill(os.getpid(), 9)": (
        "Rank 1 was killed by SIGKILL, after all_reduce at train.py:6.",
        "Find out who sent it: a person, a batch system, the kernel (`dmesg`), or the script itself (os.kill).",
    ),
    "os.kill(os.getpid(), 15)": ("Rank 1 was killed by SIGTERM, after all_reduce at train.py:6.", ""),
    "os.kill(os.getpid(), 40)": ("Rank 1 was killed by signal 40, after all_reduce at train.py:6.", ""),
    "raise ValueError('half a character: \\udce9')": (
        "Rank 1 raised ValueError at train.py:8: half a character: ?",
        ADVICE["raised"],
    ),
    "raise type('Odd', (Exception,), {'__str__': lambda self: self.nothing})": (
        "Rank 1 raised Odd at train.py:8: <exception str() failed>",
        ADVICE["raised"],
    ),
    "import ctypes; ctypes.string_at(0)": (
        "Rank 1 crashed with SIGSEGV at train.py:8.",
        "Native code crashed; the stack is above.",
    ),
    "torch.empty(10**15)": (
        "Rank 1 ran out of memory at train.py:8: it asked for 3,638 TiB at once.",
        "The 2 ranks share this machine's memory. Use a smaller model or batch, or fewer ranks (--nproc).",
    ),
    "bytearray(10**15)": (
        "Rank 1 ran out of memory at train.py:8.",
        "The 2 ranks share this machine's memory. Use a smaller model or batch, or fewer ranks (--nproc).",
    ),
    "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has ...')": (
        "Rank 1 ran out of GPU memory at train.py:8: it asked for 20.00 MiB more.",
        "Use a smaller model or batch, or shard the model (FSDP). `nvidia-smi` shows what else uses the GPU.",
    ),
    "import no_such_module": (
        "Rank 1 imports no_such_module at train.py:8, but no such module is installed.",
        "Install it where the script runs. Modules in the script's folder are found, as under torchrun.",
    ),
    "input('name? ')": (
        "Rank 1 waits for keyboard input at train.py:8, but ranks have no keyboard.",
        "Pass the value to the script as an argument.",
    ),
    "dist.init_process_group('gloo')": (
        "Rank 1 calls init_process_group at train.py:8, but a process group exists already.",
        "Call it once, or call dist.destroy_process_group() in between.",
    ),
    "dist.destroy_process_group(); dist.barrier()": (
        "Rank 1 uses torch.distributed at train.py:8, but no process group exists there.",
        "Call dist.init_process_group() before that line, and dist.destroy_process_group() only at the end.",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_one_rank_does_wrong_is_said_with_its_line_and_what_to_do(run, fault):
    *_, end = events = run(f"dist.all_reduce(x)\nif rank == 1:\n    {fault}\ndist.all_reduce(x)\n")
    assert (end.ok, end.rank) == (False, 1)
    assert (end.why, end.advice) == FAULTS[fault]
    for text in shown(events):
        assert f"{end.why}\n{end.advice}".strip() in "\n".join(line.rstrip() for line in text.splitlines())


GPU_USES = [
    "x.cuda()",
    "torch.cuda.set_device(0)",
    "x.to('cuda:0')",
    "torch.ones(1, device='cuda')",
    "x.cuda(list(range(torch.cuda.device_count()))[0])",
]


@pytest.mark.parametrize("use", GPU_USES)
def test_a_script_that_needs_a_gpu_gets_the_line_that_assumes_one(run, use):
    *_, end = run(use, ranks=1)
    assert end.why == "Rank 0 needs a GPU at train.py:6, but this run has none for it: as --device cpu asks."
    assert end.advice == (
        'Choose the device: torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu").'
    )


def test_a_list_that_is_too_short_says_nothing_of_gpus(run):
    *_, end = run("[1, 2][rank + 2]", ranks=1)
    assert (end.why, end.advice) == (
        "Rank 0 raised IndexError at train.py:6: list index out of range",
        ADVICE["raised"],
    )


def test_a_forgotten_init_process_group_is_named_with_the_line_to_add(run):
    *_, end = run("dist.all_reduce(torch.ones(1))", head="import torch, torch.distributed as dist\n")
    assert end.why.removesuffix(f" Rank {1 - end.rank} raised the same error.") == (
        f"Rank {end.rank} uses torch.distributed at train.py:2, but no process group exists there."
    )
    assert end.advice.startswith("Call dist.init_process_group() before that line")


FORGOTTEN = "The script ends without dist.destroy_process_group(); over NCCL torch warns that this leaks."


@pytest.mark.parametrize(("last", "notes"), [("", [FORGOTTEN]), ("dist.destroy_process_group()", [])])
def test_a_forgotten_destroy_process_group_is_noted_once_at_the_end(run, last, notes):
    events = run(f"dist.all_reduce(x)\n{last}", ranks=3)
    assert events[-1].ok
    assert [note.text for note in of(events, Note)] == notes


# How ranks disagree: the message, whether they hang or fail.
MISFITS = {
    "dist.broadcast(x, 0) if rank else dist.all_reduce(x)": (
        (
            "Only rank 1 called broadcast at train.py:6; rank 0 called all_reduce at train.py:6 instead. "
            "As many ranks made the other call, so rank 0 may be at fault instead."
        ),
        "missing",
    ),
    "dist.all_reduce(torch.ones(2 + rank))": (
        (
            "Rank 1 called all_reduce of 3 float32 (sum) at train.py:6, but rank 0 called all_reduce of 2 float32 (sum) at "
            "train.py:6. As many ranks made the other call, so rank 0 may be at fault instead."
        ),
        "signature",
    ),
    "dist.all_reduce(torch.ones(4, dtype=torch.float32 if rank else torch.float64))": (
        (
            "Rank 1 called all_reduce of 4 float32 (sum) at train.py:6, but rank 0 called all_reduce of 4 float64 (sum) at "
            "train.py:6. As many ranks made the other call, so rank 0 may be at fault instead."
        ),
        "signature",
    ),
}


@pytest.mark.parametrize("body", MISFITS)
def test_ranks_that_issue_different_collectives_are_named_with_operations_and_lines(run, body):
    *_, end = run(f"{body}\ntime.sleep(0.2)", timeout=1.0)
    why, fault = MISFITS[body]
    assert (end.ok, end.why, end.advice) == (False, why, ADVICE[fault])


def test_a_misfit_that_went_unnoticed_is_noted(run):
    body = "dist.all_reduce(x, dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)\ndist.destroy_process_group()"
    events = run(body)
    assert events[-1].ok
    assert [note.text for note in of(events, Note)] == [
        "Ranks reduce with different operators: rank 0: all_reduce sum (train.py:6); rank 1: all_reduce max (train.py:6)."
    ]


def test_a_rank_that_never_arrives_is_named_with_where_it_stands_and_every_stack_is_reported(run):
    body = "def step():\n    dist.all_reduce(x)\nif rank == 1:\n    time.sleep(60)\nstep()\n"
    *_, end = events = run(body, ranks=3, timeout=1.0)
    hung = of(events, Hung)[0]
    assert [(each.waits_in, each.line) for each in hung.ranks] == [("all_reduce", 7), ("", 9), ("all_reduce", 7)]
    assert all(f"line {each.line} in " in each.stack for each in hung.ranks)
    assert end.rank == 1
    assert end.why == (
        snapshot(
            "Ranks 0 and 2 wait in all_reduce at train.py:7 for rank 1: it has not reached this call and was last seen at "
            "train.py:9."
        )
    )
    assert end.advice == ADVICE["late"]
    for text in shown(events):
        assert "train.py:10 <module> > " in text
        assert "train.py:7 step" in text
        assert "<" not in text.replace("<module>", "")  # none of our own frames


def test_a_stopped_rank_does_not_answer(run):
    *_, end = run("if rank == 1: os.kill(os.getpid(), 19)\ndist.all_reduce(x)", timeout=1.0)
    assert end.why == (
        snapshot(
            "Rank 0 waits in all_reduce at train.py:7 for rank 1: it does not respond: it is stopped, or busy in native code."
        )
    )
    assert end.rank == 1


def test_a_group_that_times_out_before_we_do_names_the_missing_rank(run, monkeypatch):
    monkeypatch.setenv("PATIENCE", "1")
    *_, end = run("if rank == 1: time.sleep(60)\ndist.all_reduce(x)")
    assert end.why == (
        snapshot(
            "Rank 0 waited in all_reduce at train.py:7 for rank 1 until the group's timeout of 1 s had passed: it has not reached this call and was last seen at train.py:6."
        )
    )
    assert (end.rank, end.advice) == (1, f"{ADVICE['late']} {LONGER}")


def test_a_rank_that_does_not_join_before_the_others_time_out_is_named(run, monkeypatch):
    monkeypatch.setenv("PATIENCE", "1")
    *_, end = run("", head=HEAD.replace("dist.init", "if os.environ['RANK'] == '1': time.sleep(60)\ndist.init"))
    assert end.why == (
        snapshot(
            "Rank 0 waited in init_process_group at train.py:4 for rank 1 until the timeout of 1 s had passed: it has not reached this call and was last seen at "
            "train.py:3."
        )
    )


def test_a_send_without_a_receive_is_explained(run):
    *_, end = run("dist.send(x, 1 - rank)\ndist.recv(x, 1 - rank)", timeout=1.0)
    assert end.why == snapshot("Ranks wait for each other: rank 0 in send at train.py:6; rank 1 in send at train.py:6.")
    assert end.advice == (
        snapshot("All of them send, and none receives: let one side receive first, or send with isend.")
    )


def test_arguments_that_the_script_refuses_are_repeated(run):
    body = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', required=True)\np.parse_args()\n"
    *_, end = run(body, ranks=1)
    assert end.why == snapshot("The script rejects its arguments: the following arguments are required: --lr.")
    assert end.advice == snapshot(
        "What stands after the script, or after a demo's --, goes to it; `--help` there lists its options."
    )


NCCL = HEAD.replace('"gloo"', '"nccl"')


def test_gloo_replaces_nccl_with_a_note_unless_strict(run):
    taken = run("dist.destroy_process_group()", head=NCCL)
    assert taken[-1].ok
    assert [note.text for note in of(taken, Note)] == ["The script asks for nccl; Gloo replaces it on CPU."]
    *_, end = run("", head=NCCL, strict=True)
    assert end.why == snapshot("The script asks for nccl, and --strict forbids Gloo instead: as --device cpu asks.")


def test_a_script_in_another_encoding_that_it_names_runs(tmp_path, run):
    path = tmp_path / "latin.py"
    path.write_bytes("# coding: latin-1\nprint('name: é')\n".encode("latin-1"))
    *_, end = events = list(Run(Request(path, ranks=1, device="cpu")).events())
    assert end.ok
    assert [line.value for line in of(events, Output)] == ["é"]


PACKAGES = {  # a torch that cannot be used, and the message
    "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')": (
        "torch is not installed, and demos run on it; install it as pytorch.org/get-started says."
    ),
    "import no_such_library": (
        "torch is installed, but cannot be imported (No module named 'no_such_library'); "
        "install it as pytorch.org/get-started says once more."
    ),
    "raise OSError('libcudart.so.12: cannot open shared object file')": (
        "torch is installed, but cannot be imported (libcudart.so.12: cannot open shared object file); "
        "install it as pytorch.org/get-started says once more."
    ),
    "__version__ = '2.5.1+cu124'": (
        "torch 2.5.1+cu124 is too old: ranks need 2.6 or newer; install it as pytorch.org/get-started says."
    ),
    "__version__ = '2.13.0'\nclass distributed:\n    is_available = staticmethod(lambda: False)": (
        "torch 2.13.0 was built without torch.distributed, so ranks cannot communicate; "
        "install it as pytorch.org/get-started says."
    ),
}


@pytest.mark.parametrize("source", PACKAGES)
def test_a_torch_that_no_rank_can_use_is_refused_in_a_sentence(tmp_path, source):
    tmp_path.joinpath("torch.py").write_text(source)
    ran = subprocess.run(
        [sys.executable, "-m", "ddpquiz", "run", "--plain", ROOT / "demos/allreduce.py"],
        capture_output=True, text=True, timeout=60, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"{PACKAGES[source]}\n")


TOO_OLD_TO_TEACH = (
    "Demos, labs, proofs and listings of lessons need torch 2.9 or newer, and 2.8.1 is installed; "
    "`study`, `test`, `run`, `ddpquiz.record`, `diagnose` and `plan` work with it."
)


@pytest.mark.parametrize(
    "words",
    [
        "demo allreduce --plain",
        "lab ring-all-reduce --check",
        "prove all-reduce-ring/ring-bytes",
        f"check --proofs {ROOT}/content/collectives/all-reduce-ring.yaml",
    ],
)
def test_demos_labs_and_proofs_are_refused_in_a_sentence_on_a_torch_for_which_they_were_not_written(tmp_path, words):
    folder = tmp_path / "torch-2.8.1.dist-info"  # what Python takes for the torch that is installed
    folder.mkdir()
    folder.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.8.1\n")
    ran = subprocess.run(
        [sys.executable, "-m", "ddpquiz", *words.split()], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "DDPQUIZ_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"{TOO_OLD_TO_TEACH}\n")


def test_the_oldest_torch_is_the_one_that_the_installation_asks_for():
    asked = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    (torch,) = (need for need in asked["project"]["dependencies"] if need.startswith("torch"))
    assert torch == f"torch>={OLDEST[0]}.{OLDEST[1]}", "no upper bound: an installed torch is left alone"


def test_a_traceback_shows_calls_of_the_script_and_of_torch_but_not_ours(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch, torch.distributed as dist\n"
        "from datetime import timedelta\n"
        "dist.init_process_group('gloo', timeout=timedelta(seconds=20))\n"
        "try:\n"
        "    if dist.get_rank() == 0:\n"
        "        dist.all_reduce(torch.ones(1))\n"
        "    else:\n"
        "        dist.destroy_process_group()\n"
        "except RuntimeError as error:\n"
        "    raise ValueError('it failed') from error\n"
    )
    events = Run(Request(path, ranks=2, device="cpu", timeout=20.0)).events()
    [raised] = [event for event in events if isinstance(event, Raised)]
    assert "in all_reduce" in raised.traceback
    assert f'File "{path}", line 6' in raised.traceback
    assert "/ddpquiz/ranks/" not in raised.traceback


def test_a_parameter_that_was_frozen_after_wrapping_is_named_and_not_another(run):
    body = """\
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        for step in range(3):
            if step == 1:
                model[0].requires_grad_(False)
            ddp(x).sum().backward()
    """
    assert run(body)[-1].why.startswith(
        "No gradient in the step before for 0.weight, 0.bias, so DDP raised at train.py:"
    )


def test_a_parameter_that_got_no_gradient_is_named_with_what_ddp_offers(run):
    body = """\
        model = torch.nn.ModuleList([torch.nn.Linear(2, 1) for _ in range(4)])
        model.forward = lambda x: model[0](x)
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        for step in range(2):
            ddp(x).sum().backward()
    """
    ended = run(body)[-1]
    rank = ended.rank
    assert ended.why.removesuffix(f" Rank {1 - rank} raised the same error.") == (
        "No gradient in the step before for 1.weight, 1.bias, 2.weight, 2.bias, 3.weight and 1 more, so DDP raised at "
        f"train.py:10 on rank {rank}."
    )
    assert "find_unused_parameters=True" in ended.advice
