"""The line of computing: FLOP, bytes and launches of the slowest stage, with the numbers put in."""

from ddpquiz.planning.layer_work import LayerWork
from ddpquiz.planning.layout import Recompute
from ddpquiz.planning.memory_lines import PlanLine
from ddpquiz.planning.plan import Plan
from ddpquiz.planning.stage_time import BACKWARD_MOVES, head_seconds, stage_layers

FORMULA = (
    "micro-batches x (layers x (forward + backward) + output head) of the slowest stage; forward: the longer of FLOP /"
    " (peak x efficiency) + bytes / (memory bandwidth x reached) and the launch of its kernels; backward: 2 x FLOP,"
    " 1.5 x bytes, 2 x launch, and what recomputation repeats"
)


def compute(plan: Plan) -> PlanLine:
    """Explain the seconds of computing."""
    job, machine, hardware = plan.job, plan.machine, plan.hardware
    where = (job.model, job.layout, job.sizes, machine, plan.slowest)
    head, logits = head_seconds(*where)
    parts = [f"{count:g} * ({_layer(plan, work)})" for count, work in stage_layers(*where)]
    if head:
        parts.append(f"3 * {head:.6g} + 2 * {logits:.6g}")
    note = (
        f"Peak {machine.peak / 1e12:g} TFLOP/s in {machine.precision}, efficiency {machine.efficiency:g}; memory"
        f" {hardware.memory_bandwidth / 1e9:g} GB/s, of which kernels reach {hardware.memory_reached:.0%}; launching a"
        f" layer's forward takes {hardware.launch * 1e3:g} ms. Bytes are those of norms, dropout, sums, activation"
        f" functions and attention; matrix products hide theirs."
    )
    filled = f"{job.micro_batches} * ({' + '.join(parts)})"
    source = "arXiv 2205.05198, appendix A, for FLOP; constants fitted to published runs"
    return PlanLine("compute", plan.time.compute, "s", FORMULA, filled, source, "scaling-efficiency", note)


def _layer(plan: Plan, work: LayerWork) -> str:
    """Return the seconds of a layer's forward and backward for a micro-batch, as arithmetic."""
    machine, launch = plan.machine, plan.hardware.launch
    speed = plan.hardware.memory_speed
    matrices = f"{work.matrices:.6g} / {machine.peak * machine.efficiency:.6g}"
    attention = f"{work.attention:.6g} / {machine.attention_peak * machine.efficiency:.6g}"
    moved = f"{work.moved + work.scores:.6g} / {speed:.6g}"
    forward = f"max({matrices} + {attention} + {moved}, {launch:g})"
    backward = f"max(2 * ({matrices} + {attention}) + {BACKWARD_MOVES:g} * {moved}, 2 * {launch:g})"
    match plan.job.layout.recompute:
        case Recompute.FULL:
            return f"2 * {forward} + {backward}"
        case Recompute.SELECTIVE if work.scores:
            return f"{forward} + {backward} + {attention} + {work.scores:.6g} / {speed:.6g}"
    return f"{forward} + {backward}"
