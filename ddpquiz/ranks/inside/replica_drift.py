"""What makes the replicas of DDP models drift apart, reported as marks: see UnreducedGradient and those after it.

Nothing is computed with torch, no tensor of a GPU is read, and no random number is drawn.
"""

import contextlib
import ctypes
import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ddpquiz.events.event import OptimizerSettings, UnreducedGradient, UnsyncedForward, WeightSample
from ddpquiz.ranks.inside import hand_reduced_replicas
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.leaving import reduced_names

_SAMPLED = 4096  # bytes of each parameter in a sample
_MOST_SAMPLED = 1 << 22  # bytes of all of them
_CHANGES = 100  # of the settings of an optimizer that are reported
_LONGEST = 200  # characters of a name

Marker = Callable[..., None]  # sends a mark of a class, at the line of the script that runs now, with its details


@dataclass(slots=True, eq=False)
class _Model:
    """A DDP model: its number, from 1, and the ids of the parameters whose gradients DDP reduces or was to leave.

    Those that it was to leave are also in `ignored`: each rank may train its own.
    """

    model: ReferenceType[Any]
    number: int
    known: set[int]
    ignored: set[int]
    frozen: list[tuple[str, Any]]  # that needed no gradient when the model was wrapped
    members: tuple[int, ...]  # of its group
    in_world: bool  # every rank holds a replica, and nothing but DDP synchronizes


@dataclass(slots=True, eq=False)
class _Optimizer:
    """An optimizer: the models that it updates, and its parameters that came into a model after it was wrapped."""

    parameters: int
    models: list[_Model]
    added: list[tuple[str, Any]] = field(default_factory=list)


class DriftMarks:
    """Sends marks through `mark`; see the module."""

    def __init__(self, mark: Marker, writer: EventWriter) -> None:
        self.mark, self.writer = mark, writer
        self._models: list[_Model] = []
        self._optimizers: WeakKeyDictionary[Any, _Optimizer] = WeakKeyDictionary()
        self._steps, self._changes, self._settings, self._has_told = 0, _CHANGES, "", False
        self._in_no_sync = 0  # how many of these blocks are around what runs now

    def add_model(self, model: Any) -> None:
        """Note a model that DDP has just wrapped, and the names of the parameters whose gradients it reduces."""
        ignored = getattr(model, "parameters_to_ignore", ())
        named = [*model.module.named_parameters()]
        left = {id(each) for name, each in named if name in ignored}
        known = {id(each) for _, each in named if each.requires_grad} | left
        frozen = [(name, each) for name, each in named if id(each) not in known]
        members = tuple(dist.get_process_group_ranks(model.process_group))
        reduced_names[model] = tuple(name for name, each in named if each.requires_grad and name not in ignored)
        self._models.append(
            _Model(
                ref(model), len(self._models) + 1, known, left, frozen, members, len(members) == dist.get_world_size()
            )
        )

    def before_block(self, model: Any) -> Any:
        """What `changed_in` compares, at the beginning of no_sync."""
        self._in_no_sync += 1
        return [(each.grad, _version(each.grad)) for each in _few_parameters(model)]

    def changed_in(self, model: Any, before: Any) -> int:
        """The number of a model if a backward pass has changed its gradients since then, or else 0."""
        self._in_no_sync -= 1
        now = [(each.grad, _version(each.grad)) for each in _few_parameters(model)]
        changed = any(
            grad is not None and (grad is not old or version != old_version)
            for (grad, version), (old, old_version) in zip(now, before, strict=False)
        )
        return next((each.number for each in self._models if each.model() is model and changed), 0)

    def forward(self, model: Any) -> None:
        """Report a forward pass to train of a DDP model that does not synchronize, outside no_sync."""
        if not model.require_backward_grad_sync and model.training and torch.is_grad_enabled():
            number = next((each.number for each in self._models if each.model() is model), 0)
            if number and not self._in_no_sync:
                self.mark(UnsyncedForward, number)

    def before_step(self, optimizer: Any) -> None:
        """Look at an optimizer that is about to make a step."""
        with contextlib.suppress(Exception):  # a script's own optimizer may be of any form
            updated = self._updated_by(optimizer)
            groups = {each.members for each in updated.models}
            models = hand_reduced_replicas.DdpModels(lambda: self._held_with(updated), groups)
            hand_reduced_replicas.before_step(optimizer, models, self.mark, self.writer.send, self.writer.now())
            if not updated.models:
                return
            self._steps += 1
            if not self._has_told:
                self._report_unreduced(updated)
            shares_state = type(optimizer).__module__.startswith("torch.distributed")
            if not shares_state and all(each.in_world for each in updated.models):
                self._report_settings(optimizer)

    def after_step(self, optimizer: Any) -> tuple[int, ...]:
        """The numbers of the DDP models that a step has updated."""
        with contextlib.suppress(Exception):  # the same
            models = self._updated_by(optimizer).models
            if models and self._steps & (self._steps - 1) == 0:  # steps 1, 2, 4, 8, ...
                self._report_weights(models)
            return tuple(each.number for each in models)
        return ()

    def _updated_by(self, optimizer: Any) -> _Optimizer:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        found = self._optimizers.get(optimizer)
        if found is not None and found.parameters == len(parameters) and found.models:
            return found
        ids = {id(each) for each in parameters}
        models = [
            each
            for each in self._models
            if each.model() is not None and not ids.isdisjoint(each.known | {id(one) for _, one in each.frozen})
        ]
        added = [
            (name, one)
            for each in models
            for name, one in getattr(each.model(), "module", torch.nn.Module()).named_parameters()
            if id(one) in ids - each.known and all(one is not other for _, other in each.frozen)
        ]
        self._optimizers[optimizer] = found = _Optimizer(len(parameters), models, added)
        return found

    def _held_with(self, updated: _Optimizer) -> set[int]:
        """The ids of the parameters of all DDP models, with those of an optimizer that came into one later."""
        others = [one for models in self._models for _, one in models.frozen] + [one for _, one in updated.added]
        return {id(each) for each in others}.union(*(each.known for each in self._models))

    def _report_unreduced(self, updated: _Optimizer) -> None:
        """Report the parameters that have a gradient of which DDP does not know."""
        known = set().union(*(model.known for model in self._models))  # a model may have been wrapped anew
        frozen = [each for model in updated.models for each in model.frozen if _has_gradient(each[1], known)]
        found = frozen or [each for each in updated.added if _has_gradient(each[1], known)]
        if found:
            self._has_told = True
            self.mark(UnreducedGradient, found[0][0][:_LONGEST], len(found), bool(frozen))

    def _report_settings(self, optimizer: Any) -> None:
        settings = "; ".join(dict.fromkeys(map(_settings_of, optimizer.param_groups)))[:_LONGEST]
        if settings == self._settings or not self._changes:
            return
        details: list[int] = []
        if not self._settings:
            steps = [_steps_in(state) for state in optimizer.state.values()]
            details = [len(steps), max(steps, default=0)]
        self._settings, self._changes = settings, self._changes - 1
        self.mark(OptimizerSettings, self._steps, settings, *details)

    def _report_weights(self, models: list[_Model]) -> None:
        checksum, left = 0, _MOST_SAMPLED
        for each in models:
            model = each.model()
            if model is None or not each.in_world or getattr(model, "_comm_hooks", None):  # a hook may average later
                return
            for parameter in model.module.parameters():
                if id(parameter) not in each.known or id(parameter) in each.ignored:
                    continue
                if not parameter.is_cpu or not parameter.is_contiguous() or type(parameter) is not torch.nn.Parameter:
                    return
                size = min(parameter.nbytes, _SAMPLED, left)
                checksum = zlib.crc32(ctypes.string_at(parameter.data_ptr(), size), checksum)
                left -= size
        self.mark(WeightSample, self._steps, f"{checksum:08x}")


def _few_parameters(model: Any) -> list[Any]:
    parameters = [each for each in model.module.parameters() if each.requires_grad]
    return [*parameters[:4], *parameters[-4:]]


def _version(gradient: Any) -> int:
    return 0 if gradient is None else int(gradient._version)  # noqa: SLF001  # how often it was changed in place


def _has_gradient(parameter: Any, known: set[int]) -> bool:
    return parameter.requires_grad and parameter.grad is not None and id(parameter) not in known


def _settings_of(group: dict[str, Any]) -> str:
    """The numbers among the options of a group of parameters: `lr 0.1, momentum 0.9`."""
    numbers = []
    for name, value in group.items():
        if isinstance(value, torch.Tensor) and value.is_cpu and value.numel() == 1:
            value = value.item()  # noqa: PLW2901
        if isinstance(value, float | tuple) or (type(value) is int and name != "params"):
            numbers.append(f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(numbers)


def _steps_in(state: Any) -> int:
    """The steps that the state of a parameter has seen; 0 if it does not count them."""
    step = state.get("step", 0) if isinstance(state, dict) else 0
    if isinstance(step, torch.Tensor):
        return int(step) if step.is_cpu and step.numel() == 1 else 0
    return int(step)


def watch(mark: Marker, writer: EventWriter) -> DriftMarks:
    """Report from now on what makes replicas drift apart."""
    drift = DriftMarks(mark, writer)
    original, original_forward = DistributedDataParallel.__init__, DistributedDataParallel.forward

    @functools.wraps(original)
    def init(model: Any, *args: Any, **kwargs: Any) -> None:
        original(model, *args, **kwargs)
        drift.add_model(model)

    @functools.wraps(original_forward)
    def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
        drift.forward(model)
        return original_forward(model, *args, **kwargs)

    DistributedDataParallel.__init__, DistributedDataParallel.forward = init, forward
    register_optimizer_step_pre_hook(lambda optimizer, *_: drift.before_step(optimizer))
    return drift
