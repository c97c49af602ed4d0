"""The options of `ddpquiz plan`, and the job that they describe."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import typer

from ddpquiz.cli import completion
from ddpquiz.curriculum.plan_files import load_hardware, load_model
from ddpquiz.planning.hardware import Hardware
from ddpquiz.planning.layout import Layout, PipelineSchedule, Recompute
from ddpquiz.planning.memory import Sizes, States
from ddpquiz.planning.stage_time import Accelerator
from ddpquiz.planning.step_traffic import Job

STEP_TOKENS = 4 << 20  # tokens per step, if no batch is named
_AXES = ("tp", "pp", "cp", "ep", "dp")
_ONE_OF = "{} is not one of {}."
_NUMBERS, _WORDS = ("zero", "shard", "micro-batch", "chunks"), ("pipeline", "recompute")  # of --compare, beside axes
_SEARCHED = ("layout", "zero", "micro_batch", "pipeline", "chunks", "recompute")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is trained on what, and how."""

    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help=f"{', '.join(completion.models(''))}, or the path of a file of yours.",
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
    gpus: Annotated[int | None, typer.Option("--gpus", "-n", min=1, help="How many GPUs.")] = None
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            "-l",
            help="Such as tp=8,pp=4. tp splits matrices, pp layers, cp sequences, ep experts; dp splits the batch, "
            "over the GPUs that are left.",
        ),
    ] = ""
    batch: Annotated[
        int | None,
        typer.Option("--batch", "-b", min=1, help="Sequences per step, over all ranks (default: 4 M tokens)."),
    ] = None
    seq: Annotated[int | None, typer.Option("--seq", "-s", min=1, help="Tokens per sequence.")] = None
    micro_batch: Annotated[int, typer.Option("--micro-batch", min=1, help="Sequences per micro-batch.")] = 1
    zero: Annotated[int, typer.Option("--zero", min=0, max=3, help="ZeRO stage; 0 is DDP, 3 is FSDP.")] = 1
    shard: Annotated[
        int, typer.Option("--shard", min=0, help="Ranks over which states are sharded (HSDP); 0: all.")
    ] = 0
    pipeline: Annotated[
        str, typer.Option("--pipeline", help="gpipe, 1f1b, interleaved, zb-h1 (zero bubble) or dualpipe.")
    ] = "1f1b"
    chunks: Annotated[
        int, typer.Option("--chunks", min=1, help="Model chunks per stage; more than 1: interleaved.")
    ] = 1
    recompute: Annotated[
        str, typer.Option("--recompute", help="What backward computes again: none, selective (attention) or full.")
    ] = "none"
    sequence_parallel: Annotated[bool, typer.Option(help="Sequence parallelism beside tp.")] = True
    overlap: Annotated[bool, typer.Option(help="Communication of dp, pp and cp runs beside computing.")] = True
    tp_overlap: Annotated[bool, typer.Option(help="Communication of tp runs beside computing too.")] = False
    states: Annotated[
        str,
        typer.Option(
            "--states",
            help="Bytes a parameter, weights + gradients + optimizer: megatron 2+4+12, zero 2+2+12, fp32 4+4+8.",
        ),
    ] = "megatron"
    precision: Annotated[
        str, typer.Option("--precision", help="bf16, fp8 or fp32 (default: bf16 if the GPU has it).")
    ] = ""
    flash: Annotated[bool, typer.Option(help="FlashAttention: scores are never stored.")] = True
    causal: Annotated[bool, typer.Option(help="Count half of attention's FLOP.")] = False
    tokens: Annotated[
        float, typer.Option("--tokens", min=1e-6, help="Trillions of tokens to train on, for the days.")
    ] = 1.0

    @property
    def start(self) -> str:
        """The command line as far as it names model, hardware and conventions."""
        words = ["ddpquiz plan", f"--model {self.model}", f"--gpu {self.gpu}"]
        own = [each for each in fields(self) if each.name in ("states", "precision")]
        words += [
            f"--{each.name} {getattr(self, each.name)}" for each in own if getattr(self, each.name) != each.default
        ]
        return " ".join(words)

    def machine(self) -> Accelerator:
        """Return the hardware and the number format; BadParameter if the GPU does not have it."""
        hardware: Hardware = load_hardware(self.gpu)
        precision = self.precision or ("bf16" if "bf16" in hardware.flops else next(iter(hardware.flops)))
        if precision not in hardware.flops:
            known = ", ".join(hardware.flops)
            raise typer.BadParameter(f"{hardware.name} has {known}, not {precision}.", param_hint="--precision")
        return Accelerator(hardware, precision, self.causal)

    def job(self, gpus: int) -> Job:
        """Return the job on a number of GPUs; BadParameter if a word is unknown."""
        model = load_model(self.model)
        sequence = self.seq or model.sequence
        sizes = Sizes(
            batch=self.batch or max(1, STEP_TOKENS // sequence),
            sequence=sequence,
            states=one_of(States, self.states, "--states"),
            flash=self.flash,
        )
        return Job(model, self.sized(self.layout, gpus), sizes)

    def sized(self, text: str, gpus: int) -> Layout:
        """Return the layout that a text such as `tp=8,pp=4` describes; dp has the GPUs that are left."""
        sizes = axis_sizes(text)
        schedule = one_of(PipelineSchedule, self.pipeline, "--pipeline")
        if self.chunks > 1 and schedule is PipelineSchedule.ONE_F_ONE_B:
            schedule = PipelineSchedule.INTERLEAVED
        inner = sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1)
        sizes.setdefault("dp", max(1, gpus // inner))
        return Layout(
            **sizes,
            zero=self.zero,
            shard=self.shard,
            micro_batch=self.micro_batch,
            chunks=self.chunks,
            schedule=schedule,
            recompute=one_of(Recompute, self.recompute, "--recompute"),
            sequence_parallel=self.sequence_parallel,
            overlap=self.overlap,
            tp_overlap=self.tp_overlap,
        )

    def with_layout(self, text: str) -> PlanOptions:
        """Return the options changed by a text such as `tp=4,zero=3,pipeline=1f1b`; BadParameter for what is unknown.

        Axes that it does not name keep their size, but for dp, which has the GPUs that are left. Another pipeline has
        one chunk a stage unless the text says more.
        """
        words = dict(named_values(text))
        changed: dict[str, Any] = {}
        for name in {*words} & {*_NUMBERS}:
            if not words[name].isdecimal():
                raise typer.BadParameter(f"{name} needs a number, as in {name}=1.", param_hint="--compare")
            changed[name.replace("-", "_")] = int(words[name])
        changed |= {name: words[name] for name in _WORDS if name in words}
        if "pipeline" in changed:
            changed.setdefault("chunks", 1)
        named = ",".join(f"{name}={size}" for name, size in words.items() if name not in (*_NUMBERS, *_WORDS))
        kept = {axis: size for axis, size in axis_sizes(self.layout).items() if axis != "dp"}
        sizes = kept | axis_sizes(named, "--compare", (*_NUMBERS, *_WORDS))
        return replace(self, layout=",".join(f"{axis}={size}" for axis, size in sizes.items()), **changed)

    def check_search(self) -> None:
        """Raise BadParameter if an option is given that a search varies."""
        for each in fields(self):
            if each.name in _SEARCHED and getattr(self, each.name) != each.default:
                name = f"--{each.name.replace('_', '-')}"
                raise typer.BadParameter(
                    f"--search tries all values of {name}; leave one of them out.", param_hint=name
                )


def named_values(text: str) -> list[tuple[str, str]]:
    """Return the names and values of a text such as `tp=8,pp=4`; blanks separate them too."""
    parts = (part.partition("=") for part in text.replace(",", " ").split())
    return [(name, value) for name, _, value in parts]


def axis_sizes(text: str, option: str = "--layout", others: tuple[str, ...] = ()) -> dict[str, int]:
    """Read `tp=8,pp=4`; BadParameter names what does not fit. `others` are further names that the option knows."""
    sizes: dict[str, int] = {}
    for axis, size in named_values(text):
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


def one_of(choices: Any, word: str, option: str) -> Any:
    """Return the value of an enumeration that a word names, or BadParameter."""
    try:
        return choices(word.lower())
    except ValueError:
        raise typer.BadParameter(_ONE_OF.format(word, ", ".join(choices)), param_hint=option) from None
