"""Read the files of models, hardware and published runs for `ddpquiz plan`: numbers with units and sources.

benchmarks/published_runs.py puts the predictions of `ddpquiz plan` beside the published runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from yaml import MappingNode

from ddpquiz.curriculum.yaml_file import Fields, YamlFile, did_you_mean
from ddpquiz.errors import ContentError, UserError
from ddpquiz.paths import content_dir
from ddpquiz.plan.activations import Loss
from ddpquiz.plan.hardware import MEMORY_REACHED, Hardware, Link
from ddpquiz.plan.hugging_face import load_config
from ddpquiz.plan.layout import Layout, PipelineSchedule, Recompute, refusal
from ddpquiz.plan.memory import Sizes, States
from ddpquiz.plan.model import Experts, LatentAttention, Transformer
from ddpquiz.plan.step_time import Accelerator
from ddpquiz.plan.traffic import Job

FOLDERS = ("models", "hardware")
_FORMATS = ("fp32", "bf16", "fp8")
_UNITS = {
    "": {"": 1.0},
    "memory": {"GiB": 2.0**30},
    "speed": {"TB/s": 1e12, "GB/s": 1e9},
    "compute": {"PFLOP/s": 1e15, "TFLOP/s": 1e12, "GFLOP/s": 1e9},
    "time": {"us": 1e-6, "ms": 1e-3},
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(?: (\S+))?")
_MOST = 10**7
_Item = TypeVar("_Item", Transformer, Hardware)


class _PlanFile(NamedTuple, Generic[_Item]):
    """A file that was read: what it describes unless it has complaints, and where each of its numbers comes from."""

    page: YamlFile
    item: _Item | None
    sources: Mapping[str, str]


def names(folder: str) -> list[str]:
    """The names of the shipped models or hardware."""
    return sorted(path.stem for path in (content_dir() / folder).glob("*.yaml"))


def load_model(name: str) -> Transformer:
    """Load a shipped model by name, or a user's own by path: a YAML file, or a config.json or its folder.

    UserError with a near name, or with all complaints.
    """
    path = Path(name)
    if name.endswith(".json") or (path.is_dir() and name not in names("models")):
        return load_config(path)
    return _load(name, "models", read_model)


def load_hardware(name: str) -> Hardware:
    """Load shipped hardware by name, or a user's own by path. UserError with a near name, or with all complaints."""
    return _load(name, "hardware", read_hardware)


def _load(name: str, folder: str, read: Callable[[YamlFile], _PlanFile[_Item]]) -> _Item:
    is_path = name.endswith((".yaml", ".yml")) or "/" in name
    name = name if is_path else name.lower().replace(" ", "-")  # `Llama 3 8B` as well
    path = Path(name) if is_path else content_dir() / folder / f"{name}.yaml"
    if not is_path and not path.is_file():
        known = names(folder)
        near = did_you_mean(name, known).replace("`", "'").removeprefix("; d")
        one = "model" if folder == "models" else "GPU"
        hint = f"D{near}" if near else f"There are {', '.join(known)}."
        raise UserError(f"No {one} named '{name}'. {hint} A file of your own works by its path.")
    reading = read(YamlFile.open(path))
    if reading.item is None:
        raise ContentError(tuple(sorted(reading.page.complaints)))
    return reading.item


def check_files(folder: Path, sources: Mapping[str, object]) -> list[YamlFile]:
    """Read all files of models and hardware in a content folder; their complaints are in the results."""
    pages = []
    for name, read in (("models", read_model), ("hardware", read_hardware)):
        pages += [check_file(path, read, sources) for path in sorted((folder / name).glob("*.yaml"))]
    return pages


def check_file(
    path: Path, read: Callable[[YamlFile], _PlanFile[Transformer] | _PlanFile[Hardware]], sources: Mapping[str, object]
) -> YamlFile:
    """Read one shipped file; each of its numbers must have a source in sources.yaml."""
    page = read(YamlFile.open(path)).page
    _check_sources(page, sources)
    return page


def _check_sources(page: YamlFile, sources: Mapping[str, object]) -> None:
    for mention in page.mentions:
        if mention.value not in sources:
            near = did_you_mean(mention.value, sources)
            page.complain(mention.node, f"there is no source `{mention.value}` in sources.yaml{near}")


_KEYS_OF = {  # that the files of concepts do not have
    "models": {"layers", "hidden", "heads", "kv-heads", "ffn", "vocabulary", "experts", "latent"},
    "hardware": {"memory", "memory-bandwidth", "flops", "efficiency", "near", "far"},
}


def described_in(path: Path) -> str:
    """`models` or `hardware` if a file describes one of them, by its keys or its name; empty for any other file."""
    if path.suffix == ".json" or (path / "config.json").is_file():
        return "models"
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return ""
    root = YamlFile.open(path).root
    keys = {key.value for key, _ in root.value} if isinstance(root, MappingNode) else set()
    return next((folder for folder, own in _KEYS_OF.items() if len(keys & own) > 1), "")


def read_any(path: Path) -> Callable[[YamlFile], _PlanFile[Transformer] | _PlanFile[Hardware]]:
    """What reads a file, by the folder that it is in."""
    return read_model if path.absolute().parent.name == "models" else read_hardware


def read_model(page: YamlFile) -> _PlanFile[Transformer]:
    """Read a model."""
    if page.root is None:
        return _PlanFile(page, None, {})
    fields = Fields(page, page.root, "the model")

    def whole(name: str, *, optional: bool = False, least: int = 1) -> int:
        return fields.whole(name, least, _MOST, optional=optional) or 0

    name, layers, hidden, heads = fields.text("name"), whole("layers"), whole("hidden"), whole("heads")
    numbers = {key: whole(key) for key in ("ffn", "vocabulary", "sequence")}
    numbers["positions"] = whole("positions", optional=True, least=0)
    kv_heads, head_size = whole("kv-heads", optional=True) or heads, whole("head-size", optional=True)
    if not head_size and heads and hidden % heads:
        fields.complain("heads", f"{heads} heads do not divide hidden = {hidden}; add `head-size`")
    flags: dict[str, Any] = {key.replace("-", "_"): fields.flag(key) for key in _FLAGS}
    experts, latent = _experts(page, fields), _latent(page, fields)
    sources = _sources(page, fields)
    fields.close()
    if page.complaints:
        return _PlanFile(page, None, sources)
    sizes: dict[str, Any] = {"kv_heads": kv_heads, "head_size": head_size or hidden // heads, **numbers}
    model = Transformer(
        name=name, layers=layers, hidden=hidden, heads=heads, **sizes, **flags, experts=experts, latent=latent
    )
    return _PlanFile(page, model, sources)


_FLAGS = ("gated", "biases", "norm-biases", "tied", "dropout")


def _experts(page: YamlFile, fields: Fields) -> Experts | None:
    node = fields.find("experts", optional=True)
    if node is None:
        return None
    inner = Fields(page, node, "`experts`")
    needed = {key: inner.whole(key, 1, _MOST) or 1 for key in ("count", "active", "ffn")}
    more = {key: inner.whole(key, 0, _MOST, optional=True) or 0 for key in ("shared", "dense-layers")}
    if needed["active"] > needed["count"]:
        inner.complain("active", f"at most the {needed['count']} experts can be active")
    inner.close()
    return Experts(**needed, shared=more["shared"], dense_layers=more["dense-layers"])


def _latent(page: YamlFile, fields: Fields) -> LatentAttention | None:
    node = fields.find("latent", optional=True)
    if node is None:
        return None
    inner = Fields(page, node, "`latent`")
    keys = ("query-rank", "key-rank", "plain", "rotary", "value")
    sizes = {key.replace("-", "_"): inner.whole(key, 1, _MOST) or 1 for key in keys}
    inner.close()
    return LatentAttention(**sizes)


def read_hardware(page: YamlFile) -> _PlanFile[Hardware]:
    """Read a GPU, or a CPU."""
    if page.root is None:
        return _PlanFile(page, None, {})
    fields = Fields(page, page.root, "the hardware")
    name = fields.text("name")
    memory, speed = _read_amount(fields, "memory", "memory"), _read_amount(fields, "memory-bandwidth", "speed")
    flops: dict[str, float] = {}
    if (node := fields.find("flops")) is not None:
        inner = Fields(page, node, "`flops`")
        flops = {key: _read_amount(inner, key, "compute") for key in _FORMATS if key in inner}
        if not flops:
            inner.page.complain(node, f"`flops`: name at least one of {', '.join(_FORMATS)}")
        inner.close()
    efficiency = _share(fields, "efficiency")
    launch = _read_amount(fields, "launch", "time") if "launch" in fields else 0.0
    reached = _share(fields, "memory-reached") if "memory-reached" in fields else MEMORY_REACHED
    links: dict[str, Any] = {key: _link(page, fields, key) for key in ("near", "far")}
    sources = _sources(page, fields)
    fields.close()
    if page.complaints:
        return _PlanFile(page, None, sources)
    numbers: dict[str, Any] = {"memory": memory, "memory_bandwidth": speed, "memory_reached": reached}
    numbers |= {"efficiency": efficiency, "launch": launch}
    hardware = Hardware(name=name, flops=flops, **numbers, **links)
    return _PlanFile(page, hardware, sources)


def _link(page: YamlFile, fields: Fields, name: str) -> Link:
    node = fields.find(name)
    if node is None:
        return Link(latency=0, bandwidth=1, ranks=1)
    inner = Fields(page, node, f"`{name}`")
    link = Link(
        ranks=inner.whole("ranks", 1, _MOST) or 1,
        bandwidth=_read_amount(inner, "bandwidth", "speed"),
        reached=_share(inner, "reached"),
        latency=_read_amount(inner, "latency", "time"),
    )
    inner.close()
    return link


def _read_amount(fields: Fields, name: str, unit: str) -> float:
    """Read a number with a unit, such as `80 GiB`; 1 after a complaint."""
    value, units = fields.text(name), _UNITS[unit]
    amount = _AMOUNT.fullmatch(value)
    if amount and (amount[2] or "") in units and float(amount[1]) > 0:
        return float(amount[1]) * units[amount[2] or ""]
    if value:
        example = " or ".join(f"`80 {symbol}`".replace("80 `", "80`") for symbol in units)
        fields.complain(name, f"expected a positive number with its unit, such as {example}, got `{value}`")
    return 1.0


def _share(fields: Fields, name: str) -> float:
    """Read a share of 1; 1 after a complaint."""
    share = _read_amount(fields, name, "")
    if share > 1:
        fields.complain(name, f"expected a share of at most 1, got {share:g}")
    return share


def _sources(page: YamlFile, fields: Fields) -> dict[str, str]:
    """Read `source`, that of every number, and `sources`, those of single keys."""
    sources = {"": fields.text("source")}
    page.mention("source", sources[""], fields.at("source"))
    if (node := fields.find("sources", optional=True)) is not None:
        inner = Fields(page, node, "`sources`")
        for key in list(inner.keys()):
            sources[key] = inner.text(key)
            page.mention("source", sources[key], inner.at(key))
            if key.partition(".")[0] not in fields:
                page.complain(inner.at(key), f"`sources`: this file has no `{key}`{did_you_mean(key, fields.keys())}")
        inner.close()
    return sources


FILE = "published-runs.yaml"
_MOST_RUNS = 2_000
_SIZES = ("tp", "pp", "cp", "dp", "ep", "chunks")

_KEYS = ("layers", "hidden", "heads", "vocabulary")
UNITS = {  # of what was measured
    "step": "s",
    "rate": "tokens/s",
    "tflops": "TFLOP/s",
    "memory": "GiB",
    "out-of-memory": "GiB",
    "activations": "GiB",
    "states": "GiB",
    "mfu": "%",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A measured run: its job, what was measured, and the value.

    `what` is `step` (seconds), `rate` (tokens/s/GPU), `tflops` (model TFLOP/s of a GPU), `mfu` (percent, computed from
    the published `seconds`), `memory` (of the fullest rank), `out-of-memory` (it did not fit into that of the GPU),
    `activations`, or `states` of the matrices alone.
    `parameters` replaces the model where only its size is published; then `decimal` says that GB are 10^9 bytes.
    Constants of its GPU were fitted to it if `fit` is set. `software` names software that reaches
    another share of the same GPU's peak. `miss` says why the prediction misses it.
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
    _check_sources(page, sources)
    return page


def read_runs(page: YamlFile) -> tuple[YamlFile, list[PublishedRun]]:
    """Read a file of runs. The result has those without complaints."""
    if page.root is None:
        return page, []
    record = Fields(page, page.root, "the published runs")
    software = dict(record.records("software", "software", partial(_software, page), optional=True))
    rows = record.records("runs", "a run", partial(_run, page, software), most=_MOST_RUNS)
    record.close()
    return page, [run for run in rows if run]


class _Software(NamedTuple):
    """What software reaches: the share of a GPU's peak, and the share of that for attention's kernels."""

    efficiency: float | None
    attention: float


def _software(page: YamlFile, row: Fields) -> tuple[str, _Software]:
    page.mention("source", row.text("source"), row.at("source"))
    efficiency = _number(row, "efficiency") if "efficiency" in row else None
    return row.text("name"), _Software(efficiency, _number(row, "attention") if "attention" in row else 1.0)


def _run(page: YamlFile, software: Mapping[str, _Software], row: Fields) -> PublishedRun | None:
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
        page.complain(row.node, why.sentence)
        return None
    values: dict[str, Any] = {"name": name, "what": what, "source": source, "published": published, "miss": miss}
    return PublishedRun(**values, **numbers, **flags, software=older, job=Job(model, layout, sizes), machine=machine)


def _number(row: Fields, name: str) -> float:
    return _read_amount(row, name, "")


def _whole(row: Fields, name: str, default: int) -> int:
    return row.whole(name, 1, _MOST, optional=True) or default


def _model(row: Fields) -> Transformer | None:
    """The model that a run names, with its own sizes where it has some."""
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


def _machine(row: Fields, software: _Software | None) -> Accelerator | None:
    """The hardware that a run names; `far-bandwidth` is that of its own network, for one GPU.

    What `software` reaches replaces what the hardware says.
    """
    name, precision = row.text("gpu"), row.text("precision", optional=True) or "bf16"
    speed = _read_amount(row, "far-bandwidth", "speed") if "far-bandwidth" in row else 0.0
    if name not in names("hardware"):
        row.complain("gpu", f"there is no hardware `{name}`{did_you_mean(name, names('hardware'))}")
        return None
    hardware = _shipped_hardware(name)
    if speed:
        hardware = replace(hardware, far=replace(hardware.far, bandwidth=speed))
    efficiency, attention = software or _Software(None, 1.0)
    return Accelerator(hardware, precision, measured=efficiency, attention=attention)


def _layout(row: Fields) -> Layout:
    sizes: dict[str, Any] = {axis: _whole(row, axis, 1) for axis in _SIZES}
    return Layout(
        **sizes,
        zero=row.whole("zero", 0, 3, optional=True) or 0,
        micro_batch=_whole(row, "micro-batch", 1),
        schedule=row.one_of(
            "pipeline",
            PipelineSchedule,
            PipelineSchedule.INTERLEAVED if sizes["chunks"] > 1 else PipelineSchedule.ONE_F_ONE_B,
        ),
        recompute=row.one_of("recompute", Recompute, Layout().recompute),
        sequence_parallel=not row.flag("no-sequence-parallel"),
        overlap=not row.flag("no-overlap"),
        tp_overlap=row.flag("tp-overlap"),
    )


def _sizes(row: Fields) -> Sizes:
    return Sizes(
        batch=_whole(row, "batch", 1),
        sequence=_whole(row, "sequence", 2048),
        states=row.one_of("states", States, States.MEGATRON) if "states" in row else None,
        flash=row.flag("flash"),
        loss=row.one_of("loss", Loss, Loss.EAGER) if "loss" in row else None,
    )
