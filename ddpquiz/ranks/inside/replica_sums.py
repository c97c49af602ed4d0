"""Checksums of the parameters of DDP models after each step of an optimizer, for --check-replicas.

Parameters in the memory of the CPU are read where they lie, without an operation of torch. Nothing is drawn from a
random generator, and no collective is made: the launcher compares what the ranks report.
"""

import ctypes
import functools
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from weakref import ReferenceType, ref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ddpquiz.events.event import ReplicaSums
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import line_in

_LONGEST = 200  # characters of a name


@dataclass(slots=True)
class _Replica:
    """A DDP model of this rank, the ranks that hold it too, and its number among the models of these ranks."""

    model: ReferenceType[Any]
    members: tuple[int, ...]
    number: int
    steps: int = 0


class _ReplicaWatch:
    """Finds DDP models and the optimizer steps that change them, and reports checksums."""

    def __init__(self, writer: EventWriter, script: str) -> None:
        self.writer, self.script = writer, script
        self._replicas: list[_Replica] = []
        self._models: Counter[tuple[int, ...]] = Counter()
        self._stepping: list[Any] = []  # one optimizer may step inside another, as in ZeroRedundancyOptimizer
        self._noted: set[str] = set()

    def add_model(self, model: Any) -> None:
        members = tuple(dist.get_process_group_ranks(model.process_group))
        self._replicas.append(_Replica(ref(model), members, self._models[members]))
        self._models[members] += 1

    def begin_step(self, optimizer: Any) -> None:
        """Remember the optimizer; one that is known has raised an exception in its last step."""
        known = [each is optimizer for each in self._stepping]
        if any(known):
            del self._stepping[known.index(True) :]
        self._stepping.append(optimizer)

    def end_step(self, optimizer: Any) -> None:
        """Report the models that an optimizer has changed, when the outermost step has ended."""
        known = [each is optimizer for each in self._stepping]
        if any(known):
            del self._stepping[known.index(True) :]
        if self._stepping:
            return
        changed = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        found = False
        for replica in self._replicas:
            parameters = _parameters(replica.model())
            if any(id(parameter) in changed for parameter in parameters.values()):
                found = True
                self._report(replica, parameters)
        if not found and self._replicas:  # before DDP wraps a model, its optimizer may have made steps
            self._note("An optimizer updates parameters outside DDP models; --check-replicas does not compare them.")

    def guard(self, call: Any, subject: Any) -> None:
        """Make a call whose faults must not reach the script."""
        try:
            call(subject)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the script goes on without this check
            self._note(f"--check-replicas could not read the parameters: {type(fault).__name__}: {fault}")

    def _report(self, replica: _Replica, parameters: dict[str, torch.Tensor]) -> None:
        if any(hasattr(parameter, "to_local") for parameter in parameters.values()):
            self._note("Parameters that are spread over ranks (DTensor) are not compared by --check-replicas.")
            parameters = {name: each for name, each in parameters.items() if not hasattr(each, "to_local")}
        replica.steps += 1
        names = tuple(name[:_LONGEST] for name in parameters) if replica.steps == 1 else ()
        sums = tuple(_checksum(parameter) for parameter in parameters.values())
        line = line_in(self.script)
        self.writer.send(
            ReplicaSums(
                self.writer.now(), self.writer.rank, replica.number, replica.members, replica.steps, line, names, sums
            )
        )

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.writer.note(text)


def _parameters(model: Any) -> dict[str, torch.Tensor]:
    """The parameters that DDP keeps equal, by name; none if the model is gone."""
    if model is None:
        return {}
    ignored = getattr(model, "parameters_to_ignore", ())
    return {name: each for name, each in model.module.named_parameters() if name not in ignored}


def _checksum(tensor: torch.Tensor) -> str:
    """Return 64 bits of a hash of the bytes of a tensor, as hexadecimal digits."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        with torch.no_grad():
            tensor = tensor.detach().to("cpu").contiguous()
    size = tensor.numel() * tensor.element_size()
    data = (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b""
    return blake2b(data, digest_size=8).hexdigest()


def watch(writer: EventWriter, script: str) -> None:
    """Report the checksums of every DDP model from now on."""
    replicas = _ReplicaWatch(writer, script)
    original = DistributedDataParallel.__init__

    @functools.wraps(original)
    def init(model: Any, *args: Any, **kwargs: Any) -> None:
        original(model, *args, **kwargs)
        replicas.guard(replicas.add_model, model)

    DistributedDataParallel.__init__ = init
    register_optimizer_step_pre_hook(lambda optimizer, *_: replicas.guard(replicas.begin_step, optimizer))
    register_optimizer_step_post_hook(lambda optimizer, *_: replicas.guard(replicas.end_step, optimizer))
