"""Closed forms of pipeline schedules: how long a stage idles, and how many micro-batches it stores.

`forward` and `backward` are seconds of a stage for one micro-batch; `weights` is the part of `backward` that computes
weight gradients, which zero-bubble schedules move.
"""

from ddpquiz.planning.layout import Layout, PipelineSchedule


def idle_seconds(layout: Layout, forward: float, backward: float, weights: float) -> float:
    """Return the seconds of a step in which a stage is idle.

    GPipe and 1F1B: (p-1)(F+B); interleaved: that / v (arXiv 2104.04473, section 2.2). ZB-H1: (p-1)(F+B-2W) (arXiv
    2401.10241, section 2.3). DualPipe: (p/2-1)(F&B+B-3W) with F&B = F+B (arXiv 2412.19437, table 2).
    """
    p = layout.pp
    match layout.schedule:
        case PipelineSchedule.INTERLEAVED:
            return (p - 1) * (forward + backward) / layout.chunks
        case PipelineSchedule.ZERO_BUBBLE:
            return (p - 1) * (forward + backward - 2 * weights)
        case PipelineSchedule.DUALPIPE if p > 1:
            return (p / 2 - 1) * (forward + 2 * backward - 3 * weights)
    return (p - 1) * (forward + backward)


def in_flight(layout: Layout, micro_batches: int, number: int) -> float:
    """Return the most micro-batches whose activations a stage stores at once.

    GPipe: all m. 1F1B: p minus the stage's number; ZB-H1: at most p. Interleaved: of chunks of 1/v (arXiv 2205.05198,
    section 4.2.3, for the first stage). DualPipe: p + 1, over both directions (arXiv 2412.19437, table 2).
    """
    p, m, v = layout.pp, micro_batches, layout.chunks
    match layout.schedule:
        case _ if p == 1:
            return 1
        case PipelineSchedule.GPIPE:
            return m
        case PipelineSchedule.INTERLEAVED:
            return min(m * v, 2 * (p - number - 1) + (v - 1) * p + 1) / v
        case PipelineSchedule.ZERO_BUBBLE:
            return min(m, p)
        case PipelineSchedule.DUALPIPE:
            return p + 1
    return min(m, p - number)
