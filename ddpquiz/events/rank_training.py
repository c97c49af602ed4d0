"""What the script of one rank did to train: backward passes, steps of optimizers, and the marks that judge them."""

from dataclasses import dataclass, field

from ddpquiz.events.event import (
    ChangedBeforeWait,
    CoresMissed,
    GatheredGradient,
    GradientChecksum,
    Issued,
    Mark,
    MemoryPeak,
    ModelSharded,
    ModelWrapped,
    NeverAwaited,
    OptimizerSettings,
    OptimizerStep,
    OrderRepeated,
    PartSample,
    RandomDraw,
    ReplicaSample,
    SearchedUnused,
    SyncPaused,
    SyncResumed,
    TensorRead,
    ThreadCount,
    UnreducedGradient,
    UnsyncedForward,
    WeightSample,
)

# Marks of which the last one of a rank counts
_KEPT: dict[type[Mark], str] = {
    TensorRead: "read", MemoryPeak: "memory", UnreducedGradient: "unreduced", SearchedUnused: "searched",
    ThreadCount: "threads", CoresMissed: "missed_cores",
}  # fmt: skip


@dataclass(slots=True)
class RankTraining:
    """What the script of one rank did to train: backward passes whose gradients DDP synchronized, steps, and marks."""

    steps: int = 0  # of optimizers, after a synchronized backward pass
    early: int = 0  # synchronized passes before the last one of their step
    early_bytes: int = 0
    inside: int = 0  # passes that were synchronized inside no_sync
    early_place: tuple[str, int] = ("", 0)  # the line of such a pass
    inside_place: tuple[str, int] = ("", 0)
    all_steps: int = 0  # of optimizers, whether or not gradients were synchronized
    model_steps: int = 0  # of these, those that updated a DDP model
    shard_steps: int = 0  # of these, those that updated this rank's shards of a model of all ranks
    passes: int = 0  # that were synchronized
    pass_place: tuple[str, int] = ("", 0)  # the line of the last one
    wrapped_at: int | None = None  # the line of the script that made the first DDP model; 0 outside the script
    same_order: int = 0  # epochs that a sampler began with the order of an earlier one
    same_order_at: int = 0
    draws: list[str] = field(default_factory=list)  # checksums of the generator in the first steps that drew from it
    gradient_sums: list[str] = field(default_factory=list)  # checksums of its own gradients in the first backwards
    read: TensorRead | None = None  # where it reads a tensor in each step
    memory: MemoryPeak | None = None
    missed_cores: CoresMissed | None = None
    buckets: int = 0  # of all synchronized passes
    bucket_bytes: int = 0
    unsynced: list[tuple[int, bool]] = field(default_factory=list)  # steps with gradients of this rank's own, as _step
    switched_off_at: int | None = None  # the line of a forward pass outside no_sync that DDP was not to synchronize
    unreduced: UnreducedGradient | None = None
    settings: dict[int, OptimizerSettings] = field(default_factory=dict)  # by step of a DDP model's optimizer
    weights: dict[int, WeightSample] = field(default_factory=dict)  # by step
    samples: dict[tuple[int, int], ReplicaSample] = field(default_factory=dict)  # by optimizer and step
    parts: dict[tuple[int, int], PartSample] = field(default_factory=dict)  # the same
    unawaited: list[NeverAwaited] = field(default_factory=list)
    changed: list[ChangedBeforeWait] = field(default_factory=list)
    gathered: list[GatheredGradient] = field(default_factory=list)
    searched: SearchedUnused | None = None
    threads: ThreadCount | None = None
    sharded: int = 0  # calls of fully_shard
    sharded_at: int | None = None  # the line of such a call, if it was for a model of several layers
    _since_step: list[int] = field(default_factory=list)  # bytes of each pass since the last step
    _bucket: int = -1
    _in_no_sync: bool = False
    _local: set[int] = field(default_factory=set)  # models with gradients of this rank's own since the last pass

    def restart(self) -> None:
        """Forget what is compared step by step: the rank begins its script again."""
        self.model_steps = self.shard_steps = 0
        self.settings.clear()
        self.weights.clear()
        self.samples.clear()
        self.parts.clear()

    def reduce(self, event: Issued, bucket: int) -> None:
        """Count a bucket that DDP all-reduces."""
        if bucket <= self._bucket or not self._since_step:
            if self._since_step and not self.early_place[1]:
                self.early_place = self.pass_place
            self.pass_place = (event.operation.file, event.operation.line)
            self._since_step.append(0)
            self.passes += 1
            self._local.clear()
            if self._in_no_sync:
                self.inside += 1
                self.inside_place = self.pass_place
        self._bucket = bucket
        self._since_step[-1] += event.operation.bytes
        self.buckets += 1
        self.bucket_bytes += event.operation.bytes

    def mark(self, mark: Mark) -> None:  # noqa: C901, PLR0912  # a case for each mark
        """Note what the script has done."""
        match mark:
            case SyncPaused() | SyncResumed():
                self._in_no_sync = isinstance(mark, SyncPaused)
                if isinstance(mark, SyncResumed) and mark.model:
                    self._local.add(mark.model)
            case UnsyncedForward():
                self._local.add(mark.model)
                self.switched_off_at = mark.line if self.switched_off_at is None else self.switched_off_at
            case ModelWrapped() if self.wrapped_at is None:
                self.wrapped_at = mark.line
            case OrderRepeated():
                self.same_order += 1
                self.same_order_at = mark.line
            case OptimizerStep():
                self._step(mark)
            case ModelSharded():
                self.sharded += 1
                self.sharded_at = mark.line if mark.several_layers else self.sharded_at
            case RandomDraw():
                self.draws.append(mark.checksum)
            case GradientChecksum():
                self.gradient_sums.append(mark.checksum)
            case OptimizerSettings():
                self.settings[mark.step] = mark
            case WeightSample():
                self.weights[mark.step] = mark
            case ReplicaSample():
                self.samples[mark.optimizer, mark.step] = mark
            case PartSample():
                self.parts[mark.optimizer, mark.step] = mark
            case NeverAwaited():
                self.unawaited.append(mark)
            case ChangedBeforeWait():
                self.changed.append(mark)
            case GatheredGradient():
                self.gathered.append(mark)
            case _ if type(mark) in _KEPT:
                setattr(self, _KEPT[type(mark)], mark)

    def _step(self, mark: OptimizerStep) -> None:
        """Count a step of the optimizer, and whether this rank's own gradients are in it beside synchronized ones."""
        self.all_steps += 1
        self.model_steps += bool(mark.models)
        self.shard_steps += mark.shards
        if not self._local.isdisjoint(mark.models):
            self.unsynced.append((mark.line, bool(self._since_step)))
        self._local.difference_update(mark.models)
        if self._since_step:
            self.steps += 1
            self.early += len(self._since_step) - 1
            self.early_bytes += sum(self._since_step[:-1])
            self._since_step, self._bucket = [], -1
