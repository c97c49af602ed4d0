"""Read the measured runs beside which benchmarks/published_runs.py puts the predictions of `ddpquiz plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from ddpquiz.curriculum.fields import Fields, did_you_mean
from ddpquiz.curriculum.plan_files import load_hardware, load_model, names, read_amount
from ddpquiz.curriculum.yaml_file import YamlFile
from ddpquiz.errors import ContentError
from ddpquiz.paths import content_dir
from ddpquiz.planning.hardware import Hardware
from ddpquiz.planning.layout import Layout, PipelineSchedule, Recompute, refusal
from ddpquiz.planning.memory import Sizes, States
from ddpquiz.planning.model import Transformer
from ddpquiz.planning.stage_time import Accelerator
from ddpquiz.planning.step_traffic import Job

FILE = "published-runs.yaml"
_SIZES = ("tp", "pp", "cp", "dp", "ep", "chunks")
_MOST = 10**7
_KEYS = ("layers", "hidden", "heads", "vocabulary")
UNITS = {  # of what was measured
    "step": "s",
    "rate": "tokens/s",
    "tflops": "TFLOP/s",
    "memory": "GiB",
    "activations": "GiB",
    "states": "GiB",
    "mfu": "%",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A measured run: its job, what was measured, and the value.

    `what` is `step` (seconds), `rate` (tokens/s/GPU), `tflops` (model TFLOP/s of a GPU), `mfu` (percent, computed from
    the published `seconds`), `memory` (held: states and activations), `activations`, or `states` of the matrices alone.
    `parameters` replaces the model where only its size is published; then `decimal` says that GB are 10^9 bytes.
    Constants of its GPU were fitted to it if `fit` is set. `software` names older software, with an efficiency of its
    own on the same GPU. `miss` says why the prediction misses it.
    """

    name: str
    what: str
    published: float
    source: str
    job: Job
    machine: Accelerator
    seconds: float = 0.0
    parameters: float = 0.0
    decimal: bool = False
    fit: bool = False
    software: str = ""
    miss: str = ""


def load_runs(path: Path | None = None) -> list[PublishedRun]:
    """Load the published runs; ContentError with all complaints."""
    page, runs = read_runs(YamlFile.open(path or content_dir() / FILE))
    if page.complaints:
        raise ContentError(tuple(sorted(page.complaints)))
    return runs


def check_runs(folder: Path, sources: Mapping[str, object]) -> YamlFile:
    """Read the published runs of a content folder, if it has some; each must have a source in sources.yaml."""
    path = folder / FILE
    if not path.is_file():
        return YamlFile(FILE, b"[]")
    page, _ = read_runs(YamlFile.open(path))
    for mention in page.mentions:
        if mention.value not in sources:
            near = did_you_mean(mention.value, sources)
            page.complain(mention.node, f"there is no source `{mention.value}` in sources.yaml{near}")
    return page


def read_runs(page: YamlFile) -> tuple[YamlFile, list[PublishedRun]]:
    """Read a file of runs. The result has those without complaints."""
    if page.root is None:
        return page, []
    record = Fields(page, page.root, "the published runs")
    software = dict(record.records("software", "software", partial(_software, page), optional=True))
    found = record.records("runs", "a run", partial(_run, page, software))
    record.close()
    return page, [run for run in found if run]


def _software(page: YamlFile, row: Fields) -> tuple[str, float]:
    """Read the name of older software and the efficiency that it reaches."""
    page.mention("source", row.text("source"), row.at("source"))
    return row.text("name"), _number(row, "efficiency")


def _run(page: YamlFile, software: Mapping[str, float], row: Fields) -> PublishedRun | None:
    before = len(page.complaints)
    name, what, source = row.text("name"), row.text("what"), row.text("source")
    page.mention("source", source, row.at("source"))
    if what not in UNITS:
        row.complain("what", f"`{what}` is not one of {', '.join(UNITS)}{did_you_mean(what, UNITS)}")
    numbers: dict[str, Any] = {key: _number(row, key) for key in ("seconds", "parameters") if key in row}
    published = _number(row, "published")
    flags: dict[str, Any] = {key: row.flag(key) for key in ("decimal", "fit")}
    miss, older = row.text("miss", optional=True), row.text("software", optional=True)
    if older and older not in software:
        row.complain("software", f"there is no software `{older}`{did_you_mean(older, software)}")
    model, machine = _model(row), _machine(row, software.get(older))
    layout, sizes = _layout(row), _sizes(row)
    row.close()
    if len(page.complaints) > before or model is None or machine is None:
        return None
    if why := refusal(model, layout, gpus=layout.gpus, batch=sizes.batch, sequence=sizes.sequence):
        page.complain(row.node, why)
        return None
    values: dict[str, Any] = {"name": name, "what": what, "source": source, "published": published, "miss": miss}
    return PublishedRun(**values, **numbers, **flags, software=older, job=Job(model, layout, sizes), machine=machine)


def _number(row: Fields, name: str) -> float:
    return read_amount(row, name, "")


def _whole(row: Fields, name: str, default: int) -> int:
    return row.whole(name, 1, _MOST, optional=True) or default


def _model(row: Fields) -> Transformer | None:
    """Return the model that a run names, with its own sizes where it has some."""
    name = row.text("model")
    if name not in names("models"):
        row.complain("model", f"there is no model `{name}`{did_you_mean(name, names('models'))}")
        return None
    model = _shipped_model(name)
    own: dict[str, Any] = {key: size for key in _KEYS if (size := _whole(row, key, 0))}
    if not own:
        return model
    changed = replace(model, **own)
    return replace(changed, head_size=changed.hidden // changed.heads, kv_heads=changed.heads, ffn=4 * changed.hidden)


@cache
def _shipped_model(name: str) -> Transformer:
    return load_model(name)


@cache
def _shipped_hardware(name: str) -> Hardware:
    return load_hardware(name)


def _machine(row: Fields, efficiency: float | None) -> Accelerator | None:
    """Return the hardware that a run names; `far-bandwidth` is that of its own network, for one GPU.

    `efficiency` replaces that of the hardware, for older software.
    """
    name, precision = row.text("gpu"), row.text("precision", optional=True) or "bf16"
    speed = read_amount(row, "far-bandwidth", "speed") if "far-bandwidth" in row else 0.0
    if name not in names("hardware"):
        row.complain("gpu", f"there is no hardware `{name}`{did_you_mean(name, names('hardware'))}")
        return None
    hardware = _shipped_hardware(name)
    if speed:
        hardware = replace(hardware, far=replace(hardware.far, bandwidth=speed))
    return Accelerator(hardware, precision, measured=efficiency)


def _layout(row: Fields) -> Layout:
    sizes = {axis: _whole(row, axis, 1) for axis in _SIZES}
    return Layout(
        **sizes,
        zero=row.whole("zero", 0, 3, optional=True) or 0,
        micro_batch=_whole(row, "micro-batch", 1),
        schedule=PipelineSchedule.INTERLEAVED if sizes["chunks"] > 1 else PipelineSchedule.ONE_F_ONE_B,
        recompute=row.one_of("recompute", Recompute, Recompute.NONE),
        sequence_parallel=not row.flag("no-sequence-parallel"),
        overlap=not row.flag("no-overlap"),
        tp_overlap=row.flag("tp-overlap"),
    )


def _sizes(row: Fields) -> Sizes:
    return Sizes(
        batch=_whole(row, "batch", 1),
        sequence=_whole(row, "sequence", 2048),
        states=row.one_of("states", States, States.MEGATRON),
        flash=row.flag("flash"),
    )
