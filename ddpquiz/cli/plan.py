"""`ddpquiz plan`: memory, traffic and time of a training job on any number of GPUs."""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ddpquiz.cli import completion
from ddpquiz.cli.output import say
from ddpquiz.cli.typer_options import with_options
from ddpquiz.curriculum.plan_files import load_hardware, load_model
from ddpquiz.errors import UserError
from ddpquiz.events.event import Event, encode
from ddpquiz.plan import explanation
from ddpquiz.plan import search as finder
from ddpquiz.plan.activations import Loss
from ddpquiz.plan.hardware import Hardware
from ddpquiz.plan.layout import Layout, PipelineSchedule, Recompute
from ddpquiz.plan.memory import Sizes, States
from ddpquiz.plan.plan import Plan, make_plan, plan_as_json
from ddpquiz.plan.plan_page import comparison, explanation_page, found_page, plan_page, scale_page, schedule_page
from ddpquiz.plan.schedule import Durations, PipelineRun, schedule_events, simulate
from ddpquiz.plan.step_time import Accelerator, usual_seconds
from ddpquiz.plan.traffic import Job, cut_bytes
from ddpquiz.terminal.kit import layout, pager, screen, style

_USUAL, _SIZES = Layout(), Sizes(batch=1, sequence=1)  # their defaults are those of the options
_STEP_TOKENS = 4 << 20  # tokens per step, if no batch is named
_MOST_GPUS = 1 << 20  # of --scale
_REPLAYED = 3_000  # tasks of a schedule in a replay; of a longer one, fewer micro-batches are shown
_AXES = ("tp", "pp", "cp", "ep", "dp")
_ONE_OF = "{} is not one of {}."
_MOST = 10**9  # of a number in an option
_MOST_TASKS = 500_000  # of a schedule, which takes seconds
_COUNTS = range(1, _MOST + 1)
_NUMBERS = {"zero": range(4), "shard": range(_MOST + 1), "micro-batch": _COUNTS, "chunks": _COUNTS}  # of --compare
_WORDS = ("pipeline", "recompute")  # the same
_SEARCHED = ("layout", "zero", "micro_batch", "pipeline", "chunks", "recompute")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is trained on what, and how."""

    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help=f"{', '.join(completion.models(''))}, or the path of a config.json (Hugging Face) or a file of yours.",
            autocompletion=completion.models,
        ),
    ] = "llama-3-70b"
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu",
            "-g",
            help=f"{', '.join(completion.hardware(''))}, or the path of a file of yours.",
            autocompletion=completion.hardware,
        ),
    ] = "h100"
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="How many GPUs.")] = None
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            "-l",
            help="Such as tp=8,pp=4. tp splits matrices, pp layers, cp sequences, ep experts; dp splits the batch "
            "over the remaining GPUs.",
        ),
    ] = ""
    batch: Annotated[
        int | None,
        typer.Option("--batch", "-b", min=1, help="Sequences per step, over all ranks. [default: 4 M tokens]"),
    ] = None
    seq: Annotated[int | None, typer.Option("--seq", "-s", min=1, help="Tokens per sequence.")] = None
    micro_batch: Annotated[int, typer.Option("--micro-batch", min=1, help="Sequences per micro-batch.")] = (
        _USUAL.micro_batch
    )
    zero: Annotated[int, typer.Option("--zero", min=0, max=3, help="ZeRO stage; 0 is DDP, 3 is FSDP.")] = _USUAL.zero
    shard: Annotated[
        int, typer.Option("--shard", min=0, help="Over how many ranks states are sharded (HSDP); 0: all.")
    ] = _USUAL.shard
    pipeline: Annotated[
        str, typer.Option("--pipeline", help="gpipe, 1f1b, interleaved, zb-h1 (zero bubble) or dualpipe.")
    ] = str(_USUAL.schedule)
    chunks: Annotated[
        int, typer.Option("--chunks", min=1, help="Model chunks per stage; more than 1: interleaved.")
    ] = _USUAL.chunks
    recompute: Annotated[
        str,
        typer.Option(
            "--recompute",
            help="What backward computes again: none, selective (attention's scores), selective-op (PyTorch's, all but"
            " every other matrix product) or full.",
        ),
    ] = str(_USUAL.recompute)
    sequence_parallel: Annotated[bool, typer.Option(help="Sequence parallelism, with tp.")] = _USUAL.sequence_parallel
    overlap: Annotated[
        bool, typer.Option(help="Overlap dp, pp and cp communication with computing; with dualpipe, ep, too.")
    ] = _USUAL.overlap
    tp_overlap: Annotated[bool, typer.Option(help="Overlap tp communication with computing, too.")] = _USUAL.tp_overlap
    states: Annotated[
        str,
        typer.Option(
            "--states",
            help="Bytes a parameter, weights + gradients + optimizer: megatron 2+4+12, zero 2+2+12, deepspeed (bf16)"
            " 2+6+12, fp32 4+4+8 (PyTorch's own). [default: megatron; without this option a plan fits only if it does"
            " with any of them]",
        ),
    ] = ""
    precision: Annotated[
        str, typer.Option("--precision", help="bf16, fp8 or fp32. [default: bf16 if the GPU has it]")
    ] = ""
    flash: Annotated[bool, typer.Option(help="FlashAttention: scores are never stored.")] = _SIZES.flash
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            help="How the loss is computed: eager, gathered (eager, all logits in fp32 on each tp rank), fused"
            " (torch.compile, Liger), chunked, or in-place (Megatron). [default: in-place with --states megatron and"
            " deepspeed, else eager; without this option a plan fits only if it does with any loss]",
        ),
    ] = ""
    reshard: Annotated[
        bool | None,
        typer.Option(
            "--reshard/--no-reshard",
            help="ZeRO-3 frees gathered weights after a layer's forward. [default: without a pipeline]",
        ),
    ] = None
    efficiency: Annotated[
        float | None,
        typer.Option(
            "--efficiency",
            min=0.01,
            max=1,
            help="Share of the GPU's peak that your matrix products reach. [default: that of the GPU's file]",
        ),
    ] = None
    causal: Annotated[bool, typer.Option(help="Count half of attention's FLOP in MFU; times stay the same.")] = False
    tokens: Annotated[
        float, typer.Option("--tokens", min=1e-6, help="Trillions of tokens to train on, for the days.")
    ] = 1.0

    def __post_init__(self) -> None:
        """Raise BadParameter for a number that is too large to compute with, or none (`nan`)."""
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int | float) and not value <= _MOST:
                option = f"--{each.name.replace('_', '-')}"
                raise typer.BadParameter(f"expected a number of at most {_MOST:,}.", param_hint=option)

    @property
    def start(self) -> str:
        """The command line as far as it names model, hardware and conventions."""
        words = ["ddpquiz plan", f"--model {self.model}", f"--gpu {self.gpu}"]
        own = [each for each in fields(self) if each.name in ("states", "precision", "loss", "efficiency")]
        words += [
            f"--{each.name} {getattr(self, each.name)}" for each in own if getattr(self, each.name) != each.default
        ]
        return " ".join(words)

    def machine(self) -> Accelerator:
        """The hardware and the number format; BadParameter if the GPU does not have it."""
        hardware: Hardware = load_hardware(self.gpu)
        precision = self.precision or ("bf16" if "bf16" in hardware.flops else next(iter(hardware.flops)))
        if precision not in hardware.flops:
            known = ", ".join(hardware.flops)
            raise typer.BadParameter(f"{hardware.name} has {known}, not {precision}.", param_hint="--precision")
        return Accelerator(hardware, precision, self.causal, self.efficiency)

    def job(self, gpus: int) -> Job:
        """The job on a number of GPUs; BadParameter if a word is unknown."""
        model = load_model(self.model)
        sequence = self.seq or model.sequence
        sizes = Sizes(
            batch=self.batch or max(1, _STEP_TOKENS // sequence),
            sequence=sequence,
            states=_one_of(States, self.states, "--states") if self.states else None,
            flash=self.flash,
            loss=_one_of(Loss, self.loss, "--loss") if self.loss else None,
        )
        return Job(model, self.sized(self.layout, gpus), sizes)

    def sized(self, text: str, gpus: int) -> Layout:
        """The layout that a text such as `tp=8,pp=4` describes; dp has the GPUs that are left."""
        sizes = _axis_sizes(text)
        schedule = _one_of(PipelineSchedule, self.pipeline, "--pipeline")
        if self.chunks > 1 and schedule is PipelineSchedule.ONE_F_ONE_B:
            schedule = PipelineSchedule.INTERLEAVED
        inner = sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1)
        sizes.setdefault("dp", max(1, gpus // inner))
        return Layout(
            **sizes,
            zero=self.zero,
            shard=self.shard,
            reshard=self.reshard,
            micro_batch=self.micro_batch,
            chunks=self.chunks,
            schedule=schedule,
            recompute=_one_of(Recompute, self.recompute, "--recompute"),
            sequence_parallel=self.sequence_parallel,
            overlap=self.overlap,
            tp_overlap=self.tp_overlap,
        )

    def with_layout(self, text: str) -> PlanOptions:
        """The options changed by a text such as `tp=4,zero=3,pipeline=1f1b`; BadParameter for what is unknown.

        Axes that it does not name keep their size, but for dp, which has the GPUs that are left. Another pipeline has
        one chunk a stage unless the text says more.
        """
        words = dict(_named_values(text))
        changed: dict[str, Any] = {}
        for name in {*words} & {*_NUMBERS}:
            if not words[name].isdecimal() or int(words[name]) not in _NUMBERS[name]:
                known = _NUMBERS[name]
                wanted = f"a number from {known.start} to {known.stop - 1:,}"
                raise typer.BadParameter(f"{name} needs {wanted}, as in {name}=1.", param_hint="--compare")
            changed[name.replace("-", "_")] = int(words[name])
        changed |= {name: words[name] for name in _WORDS if name in words}
        if "pipeline" in changed:
            changed.setdefault("chunks", 1)
        named = ",".join(f"{name}={size}" for name, size in words.items() if name not in (*_NUMBERS, *_WORDS))
        kept = {axis: size for axis, size in _axis_sizes(self.layout).items() if axis != "dp"}
        sizes = kept | _axis_sizes(named, "--compare", (*_NUMBERS, *_WORDS))
        return replace(self, layout=",".join(f"{axis}={size}" for axis, size in sizes.items()), **changed)

    def check_search(self) -> None:
        """Raise BadParameter if an option is given that a search varies."""
        for each in fields(self):
            if each.name in _SEARCHED and getattr(self, each.name) != each.default:
                name = f"--{each.name.replace('_', '-')}"
                raise typer.BadParameter(
                    f"--search tries all values of {name} anyway; leave out --search or {name}.", param_hint=name
                )


def _named_values(text: str) -> list[tuple[str, str]]:
    """The names and values of a text such as `tp=8,pp=4`; blanks separate them too."""
    parts = (part.partition("=") for part in text.replace(",", " ").split())
    return [(name, value) for name, _, value in parts]


def _axis_sizes(text: str, option: str = "--layout", others: tuple[str, ...] = ()) -> dict[str, int]:
    """Read `tp=8,pp=4`; BadParameter names what does not fit. `others` are further names that the option knows."""
    sizes: dict[str, int] = {}
    for axis, size in _named_values(text):
        if axis not in _AXES:
            instead = f" Use --{axis}." if axis in (*_NUMBERS, *_WORDS) else ""
            known = ", ".join((*_AXES, *others))
            raise typer.BadParameter(f"`{axis}` is not one of {known}.{instead}", param_hint=option)
        if axis in sizes:
            raise typer.BadParameter(f"it names {axis} twice.", param_hint=option)
        if not size.isdecimal() or not 0 < int(size) < 10**7:
            raise typer.BadParameter(f"{axis} needs a positive number, as in {axis}=8.", param_hint=option)
        sizes[axis] = int(size)
    return sizes


def _one_of(choices: Any, word: str, option: str) -> Any:
    """The value of an enumeration that a word names, or BadParameter."""
    try:
        return choices(word.lower())
    except ValueError:
        raise typer.BadParameter(_ONE_OF.format(word, ", ".join(choices)), param_hint=option) from None


@with_options(PlanOptions)
def plan(
    search: Annotated[
        bool, typer.Option("--search", help="List the best layouts; without --gpus, on the fewest GPUs that work.")
    ] = False,
    scale: Annotated[str, typer.Option("--scale", help="Throughput on FIRST..LAST GPUs, doubling each time.")] = "",
    schedule: Annotated[bool, typer.Option("--schedule", help="Show the pipeline rank by rank, as a run.")] = False,
    compare: Annotated[
        str, typer.Option("--compare", help="Compare with another layout, such as tp=4,pp=8,zero=3,pipeline=1f1b.")
    ] = "",
    explain: Annotated[str, typer.Option("--explain", help="Explain a line of the plan, with its formula.")] = "",
    save: Annotated[Path | None, typer.Option("--save", help="With --schedule: save it (.json, .svg, ...).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    *,
    options: PlanOptions,
) -> None:
    """Predict memory, traffic and time of training a model on GPUs that you do not have.

    ddpquiz plan --model llama-3-70b --gpu h100 --gpus 256 --layout tp=8,pp=4

    ddpquiz plan --model llama-3-70b --gpu h100 --seq 8192 --search
    """
    schedule = schedule or save is not None
    _one_page({"search": search, "scale": scale, "schedule": schedule, "compare": compare, "explain": explain})
    if search:
        _print_search(options, as_json=as_json)
    elif scale:
        _print_scale(options, scale, as_json=as_json)
    else:
        gpus = options.gpus or _named_gpus(options)
        made = make_plan(options.job(gpus), options.machine(), gpus)
        if schedule:
            _show_schedule(made, save, as_json=as_json)
        elif compare:
            _print_comparison(made, options.with_layout(compare), gpus, as_json=as_json)
        elif explain:
            _print_explanation(made, explain, options.tokens * 1e12, as_json=as_json)
        elif as_json:
            say(json.dumps(plan_as_json(made, options.tokens * 1e12)))
        else:
            _print_plan(made, options.tokens * 1e12)


def _one_page(pages: Mapping[str, object]) -> None:
    """Raise BadParameter if more than one of the options is given that each show a page of their own."""
    given = [name for name, value in pages.items() if value]
    if len(given) > 1:
        raise typer.BadParameter(f"it cannot be combined with --{given[0]}.", param_hint=f"--{given[1]}")


def _named_gpus(options: PlanOptions) -> int:
    """The number of GPUs that the layout names; UserError if it does not say."""
    sizes = _axis_sizes(options.layout)
    if not sizes:
        options.job(1)  # reports an unknown model first
        options.machine()  # and an unknown GPU
        raise UserError(
            "How many GPUs? Add --gpus, as in `ddpquiz plan --model llama-3-70b --gpus 256 --search`;"
            " --search without --gpus finds the fewest that fit."
        )
    return sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1) * sizes.get("dp", 1)


def _print_plan(plan: Plan, tokens: float) -> None:
    """Print the page of a plan."""
    out = style.console()
    pager.show_paged(out, plan_page(plan, tokens, min(out.width, 100)))


def _print_explanation(plan: Plan, line: str, tokens: float, *, as_json: bool) -> None:
    """Print how a line comes about; UserError if there is no such line."""
    known = explanation.lines()
    if line not in known:
        raise UserError(f"A plan has no line '{line}'; its lines are {', '.join(known)}.")
    found = explanation.explain(plan, line, tokens)
    if as_json:
        say(json.dumps(asdict(found)))
    else:
        pager.show_paged(style.console(), explanation_page(found))


def _print_comparison(plan: Plan, options: PlanOptions, gpus: int, *, as_json: bool) -> None:
    """Print two layouts side by side."""
    other = make_plan(options.job(gpus), options.machine(), gpus)
    if as_json:
        say(json.dumps([plan_as_json(each, options.tokens * 1e12) for each in (plan, other)]))
    else:
        pager.show_paged(style.console(), comparison(plan, other))


def _print_search(options: PlanOptions, *, as_json: bool) -> None:
    """Print the best layouts, on the named number of GPUs or on the fewest that fit."""
    options.check_search()
    job, machine = options.job(options.gpus or 1), options.machine()
    gc.disable()  # hundreds of thousands of objects that all stay alive or are freed at once
    gpus, before = options.gpus, None
    if gpus is None:
        enough = finder.fewest_gpus(job, machine)
        if enough is None:
            raise UserError(
                f"{job.model.name} with {job.sizes.batch:,} x {job.sizes.sequence:,} tokens does not fit on any number"
                f" of {machine.hardware.name} up to {finder.MOST_GPUS:,}; try --states zero, or fewer tokens."
            )
        gpus, before, found = enough
    else:
        found = finder.search(job, machine, gpus)
    if as_json:
        say(json.dumps(_found_json(found, gpus, options.tokens * 1e12)))
    else:
        pager.show_paged(style.console(), found_page(found, gpus, options.start, before))


def _found_json(found: Any, gpus: int, tokens: float) -> dict[str, Any]:
    counts = {"gpus": gpus, "tried": found.tried, "fitting": found.fitting, "refused": dict(found.refused)}
    return {**counts, "plans": [plan_as_json(each, tokens) for each in found.plans]}


def _print_scale(options: PlanOptions, text: str, *, as_json: bool) -> None:
    """Print throughput and efficiency as the number of GPUs doubles."""
    first, _, last = text.partition("..")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) <= _MOST_GPUS):
        raise typer.BadParameter("expected two numbers of GPUs, as in 64..16384.", param_hint="--scale")
    job = options.job(int(first))
    if options.batch is None:  # enough for the largest number
        inner = job.layout.tp * job.layout.pp * job.layout.cp
        least = max(1, int(last) // inner) * job.layout.micro_batch
        job = replace(job, sizes=replace(job.sizes, batch=max(job.sizes.batch, least)))
    plans = finder.plans_by_gpus(job, options.machine(), int(first), int(last))
    if as_json:
        tokens = options.tokens * 1e12
        rows = [
            plan_as_json(one, tokens) if isinstance(one, Plan) else {"gpus": one[0], "refused": one[1]} for one in plans
        ]
        say(json.dumps(rows))
    else:
        out = style.console()
        pager.show_paged(out, scale_page(plans, job, options.machine(), min(out.width, 100)))


def _show_schedule(plan: Plan, save: Path | None, *, as_json: bool) -> None:
    """Show the pipeline of a plan: in a terminal as a replay, elsewhere as a picture; save it if a file is named."""
    if plan.job.layout.pp == 1:
        raise UserError("There is no pipeline in this layout; add pp=2 or more to --layout.")
    tasks = plan.job.micro_batches * plan.job.layout.pp * plan.job.layout.chunks
    if tasks > _MOST_TASKS:
        raise UserError(
            f"A step of {plan.job.micro_batches:,} micro-batches is too long to draw; use a smaller --batch."
        )
    gc.disable()
    run = _simulated(plan, plan.job.micro_batches)
    if save:
        _save(plan, run, save)
    elif as_json:
        for event in _events(plan, run):
            say(encode(event))
    else:
        out, shown = style.console(), run
        if screen.is_interactive():
            from ddpquiz.terminal.runs.replay import replay  # noqa: PLC0415  # no other page needs a view of runs

            shown = _shorter(plan, run)
            replay(_events(plan, shown), out)
        layout.show(out, schedule_page(shown, min(out.width, layout.MEASURE), run.micro_batches))


def _simulated(plan: Plan, micro_batches: int) -> PipelineRun:
    """Simulate the pipeline of a plan with the durations of its stages."""
    split = plan.job.layout
    times = Durations(*usual_seconds(plan.job, plan.machine))
    return simulate(split.schedule, split.pp, micro_batches, times, split.chunks)


def _shorter(plan: Plan, run: PipelineRun) -> PipelineRun:
    """A run with fewer micro-batches if a replay of all would be too long to step through."""
    pp = plan.job.layout.pp
    if sum(map(len, run.ranks)) <= _REPLAYED:
        return run
    return _simulated(plan, min(run.micro_batches, max(2 * pp, _REPLAYED // (3 * pp * pp) * pp)))


def _events(plan: Plan, run: PipelineRun) -> list[Event]:
    split, every = plan.job.layout, plan.job.micro_batches
    part = "" if run.micro_batches == every else f", the first {run.micro_batches} of {every:,} micro-batches"
    title = f"{plan.job.model.name}: {split.schedule} on {split.pp} stages{part}"
    return schedule_events(run, title, int(cut_bytes(plan.job)))


def _save(plan: Plan, run: PipelineRun, path: Path) -> None:
    from ddpquiz.cli import saving  # noqa: PLC0415  # the same
    from ddpquiz.events.run_state import RunState  # noqa: PLC0415

    saving.format_of(path)
    events = _events(plan, _shorter(plan, run))
    saving.save(events, RunState.after(events), path)
