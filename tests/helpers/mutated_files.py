"""Files that somebody may send, of every kind that ddpquiz reads: mutated at random, and given to the command that reads them.

A command may refuse a file in a sentence. It must not end in a traceback, print what steers a terminal, or take long.
"""

import functools
import json
import os
import pickle
import random
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from mutated_runs import CONTROL, EVERY_KIND, RAW, changed, mutated
from nccl_dumps import dump, reduced
from places import DATA, ROOT
from progress_histories import AT, TOOK, exported
from sample import answer_row
from typer.testing import CliRunner

from ddpquiz.cli.app import app
from ddpquiz.curriculum import loading, pack_store
from ddpquiz.errors import UserError
from ddpquiz.events.event import Began, RankEvent, encode
from ddpquiz.learning.database import FILE
from ddpquiz.learning.log_rows import ExplanationRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade
from ddpquiz.ranks.inside.rank_writer import RankWriter

SECONDS, BYTES = 10.0, 1 << 30  # that a file may take of a processor and of memory
WORDS = [
    b"", b"0", b"-1", b"99999999999999999999", b"1e999", b"nan", b"[]", b"{}", b"[[", b"&a", b"*a", b"!x", b"{n}", b"null", b"- ",
    b"\x1b[2J", b"\x9b31m", b"\xe2\x80\xae", b"\xff\xfe", b"\0", b"x" * 5000, b"\r", b"'", b'"', b"<svg>", b"&lt;", b"rank 99999",
    b"[rank1]: ", b"RuntimeError: ", b"\xed\xa0\x80",
]  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Files by their names below a folder, and the words of the commands that read them; {} is the folder.

    They belong together, unless each is sent alone.
    """

    files: Callable[[Path], dict[str, bytes]]
    commands: tuple[tuple[str, ...], ...]
    alone: bool = False


def _recording(folder: Path) -> dict[str, bytes]:
    began = next(event for event in EVERY_KIND if isinstance(event, Began))
    for rank in range(began.ranks):
        writer = RankWriter(folder, 1000, began, 0)
        writer.open(rank)
        for event in EVERY_KIND:
            if isinstance(event, RankEvent) and event.rank == rank:
                writer.send(event)
        writer.close()
    return {path.name: path.read_bytes() for path in sorted(folder.glob("rank-*"))}


def _dumps(_: Path) -> dict[str, bytes]:
    told = dump(reduced([1, 2, 3]))
    return {"trace_0": json.dumps(told).encode(), "trace_1": pickle.dumps(told, protocol=2)}


def _logs(_: Path) -> dict[str, bytes]:
    files = sorted((DATA / "logs").glob("*/log"))
    return {f"{path.parent.name}-{path.name}": path.read_bytes() for path in files}


def _stacks(_: Path) -> dict[str, bytes]:
    files = sorted((DATA / "stacks").glob("*/*"))
    return {f"{path.parent.name}-{path.name}": path.read_bytes() for path in files}


def _ras(_: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((DATA / "ras").glob("*"))}


def _learned(folder: Path) -> Progress:
    progress = Progress(folder)
    for number in range(12):
        receipt = progress.review(f"ring/{number % 5}", Grade(1 + number % 4), AT, TOOK)
        progress.answer(answer_row(f"ring/q{number}", number % 2), AT)
    progress.undo(receipt, AT)
    progress.explain(ExplanationRow(item="ring/why", took=TOOK, given="x", points=(PointRow("all send", True),)), AT)
    return progress


def _progress(folder: Path) -> dict[str, bytes]:
    with _learned(folder):
        pass
    return {FILE: (folder / FILE).read_bytes()}


def _export(folder: Path) -> dict[str, bytes]:
    with _learned(folder) as progress:
        return {"export.json": exported(progress).encode()}


def _pack(folder: Path) -> dict[str, bytes]:
    pack_store.make_pack(folder / "mypack")
    files = [path for path in (folder / "mypack").rglob("*") if path.is_file()]
    drawn = next(iter(sorted((ROOT / "content").rglob("*.svg"))))
    found = {str(path.relative_to(folder / "mypack")): path.read_bytes() for path in files}
    return found | {"pictures/drawn.svg": drawn.read_bytes()}


def _model(_: Path) -> dict[str, bytes]:
    return {"model.yaml": (ROOT / "content/models/llama-3-70b.yaml").read_bytes()}


def _config(_: Path) -> dict[str, bytes]:
    config = {
        "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
        "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 129280, "max_position_embeddings": 163840, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip
    return {"config.json": json.dumps(config, indent=2).encode()}


def _lines(events: object) -> bytes:
    return "".join(encode(event) + "\n" for event in events).encode()  # type: ignore[attr-defined]


KINDS = {
    "recording": Kind(_recording, (("diagnose", "{}", "--summary"), ("diagnose", "{}", "--json"))),
    "dumps": Kind(_dumps, (("diagnose", "{}"), ("diagnose", "{}", "--json"))),
    "saved run": Kind(lambda _: {"run.json": _lines(EVERY_KIND)}, (("diagnose", "{}/run.json", "--summary"),)),
    "logs": Kind(_logs, (("diagnose", "{}"),), alone=True),
    "stacks": Kind(_stacks, (("diagnose", "{}"),), alone=True),
    "RAS": Kind(_ras, (("diagnose", "{}"),)),
    "progress file": Kind(_progress, (("stats",), ("export", "json"))),
    "export": Kind(_export, (("import", "{}/export.json"), ("stats",))),
    "pack": Kind(_pack, (("check", "{}"),)),
    "model": Kind(_model, (("plan", "--model", "{}/model.yaml", "--gpus", "64"),)),
    "config": Kind(_config, (("plan", "--model", "{}/config.json", "--gpus", "64", "--zero", "3"),)),
}


def mutate(data: bytes, dice: random.Random) -> bytes:
    """A file with one to four changes: of a value of JSON, of lines, of a word, or of any bytes."""
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        lines = data.split(b"\n")
        match dice.randrange(8):
            case 0 | 1 if data.lstrip()[:1] == b"{":
                whole = data if len(lines) < 3 else None
                data = changed([whole], 0, dice) if whole else b"\n".join(mutated(lines, dice))
            case 0 | 1 | 2:
                data = b"\n".join(mutated(lines, dice))
            case 3 | 4 | 5:  # a word
                at = dice.randrange(len(data) + 1)
                end = next((i for i in range(at, min(at + 60, len(data))) if data[i : i + 1] in b' \n:,"<>='), at)
                data = data[:at] + dice.choice(WORDS) + data[end:]
            case 6:
                at = dice.randrange(len(data) + 1)
                data = data[:at] + dice.choice(RAW) + data[at + dice.choice((0, 1, 30, 3000)) :]
            case _:  # cut off, or the same part twice
                at, to = sorted(dice.randrange(len(data) + 1) for _ in range(2))
                data = data[:to] + data[at:to] + data[to:] if dice.random() < 0.5 else data[:at]
    return data


_load = functools.cache(loading.load)  # the content is always the same


def attack(name: str, seeds: range, folder: Path) -> tuple[list[tuple[int, str]], int, float]:
    """What went wrong with which seed, how many of the files were read, and the seconds of the slowest."""
    kind, wrong, read, slowest = KINDS[name], [], 0, 0.0
    (folder / "originals").mkdir()
    originals = kind.files(folder / "originals")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in (None, *seeds):  # first as they are, which all commands read
        dice, home, place = random.Random(seed or 0), folder / "home", folder / "sent"
        for each in (home, place):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir()
        hit = dice.choice([*originals])
        sent = {hit: originals[hit]} if kind.alone else originals
        for file, data in sent.items():
            path = (home if name == "progress file" else place) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(mutate(data, dice) if file == hit and seed is not None else data)
        os.environ["DDPQUIZ_HOME"] = str(home)
        for words in kind.commands:
            began = time.process_time()
            with mock.patch.object(loading, "load", _load):
                result = CliRunner().invoke(app, [word.format(place) for word in words], prog_name="ddpquiz")
            took = time.process_time() - began
            slowest, read = max(slowest, took), read + (result.exception is None)
            fault = result.exception
            if seed is None and fault is not None:
                wrong.append((-1, f"{' '.join(words)} does not read what was not mutated: {fault}"))
            if fault is not None and not isinstance(fault, UserError | SystemExit):
                last = fault.__traceback__
                while last is not None and last.tb_next:
                    last = last.tb_next
                at = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else ""
                wrong.append((seed or 0, f"{' '.join(words)}: {type(fault).__name__}: {fault} at {at}"))
            if found := CONTROL.search(result.output):
                wrong.append((seed or 0, f"{' '.join(words)} printed {found[0]!r}"))
            if took > SECONDS:
                wrong.append((seed or 0, f"{' '.join(words)} took {took:.1f} s"))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if grown > BYTES:
            wrong.append((seed or 0, f"took {grown >> 20:,} MB"))
            before += grown // 1024
    return wrong, read, slowest
