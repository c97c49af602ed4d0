"""What the logs of a job say of each rank: whose an error is, which came first, who is silent, what became of whom.

`log_diagnosis.py`, `log_waits.py` and `job_diagnosis.py` judge by it. It makes no verdict itself, but completes each
with what followed from the cause and with the lines on which it rests.
"""

from __future__ import annotations

import re
import signal
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from ddpquiz.diagnosis.diagnosis import Diagnosis, FaultKind, RankPosition
from ddpquiz.diagnosis.root_cause import gathered_failures, is_consequence, was_stopped
from ddpquiz.events.event import Raised
from ddpquiz.events.formatting import format_place, format_ranks, in_one_line
from ddpquiz.events.source_text import frames_in, own_frame
from ddpquiz.jobs.log_file import (
    JobLog,
    LogFact,
    LoggedError,
    LoggedExit,
    LoggedNotice,
    LoggedProgress,
    LoggedWait,
    LogLine,
)
from ddpquiz.plural import plural

Fact = TypeVar("Fact", bound=LogFact)
_MOST_LINES = 6  # that a verdict quotes
_MOST_SURVIVED = 3  # kinds of exceptions that ended no rank, which a verdict tells
_SURE = 2  # seconds by which lines of two logs must differ, so that one of them is surely the earlier one
_FINE = (0, -signal.SIGTERM)  # how a rank ends that did not fail: by itself, or because the launcher ends it
RECORD_MORE = (
    "To see every call of every rank, run again with TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, and "
    "put the dumps beside the logs."
)
OTHER_LOGS = "Put the logs of the other ranks beside these."


class LogEvidence:
    """The facts of a job, by what they are.

    `errors` are those that ended a rank, in order, with the rank where it is known; `went_on` those after which it went
    on, `interrupted` those of ctrl+c. `exits` holds how each rank ended, as far as a launcher says it. `stop` is the
    line that tells that somebody ended the job from outside.
    """

    def __init__(self, log: JobLog) -> None:
        self.log = log
        self._order = {name: number for number, name in enumerate(log.files)}
        self.exits = {exited.rank: exited for exited in self.of(LoggedExit) if exited.rank is not None}
        self.waits, self.notices, self.progress = self.of(LoggedWait), self.of(LoggedNotice), self.of(LoggedProgress)
        self.stop = self._find_stop()
        every = self.of(LoggedError)
        self.of_launcher = [error for error in every if error.of_launcher and error.error != "ChildFailedError"]
        ended = [error for error in every if not error.of_launcher and not _is_clean_exit(error)]
        self.went_on = self._survived(ended)
        survived = frozenset(self.went_on)
        ended = [error for error in ended if error not in survived]
        self.interrupted = [error for error in ended if error.error == "KeyboardInterrupt"]
        self.errors = self._with_ranks([error for error in ended if error.error != "KeyboardInterrupt"])

    def of(self, kind: type[Fact]) -> list[Fact]:
        """The facts of a kind."""
        return [fact for fact in self.log.facts if isinstance(fact, kind)]

    def notice(self, *kinds: str) -> LoggedNotice | None:
        """The first line of some kinds."""
        return next((notice for notice in self.notices if notice.kind in kinds), None)

    def _find_stop(self) -> LoggedNotice | None:
        """The first line that tells that the job was ended from outside; Slurm also ends tasks because one failed."""
        stop = self.notice("time_limit", "launcher_signal")
        is_of_failure = stop and stop.kind == "time_limit" and "DUE TO" not in stop.said and self.failed_exits()
        return None if is_of_failure else stop

    # Which errors ended no rank.

    def _survived(self, errors: Sequence[LoggedError]) -> list[LoggedError]:
        """The errors after which a rank went on: a handler may have printed a traceback that nobody signed.

        Torch signs the exception that ends a rank once the rank has formed its group, so an unsigned one before that
        ended none. And a launcher knows the signal of which a rank died.
        """
        signed = [error for error in errors if error.uncaught]
        last_words: defaultdict[int | None, list[LoggedError]] = defaultdict(list)
        for error in signed:
            last_words[error.rank].append(error)
        last_words.pop(None, None)
        own_causes = [error for error in signed if not error.crash and not self.follows(error)]
        printed_more = frozenset(self.log.went_on)
        has_failed = bool(signed or self.waits) or any(exited.status for exited in self.exits.values())
        # What follows the restart of all ranks says nothing of those before it.
        is_one_attempt = self.notice("restart") is None
        unsigned = [error for error in errors if not error.uncaught]
        found = {
            error
            for error in unsigned
            if error.beside
            or self._is_before_one(error, last_words.get(error.rank, ()))
            or (is_one_attempt and (self._is_before_one(error, own_causes) or self._launcher_saw_it_survive(error)))
            or self._went_on(error, printed_more=error in printed_more, has_failed=has_failed)
        }
        # What one rank survives, all of them do.
        proven = {kind_of(error) for error in found if error.rank is not None and not error.beside}
        return [error for error in unsigned if error in found or kind_of(error) in proven]

    def _is_before_one(self, error: LoggedError, others: Sequence[LoggedError]) -> bool:
        """Whether one of the other errors came later, as far as is known; the same one, told again, does not count."""
        return any(
            (other.error, other.message) != (error.error, error.message) and not self.is_before(other, error)
            for other in others
        )

    def _launcher_saw_it_survive(self, error: LoggedError) -> bool:
        """Whether its launcher saw the rank of an unsigned error die of a signal, or all ranks alive after it."""
        killed = [exited.rank for exited in self.exits.values() if exited.first and was_killed(exited)]
        return (bool(killed) and error.rank in (None, *killed)) or self._was_watched(error)

    def _was_watched(self, error: LoggedError) -> bool:
        """Whether torchrun, until it was told to end all ranks, saw that none had ended."""
        if self.stop is None or self.stop.kind != "launcher_signal" or self.exits:
            return False
        ending = self.notice("stopping")
        ended_before = ending is not None and self.is_before(ending, self.stop)
        return bool(self.is_before(error, self.stop)) and not ended_before

    def _went_on(self, error: LoggedError, *, printed_more: bool, has_failed: bool) -> bool:
        """Whether the rank of an unsigned traceback lived on after it, or nothing shows that any rank failed."""
        if not has_failed:
            return printed_more or (error.by_logger and not self._shows_failure())
        if error.rank is None or not printed_more:  # who printed more may be another rank
            return False
        exited = self.exits.get(error.rank)
        return error.by_logger or (exited is not None and exited.status <= 0)

    def is_open(self, error: LoggedError) -> bool:
        """Whether an exception may have been printed by a handler: the logs end with it, and no rank is known to fail.

        Python prints the traceback of an exception that ends a program like that of one which the program handles.
        """
        has_failed = bool(self.waits) or any(each.uncaught for each in self.errors) or bool(self.failed_exits())
        has_launcher = self.log.has_launcher or self.stop or self.notice("stopping")
        return not (error.uncaught or error.crash or has_failed or self._shows_failure() or has_launcher)

    def _shows_failure(self) -> bool:
        """Whether lines without a rank or an exit show that the job failed."""
        errors = self.of(LoggedError)
        noticed = self.notice("caught_loss", "abort", "heartbeat", "memory_killer")
        return noticed is not None or any(error.of_launcher or is_consequence(error.message) for error in errors)

    def survived_words(self) -> list[str]:
        """What the logs hold of exceptions that ended no rank; those of one kind once."""
        kinds: defaultdict[tuple[str, str, int], list[LoggedError]] = defaultdict(list)
        for error in self.went_on:
            kinds[kind_of(error)].append(error)
        return [_survived_words(errors) for errors in kinds.values()][:_MOST_SURVIVED]

    def ended_threads(self) -> list[tuple[int | None, str]]:
        """The exceptions that ended threads or callbacks: the rank, if it is known, and a sentence."""
        return [(error.rank, _survived_words([error])) for error in self.went_on if error.beside]

    # Whose an error is, if its lines do not say it: the launcher's account of exits may.

    def _with_ranks(self, errors: Sequence[LoggedError]) -> list[LoggedError]:
        """The errors in order, each with its rank if that can be known; what is told twice is left out.

        All ranks wrote the same error only if none of them ended by another one.
        """
        known = {(error.rank, error.error): error for error in reversed(errors) if error.rank is not None}
        told = {(error, each.message[:80]) for (_, error), each in known.items()}
        unknown = [error for error in errors if error.rank is None and (error.error, error.message[:80]) not in told]
        kinds = Counter(map(kind_of, unknown))
        with_error = {rank for rank, _ in known} | {error.rank for error in self.interrupted}
        named = {*self.log.seen} or {*range(self.log.ranks)}
        may_be_all = named == {*range(self.log.ranks)} and not with_error
        failed = [rank for rank in self.failed_exits() if rank not in with_error]
        found = [*known.values()]
        begun = set()
        for error in unknown:
            kind = kind_of(error)
            if may_be_all and kinds[kind] == self.log.ranks > 1:  # all ranks wrote the same
                found += [replace(error, rank=rank) for rank in range(self.log.ranks)] if kind not in begun else []
            elif len(failed) == 1 and len(unknown) == 1 and _may_end_so(error, self.exits[failed[0]]):
                found.append(replace(error, rank=failed[0]))
            else:
                found.append(error)
            begun.add(kind)
        return sorted(found, key=self._place)

    def failed_exits(self) -> list[int]:
        """The ranks that ended with a status or by a signal of their own, not by the launcher's."""
        return sorted(rank for rank, exited in self.exits.items() if exited.status not in _FINE)

    def causes(self) -> list[LoggedError]:
        """The errors that neither another rank caused nor the end of the job."""
        return [error for error in self.errors if not self.follows(error)]

    def follows(self, error: LoggedError) -> bool:
        """Whether an error only followed from the failure of another rank, or from the end of the job."""
        return is_consequence(error.message) or self.is_of_stop(error) or self._was_told(error)

    def _was_told(self, error: LoggedError) -> bool:
        """Whether a rank raised only because a step of a checkpoint had failed on others, which raised that too."""
        failed = gathered_failures(error.message)
        if not failed or error.rank is None or error.rank in failed:
            return False
        return any(each.rank in failed and gathered_failures(each.message) for each in self.of(LoggedError))

    def is_of_stop(self, error: LoggedError) -> bool:
        """Whether a rank raised this because it was told to end, from outside or by its launcher."""
        return was_stopped(error.message) or (self.stop is not None and bool(self.is_before(self.stop, error)))

    def silent_ends(self) -> list[int]:
        """The ranks that ended with a status or by a signal of their own, for which no error or timeout is known.

        An exception that nobody signs may be that of any rank which ended with a status.
        """
        said = {error.rank for error in self.errors} | {wait.rank for wait in self.waits}
        is_told = self.size_abort() is not None  # Gloo ends that rank by SIGABRT
        has_unsigned = any(error.rank is None and not error.crash for error in self.errors)
        return [
            rank
            for rank in self.failed_exits()
            if rank not in said
            and not (is_told and self.exits[rank].status == -signal.SIGABRT)
            and not (has_unsigned and self.exits[rank].status > 0)
        ]

    def size_abort(self) -> LoggedNotice | None:
        """The line with which Gloo ends a rank that receives more than its tensor holds."""
        return next((each for each in self.notices if each.kind == "abort" and "op.preamble" in each.said), None)

    # What came first.

    def _place(self, fact: LogFact) -> tuple[int, int]:
        return self._order.get(fact.at.file, 0), fact.at.number

    def is_before(self, first: LogFact, second: LogFact) -> bool | None:
        """Whether a line was written before another one; None if that cannot be told."""
        if first.at.file == second.at.file:
            return first.at.number < second.at.number
        if first.at.second is None or second.at.second is None:
            return None
        apart = second.at.second - first.at.second  # a line without a time may have been written later
        if apart >= _SURE and first.at.is_timed:
            return True
        return False if apart <= -_SURE and second.at.is_timed else None

    def earliest(self, facts: Collection[Fact]) -> Fact:
        """The fact that was written first, as far as times of day and the order of lines say it."""
        has_times = len({fact.at.file for fact in facts}) > 1 and all(fact.at.second is not None for fact in facts)

        def place(fact: Fact) -> tuple[int, int, int]:
            return (fact.at.second or 0 if has_times else 0, *self._place(fact))

        return min(facts, key=place)

    # Ranks of which the logs say nothing bad.

    def silent(self, heard: Collection[int]) -> tuple[int, ...]:
        """The ranks of the job that reported nothing, apart from those that were `heard`."""
        failed = {error.rank for error in self.errors}
        return tuple(rank for rank in range(self.log.ranks) if rank not in heard and rank not in failed)

    def what_became_of(self, ranks: Collection[int]) -> tuple[FaultKind, str, tuple[str, ...]]:
        """What is known of ranks for which others waited: a kind of fault, words, and what stays open."""
        dead = [rank for rank in ranks if rank in self.failed_exits()]
        if dead and not any(error.rank in dead for error in self.errors):
            return "dead", ended_words(self.exits[dead[0]].status), ()
        has_summary = self.log.has_launcher and any(not exited.is_local for exited in self.exits.values())
        if has_summary and not any(rank in self.exits for rank in ranks):
            open_ = "torchrun's summary does not list it as failed; it lists only ranks of its own machine."
            return "left", "ended without an error", (open_,)
        wrote = {each.rank for each in self.progress}
        if all(rank in wrote or rank in self.exits for rank in ranks):
            return "late", "has not reached this call", ()
        if all(rank in self.log.seen for rank in ranks):
            return "late", "has not reached this call", ("The logs do not say whether it was still running.",)
        open_ = "It died, it was busy and so noticed nothing, or its log was not collected."
        return "absent", "nothing is known of it", (open_,)

    # What all verdicts have.

    def places(self, errors: Sequence[LoggedError]) -> list[RankPosition]:
        """Where ranks stood when they raised, those at one place together."""
        places: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
        for error in errors:
            if error.rank is not None:
                doing = "stopped by SIGTERM" if was_stopped(error.message) else f"raised {error.error}"
                places[operation_of(error) or doing, *frame_of(error)].append(error.rank)
        return [RankPosition(tuple(sorted({*ranks})), *place) for place, ranks in places.items()]

    def wait_positions(self, waits: Sequence[LoggedWait]) -> list[RankPosition]:
        """The collectives in which ranks waited, those in one together."""
        ranks: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
        for wait in waits:
            if wait.rank is not None:
                number = f", number {wait.sequence}" if wait.sequence > 0 else ""
                ranks[f"{request_words(wait.op, wait.elements)}{number}", wait.file, wait.line].append(wait.rank)
        return [RankPosition(tuple(sorted({*members})), *call) for call, members in ranks.items()]

    def complete(
        self, found: Diagnosis, cause: Collection[int], facts: Sequence[LogFact], limits: Sequence[str] = ()
    ) -> Diagnosis:
        """A verdict with what followed from its cause, and with the lines on which it rests."""
        positions, sentence, cause = found.positions, found.sentence, frozenset(cause)
        if found.fault == "dead" and cause:
            if not positions:
                positions = (RankPosition(tuple(sorted(cause)), ended_words(self.exits[min(cause)].status)),)
            followed = [error for error in self.errors if error.rank not in cause and self.follows(error)]
            lost = [wait for wait in self.waits if wait.rank not in cause]
            if ranks := {fact.rank for fact in (*followed, *lost) if fact.rank is not None}:
                sentence = f"{sentence.rstrip('.')}. {ranks_capitalized(ranks)} failed because of that."
                positions += (*self.places(followed), *self.wait_positions(lost))
        evidence = [*found.evidence, *_quoted([fact.at for fact in facts])]
        named = next((exited for exited in self.exits.values() if exited.first), None)
        if named and cause and named.rank not in cause and self.log.has_launcher:
            evidence.append(f"{named.at} (torchrun names the rank whose end it noticed first, not the cause)")
        return replace(
            found, sentence=sentence, positions=positions, limits=(*found.limits, *limits, *self._restarts()),
            evidence=tuple(dict.fromkeys(evidence)),
        )  # fmt: skip

    def _restarts(self) -> list[str]:
        """What is open if torchrun saw a rank fail and did not end the job, as far as its log goes."""
        has_failed = any(exited.is_local for exited in self.exits.values())
        if not has_failed or any(error.error == "ChildFailedError" for error in self.of(LoggedError)):
            return []
        return ["torchrun did not end the job after that: it may have restarted the ranks, or its log is cut off."]


def _is_clean_exit(error: LoggedError) -> bool:
    return error.error == "SystemExit" and error.message in ("", "0")


def was_killed(exited: LoggedExit) -> bool:
    """Whether a signal ended a rank; SIGABRT does not count, by which a rank ends itself after many an error."""
    return exited.status < 0 and exited.status != -signal.SIGABRT


def _survived_words(errors: Sequence[LoggedError]) -> str:
    """A sentence on exceptions of one kind, after which ranks went on."""
    first = errors[0]
    ranks = sorted({error.rank for error in errors if error.rank is not None})
    file, line = frame_of(first)
    what = f"{first.error}{f' at {format_place(file, line)}' if line else ''}"
    if first.beside:
        whose = f"a thread or a callback of {format_ranks(ranks)}" if ranks else "a thread or a callback"
        return f"{what} ended {whose}, and not the rank: {in_one_line(first.message)}".rstrip(": ")
    whose = f" of {format_ranks(ranks)}" if ranks else ""
    return f"A traceback{whose} ({what}) is in the log; nothing shows that it ended a rank."


def _may_end_so(error: LoggedError, exited: LoggedExit) -> bool:
    """Whether a rank with this error can have ended with this status."""
    return exited.status < 0 if error.crash else exited.status > 0 or exited.status == -signal.SIGABRT


def _quoted(lines: Sequence[LogLine]) -> list[str]:
    """Lines with their file and number; those that differ in numbers only are told once."""
    alike: dict[str, list[LogLine]] = {}
    for line in lines:
        alike.setdefault(re.sub(r"\d+", "#", line.text), []).append(line)
    more = {text: f" (and {plural(len(group) - 1, 'line')} like it)" for text, group in alike.items() if len(group) > 1}
    return [f"{group[0]}{more.get(text, '')}" for text, group in alike.items()][:_MOST_LINES]


def as_event(error: LoggedError, time: float, rank: int) -> Raised:
    """An error as the event of a run."""
    return Raised(time, rank, error.error, error.message, error.traceback)


def kind_of(error: LoggedError) -> tuple[str, str, int]:
    """What errors of the same kind have in common: the type, and the line of the script."""
    return error.error, *frame_of(error)


def frame_of(error: LoggedError) -> tuple[str, int]:
    """The innermost line outside libraries, or ("", 0)."""
    return own_frame(error.traceback, "", newest_first=error.crash)


def operation_of(error: LoggedError) -> str:
    """The communication in which an exception was raised, by torch's frames, or an empty text."""
    inside = [frame.name.strip() for frame in frames_in(error.traceback) if frame.file.endswith("distributed_c10d.py")]
    return next((name for name in inside if not name.startswith("_")), "")


def ended_words(status: int) -> str:
    """How a rank ended, which continues the sentence "rank 2 ...": `exited with status 3`."""
    return f"exited with status {status}" if status >= 0 else f"died of {signal_name(-status)}"


def signal_name(number: int) -> str:
    """The name of a signal; real-time signals have numbers only."""
    return signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"


def request_words(op: str, elements: int | None) -> str:
    """A collective with its size."""
    return op if elements is None or op == "barrier" else f"{op} of {plural(elements, 'element')}"


def ranks_capitalized(ranks: Collection[int]) -> str:
    """Ranks at the beginning of a sentence."""
    return format_ranks(ranks).capitalize()


def smallest_side(sides: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The ranks of the smaller sides, and what that leaves open; all ranks if the largest sides are equal."""
    most = max(map(len, sides))
    if sum(len(ranks) == most for ranks in sides) > 1:
        every = tuple(sorted({rank for ranks in sides for rank in ranks}))
        return every, ("The logs do not say which side is wrong.",)
    few = tuple(sorted({rank for ranks in sides if len(ranks) < most for rank in ranks}))
    verb = "differs" if len(few) == 1 else "differ"
    return few, (f"{ranks_capitalized(few)} {verb} from most; that need not be the wrong side.",)
