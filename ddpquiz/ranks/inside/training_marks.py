"""Points of a training script that show what its communication is for."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook

from ddpquiz.analysis.events import Marked
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import line_in


def watch(writer: EventWriter, script: str) -> None:
    """Report when an optimizer has stepped, and where DDP stops and starts to synchronise gradients."""

    def mark(what: str) -> None:
        writer.send(Marked(writer.now(), writer.rank, what, line_in(script)))

    register_optimizer_step_post_hook(lambda *_: mark("step"))
    original = DistributedDataParallel.no_sync

    @contextlib.contextmanager
    @functools.wraps(original)
    def no_sync(model: Any) -> Iterator[None]:
        with original(model):
            mark("no_sync")
            try:
                yield
            finally:
                mark("sync")

    DistributedDataParallel.no_sync = no_sync
