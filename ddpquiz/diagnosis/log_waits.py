"""For whom ranks waited, by their logs: over NCCL, over Gloo, in the store, or until a connection broke.

The watchdog numbers the collectives of each group. So a rank that has not enqueued a number is behind, and ranks that
waited in different calls with one number can never meet. Gloo's exceptions have no numbers: there, only the lines of
the script and the ranks that reported nothing tell something.
"""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from ddpquiz.diagnosis.diagnosis import ADVICE, MESSAGES, TAGS, Diagnosis, FaultKind, RankPosition
from ddpquiz.diagnosis.forming_groups import advise_connecting
from ddpquiz.diagnosis.log_evidence import (
    OTHER_LOGS,
    RECORD_MORE,
    LogEvidence,
    frame_of,
    operation_of,
    ranks_capitalized,
    request_words,
    smallest_side,
)
from ddpquiz.events.formatting import format_place, format_ranks, format_seconds, in_one_line
from ddpquiz.events.operation import POINT_TO_POINT
from ddpquiz.events.source_text import code_at
from ddpquiz.jobs.log_file import (
    LogFact,
    LoggedError,
    LoggedLaggards,
    LoggedMismatch,
    LoggedNotice,
    LoggedProgress,
    LoggedWait,
)

_UNEVEN = ("gather", "scatter", "all_to_all", "all_to_all_single", "send", "recv", "coalesced")  # may differ by rank
_ASK_MORE = "Run again with TORCH_DISTRIBUTED_DEBUG=DETAIL: then torch compares the calls of the ranks."


# Calls that differ, as torch itself found out.


def diagnose_logged_mismatch(evidence: LogEvidence, mismatches: Sequence[LoggedMismatch]) -> Diagnosis:
    """The verdict on calls of which torch's own check says that they differ."""
    calls = {}
    for each in reversed(mismatches):
        calls[each.other] = each.other_call
        if each.rank is not None:
            calls[each.rank] = each.call
    sides: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for rank, call in sorted(calls.items()):
        sides[call.op, call.shape, call.dtype].append(rank)
    frames = {error.rank: frame_of(error) for error in evidence.errors}
    positions = tuple(
        RankPosition(tuple(ranks), f"{op} of {shape or 'nothing'} {dtype}".rstrip(), *frames.get(ranks[0], ("", 0)))
        for (op, shape, dtype), ranks in sides.items()
    )
    fault: FaultKind = "order" if len({op for op, _, _ in sides}) > 1 else "signature"
    culprits, limits = smallest_side([*sides.values()])
    parts = [f"{format_ranks(each.ranks)} called {each.doing}{_at(each.file, each.line)}" for each in positions]
    number = next((call.sequence for call in calls.values() if call.sequence is not None), None)
    which = f" (number {number} of their group, counted from 0)" if number is not None else ""
    sentence = f"The calls differ{which}: {', but '.join(parts)}."
    found = Diagnosis(fault, culprits, sentence, positions, advice=ADVICE[fault], limits=limits)
    return evidence.complete(found, tuple(calls), mismatches)


# Ranks that NCCL's watchdog ended.


def diagnose_laggards(
    evidence: LogEvidence, laggards: Sequence[LoggedLaggards], timeouts: Sequence[LoggedWait]
) -> Diagnosis:
    """The verdict on what torch's desync report or a monitored barrier says of ranks that did not come."""
    first = evidence.earliest(laggards)
    said = [each for each in laggards if each.sequence == first.sequence]
    culprits = tuple(sorted({rank for each in said for rank in each.ranks}))
    waiting = [wait for wait in timeouts if first.sequence in (None, wait.sequence) and wait.rank not in culprits]
    raised = [error for error in evidence.errors if "failed to pass monitoredBarrier" in error.message]
    at = _at(*frame_of(raised[0])) if raised else ""
    sentence = (
        f"{_waited(waiting)}. {ranks_capitalized(culprits)} did not join it, says torch's report."
        if waiting
        else f"{ranks_capitalized(culprits)} did not come to the call{at} in which the other ranks waited, says torch."
    )
    kind, status, limits = evidence.what_became_of(culprits)
    stood = [RankPosition((error.rank,), "waited", *frame_of(error)) for error in raised if error.rank is not None]
    positions = (*evidence.wait_positions(waiting), *stood, RankPosition(culprits, status))
    found = Diagnosis(kind, culprits, sentence, positions, advice=ADVICE[kind], limits=limits)
    return evidence.complete(found, culprits, [*said, *waiting])


def diagnose_timeouts(evidence: LogEvidence, timeouts: Sequence[LoggedWait]) -> Diagnosis:
    """The verdict on ranks that the watchdog ended because a collective did not."""
    first = evidence.earliest(timeouts)
    together = [wait for wait in timeouts if wait.group == first.group and wait.rank is not None] or [first]
    least = min(wait.sequence for wait in together)
    by_rank = {wait.rank: wait for wait in reversed(together) if wait.sequence == least}
    waiting = sorted(by_rank.values(), key=lambda wait: -1 if wait.rank is None else wait.rank)
    members = {wait.rank for wait in waiting if wait.rank is not None}
    others = [wait for wait in timeouts if wait.group != first.group]
    limits = []
    if others:
        other = evidence.earliest(others)
        ranks = {wait.rank for wait in others if wait.rank is not None}
        limits.append(
            f"{ranks_capitalized(ranks)} timed out in another group too, in {request_words(other.op, other.elements)}."
        )
    if not first.group and len(members) > 1:
        limits.append("The logs do not name the groups of these calls: the ranks may have waited in different ones.")
    if different := _of_different_waits(evidence, waiting, limits):
        return different
    behind = _behind(evidence, first.group, least, members) if first.group else {}
    if behind:
        return _of_behind(evidence, behind, waiting, limits)
    heard = {wait.rank for wait in timeouts if wait.rank is not None}
    if first.group and heard - members and not evidence.silent(heard):
        return _of_crossed_groups(evidence, waiting, [wait for wait in others if wait.rank not in members])
    return _of_unknown_wait(evidence, waiting, heard, limits)


def _of_crossed_groups(evidence: LogEvidence, waiting: Sequence[LoggedWait], others: Sequence[LoggedWait]) -> Diagnosis:
    """The verdict where every rank timed out, some in one group and some in another."""
    ranks = tuple(sorted({wait.rank for wait in (*waiting, *others) if wait.rank is not None}))
    calls = f"{_waited(waiting)}, but {_waited(others)[0].lower()}{_waited(others)[1:]}"
    groups = f"groups {waiting[0].group} and {others[0].group}"
    found = Diagnosis(
        "order", ranks, f"{calls}: the calls are of {groups}.", tuple(evidence.wait_positions([*waiting, *others])),
        advice=f"Call collectives of several groups in the same order on every rank. {RECORD_MORE}",
        limits=(f"The logs do not say who is in {groups}; if these ranks are in both, they came in different order.",),
    )  # fmt: skip
    return evidence.complete(found, (), [*waiting, *others])


def _of_different_waits(
    evidence: LogEvidence, waiting: Sequence[LoggedWait], limits: Sequence[str]
) -> Diagnosis | None:
    """The verdict on ranks that waited in calls with one number that cannot belong together."""
    sides: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
    for wait in waiting:
        if wait.rank is not None:
            sides[wait.op, None if wait.op in _UNEVEN else wait.elements].append(wait.rank)
    if len(sides) < 2:
        return None
    fault: FaultKind = "order" if len({op for op, _ in sides}) > 1 else "signature"
    culprits, open_ = smallest_side([*sides.values()])
    calls = ", ".join(f"{format_ranks(ranks)} waited in {request_words(*call)}" for call, ranks in sides.items())
    number = waiting[0].sequence
    earlier = (
        "If a rank left out or added a call earlier, the calls have met wrongly since then, and the cause is that "
        "earlier line."
    )
    found = Diagnosis(
        fault, culprits, f"{_sentence(calls)}, each as number {number} of the same group: these calls cannot meet.",
        tuple(evidence.wait_positions(waiting)), advice=f"{ADVICE[fault]} {RECORD_MORE}", limits=(*open_, earlier),
        index=max(0, number - 1),
    )  # fmt: skip
    return evidence.complete(found, (), waiting, limits)


def _behind(evidence: LogEvidence, group: str, number: int, waiting: Collection[int]) -> dict[int, LoggedProgress]:
    """The ranks that had not enqueued a collective of a group, by what they wrote last."""
    last = {each.rank: each for each in evidence.progress if each.group == group and each.rank is not None}
    return {rank: each for rank, each in sorted(last.items()) if each.enqueued < number and rank not in waiting}


def _of_behind(
    evidence: LogEvidence, behind: dict[int, LoggedProgress], waiting: Sequence[LoggedWait], limits: Sequence[str]
) -> Diagnosis:
    by_last: defaultdict[int, list[int]] = defaultdict(list)
    for rank, each in behind.items():
        by_last[each.enqueued].append(rank)
    culprits, number = tuple(behind), waiting[0].sequence
    done = f"had enqueued less than number {number}"
    if len(by_last) == 1:
        last = min(by_last)
        done = f"had last enqueued number {last}" if last > 0 else "had enqueued no collective of the group"
    kind, _, _ = evidence.what_became_of(culprits)
    stood = [
        RankPosition(tuple(ranks), f"last enqueued number {last}" if last > 0 else "enqueued none")
        for last, ranks in sorted(by_last.items())
    ]
    open_ = (
        f"The logs do not say what {format_ranks(culprits)} did instead: it was slow, waited in another group, or left "
        "out this call and came to none after it."
    )
    found = Diagnosis(
        kind, culprits, f"{_waited(waiting)} for {format_ranks(culprits)}, which {done}.",
        (*evidence.wait_positions(waiting), *stood), advice=ADVICE[kind], limits=(open_,), index=max(0, number - 1),
    )  # fmt: skip
    return evidence.complete(found, culprits, [*waiting, *behind.values()], limits)


def _of_unknown_wait(
    evidence: LogEvidence, waiting: Sequence[LoggedWait], heard: Collection[int], limits: Sequence[str]
) -> Diagnosis:
    """The verdict on ranks that all waited in the same call: for those that reported nothing, if there are any."""
    positions = tuple(evidence.wait_positions(waiting))
    if silent := evidence.silent(heard):
        kind, status, open_ = evidence.what_became_of(silent)
        unsure = "A log does not hold whether a rank came to a call: it may also have waited in another group."
        found = Diagnosis(
            kind, silent,
            f"{_waited(waiting)}, as it seems for {format_ranks(silent)}, which reported no timeout.",
            (*positions, RankPosition(silent, status)), advice=f"{ADVICE[kind]} {RECORD_MORE}", limits=(*open_, unsure),
        )  # fmt: skip
        return evidence.complete(found, silent, waiting, limits)
    who = "All ranks of these logs" if len(waiting) > 1 else "The only rank of these logs"
    causes = (
        f"{who} waited in the same call. Work on the GPU before it may have taken longer than the timeout, the "
        "network may have failed, a dtype may differ, or a rank is not in these logs."
    )
    found = Diagnosis(
        "unknown", (), f"{_waited(waiting)}, and the timeout of the group ended it.", positions,
        advice=f"{OTHER_LOGS} {RECORD_MORE}", limits=(causes,),
    )  # fmt: skip
    return evidence.complete(found, (), waiting, limits)


def diagnose_dump_signal(evidence: LogEvidence, signalled: LoggedNotice) -> Diagnosis:
    """The verdict where ranks write that another one had timed out, and its own lines are not in the logs."""
    first = format_ranks(signalled.ranks)
    last: defaultdict[tuple[str, int, int], list[int]] = defaultdict(list)
    for rank, each in sorted({each.rank: each for each in evidence.progress if each.rank is not None}.items()):
        last[each.group, each.enqueued, each.completed].append(rank)
    positions = tuple(
        RankPosition(tuple(ranks), f"last enqueued number {enqueued}, completed {completed}, of group {group}")
        for (group, enqueued, completed), ranks in last.items()
    )
    found = Diagnosis(
        "unknown", (), f"{_sentence(first)} timed out in a collective, say the other ranks; in which one is not here.",
        positions, advice=f"Look at the lines of {first} before that: they name the collective. {RECORD_MORE}",
        limits=("The ranks that had completed all that they enqueued did not wait in a collective of their group.",),
    )  # fmt: skip
    return evidence.complete(found, (), [signalled])


def _waited(waits: Sequence[LoggedWait]) -> str:
    """A sentence on ranks that waited in the same call, without its full stop."""
    ranks = {wait.rank for wait in waits if wait.rank is not None}
    wait = next((each for each in waits if each.line), waits[0])
    number = f" (number {wait.sequence} of its group)" if wait.sequence > 0 else ""
    seconds = f" {format_seconds(max(each.seconds or 0 for each in waits))}" if wait.seconds else ""
    who = ranks_capitalized(ranks) if ranks else "A rank"
    return f"{who} waited{seconds} in {request_words(wait.op, wait.elements)}{_at(wait.file, wait.line)}{number}"


# Ranks that raised because they had waited too long: over Gloo, in the store, to form a group.

_NCCL_SETUP = re.compile(r"\[\d+\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(\d+)\]")
_GLOO_ADDRESS = re.compile(r"keys: \S*//(?:cpu|cuda)//\d+/(\d{1,4})$")  # of a member of a group
_KEYS = re.compile(r"wait timeout after \d+ms, keys: (\S+)")
_JOINED = re.compile(r"(\d+)/(\d+) clients joined")
_MILLISECONDS = re.compile(r"(?:waiting|timeout after|in|failed after) (\d{1,12}) ?ms")


def diagnose_late_errors(evidence: LogEvidence, late: Sequence[LoggedError]) -> Diagnosis:
    """The verdict on exceptions that say that a rank waited too long."""
    first = evidence.earliest(late)
    ranks = {error.rank for error in late if error.rank is not None}
    waited = f"{ranks_capitalized(ranks) if ranks else 'A rank'} waited{_time_of(first)}"
    at = _at(*frame_of(first))
    if "Connection refused" in first.message and not evidence.silent(ranks):
        return _of_refused(evidence, late, first)
    if (setup := _NCCL_SETUP.search(first.message)) or first.message.startswith("Gloo connectFullMesh"):
        return _of_unformed_group(evidence, late, f"{waited}{{}} to form a group{at}", setup)
    places = tuple(evidence.places(late))
    if (address := _GLOO_ADDRESS.search(first.message)) and (forms := operation_of(first)):
        is_default = forms == "init_process_group"  # other groups number their members anew
        return _of_unformed_group(evidence, late, f"{waited} in {forms}{at}{{}}", address if is_default else None)
    keyed = [error for error in late if _KEYS.search(error.message) and not operation_of(error)]
    if keyed and (keys := _KEYS.search(keyed[0].message)):
        key = keys[1].rpartition("/")[2]
        own = {error.rank for error in keyed if error.rank is not None}
        who = f"{ranks_capitalized(own) if own else 'A rank'} waited{_time_of(keyed[0])}"
        found = Diagnosis(
            "late", (),
            f"{who} in the store{_at(*frame_of(keyed[0]))} for the key {key}, which nobody set in time.", places,
            advice="Find the line that sets this key: its rank did not come to it, or it sets another key.",
            limits=("The logs do not say which rank should set the key.",),
        )  # fmt: skip
        return evidence.complete(found, (), [*keyed, *(error for error in late if error not in keyed)])
    if joined := _JOINED.search(first.message):
        found = Diagnosis(
            "late", (), f"{waited} in init_process_group{at}: {joined[1]} of {joined[2]} ranks had joined.", places,
            advice="Start every rank, with the same MASTER_ADDR and MASTER_PORT. Look at the logs of those missing.",
            limits=("The logs do not say which ranks are missing.",),
        )  # fmt: skip
        return evidence.complete(found, (), late)
    return _of_late_calls(evidence, late, first, waited)


def _of_refused(evidence: LogEvidence, late: Sequence[LoggedError], first: LoggedError) -> Diagnosis:
    """The verdict on ranks that found nobody at the addresses of others, although every rank had come."""
    ranks = {error.rank for error in late if error.rank is not None}
    code = code_at(first.traceback, *frame_of(first))
    found = Diagnosis(
        "unknown", (),
        f"{ranks_capitalized(ranks) if ranks else 'A rank'} could not connect in {_call_of(first)}"
        f"{_at(*frame_of(first))}: {in_one_line(first.message)}",
        tuple(evidence.places(late)), advice=advise_connecting("file://" if "file://" in code else ""),
        limits=("What keeps the ranks from connecting is not known.",),
    )  # fmt: skip
    return evidence.complete(found, (), late)


def _call_of(error: LoggedError) -> str:
    """What a rank waited in: an operation, or the code of a line that does not name one."""
    code = code_at(error.traceback, *frame_of(error))
    if operation := operation_of(error):
        return operation
    if ".backward(" in code:
        return "backward"
    return f"`{code}`" if code else "a call"


def _of_unformed_group(
    evidence: LogEvidence, late: Sequence[LoggedError], sentence: str, setup: re.Match[str] | None
) -> Diagnosis:
    """The verdict on ranks that waited for others to form a group; the message over NCCL names one."""
    culprits = (int(setup[1]),) if setup else evidence.silent({error.rank for error in late if error.rank is not None})
    kind, status, limits = evidence.what_became_of(culprits) if culprits else ("unknown", "", ())
    if kind == "left":  # without an end in the logs, it may as well never have been started
        kind, status, limits = "absent", "did not come", ()
    whom = f" for {format_ranks(culprits)}" if culprits else ""
    slow = "It may just have been slow: compare how long each rank takes from its start to this line."
    stood = [RankPosition(culprits, status)] if culprits else []
    found = Diagnosis(
        kind, culprits, f"{sentence.format(whom)}: not all ranks came in time.", (*evidence.places(late), *stood),
        advice=ADVICE.get(kind, OTHER_LOGS), limits=(*limits, slow),
    )  # fmt: skip
    return evidence.complete(found, culprits, late)


def _of_late_calls(evidence: LogEvidence, late: Sequence[LoggedError], first: LoggedError, waited: str) -> Diagnosis:
    """The verdict on ranks that waited in collectives over Gloo."""
    places = tuple(evidence.places(late))
    sides: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
    for error in late:
        if error.rank is not None:
            sides[_call_of(error), *frame_of(error)].append(error.rank)
    ranks = {rank for members in sides.values() for rank in members}
    silent = evidence.silent(ranks)
    if not silent and len(sides) > 1:
        culprits, limits = smallest_side([*sides.values()])
        calls = ", ".join(
            f"{format_ranks(each)} waited in {op}{_at(file, line)}" for (op, file, line), each in _sorted(sides)
        )
        ops = {op for op, _, _ in sides}
        unknown = {op for op in ops if op.startswith("`") or op == "a call"}
        if ops & {*POINT_TO_POINT} and ops <= {*POINT_TO_POINT, *unknown}:
            sentence = f"{_sentence(calls)}: no message met its other half."
            limit = "The logs do not say which rank and tag each of them named."
            found = Diagnosis("unknown", (), sentence, places, advice=f"{MESSAGES} {TAGS}", limits=(limit,))
            return evidence.complete(found, (), late)
        if unknown:
            limit = "The logs do not say whether these calls were to meet."
            found = Diagnosis("unknown", (), f"{_sentence(calls)}.", places, advice=_ASK_MORE, limits=(limit,))
            return evidence.complete(found, (), late)
        sentence = f"{_sentence(calls)}: these calls do not meet."
        found = Diagnosis("order", culprits, sentence, places, advice=f"{ADVICE['order']} {_ASK_MORE}", limits=limits)
        return evidence.complete(found, (), late)
    where = f"{operation_of(first) or 'a communication'}{_at(*frame_of(first))}"
    if silent and len(silent) <= max(1, len(ranks)):
        kind, status, limits = evidence.what_became_of(silent)
        unsure = "It may also have waited in another call, and its own timeout had not come yet."
        found = Diagnosis(
            kind, silent, f"{waited} in {where}, as it seems for {format_ranks(silent)}, which reported no timeout.",
            (*places, RankPosition(silent, status)), advice=ADVICE[kind], limits=(*limits, unsure),
        )  # fmt: skip
        return evidence.complete(found, silent, late)
    more = f" {ranks_capitalized(silent)} had reported nothing by then: one of them did not come." if silent else ""
    found = Diagnosis(
        "late" if silent else "unknown", (), f"{waited} in {where}.{more}", places, advice=_ASK_MORE,
        limits=("The logs do not say for which rank.",),
    )  # fmt: skip
    return evidence.complete(found, (), late)


def _sorted(
    sides: dict[tuple[str, str, int], list[int]],
) -> list[tuple[tuple[str, str, int], list[int]]]:
    return sorted(sides.items(), key=lambda item: min(item[1]))


def diagnose_sizes(evidence: LogEvidence, said: LoggedNotice) -> Diagnosis:
    """The verdict on a rank that Gloo ended because it received more than its tensor holds."""
    aborted = [rank for rank in evidence.failed_exits() if evidence.exits[rank].status == -signal.SIGABRT]
    found = re.search(r"op\.preamble\.length <= op\.nbytes\. (\d+) vs\.? (\d+)", said.said)
    amounts = (
        f"{found[1]} bytes, but its tensor has room for only {found[2]}" if found else "more than its tensor holds"
    )
    who = ranks_capitalized(aborted) if aborted else "A rank"
    diagnosis = Diagnosis(
        "signature", (), f"{who} received {amounts}: the sizes of a collective differ.",
        tuple(evidence.places(evidence.errors)), advice=f"{ADVICE['signature']} {_ASK_MORE}",
        limits=("Which rank passed a tensor of the wrong size is not in the logs.",), evidence=(str(said.at),),
    )  # fmt: skip
    return evidence.complete(diagnosis, aborted, [evidence.exits[rank] for rank in aborted])


# Ranks that lost their connection to one that says nothing itself.


def diagnose_lost_connections(evidence: LogEvidence) -> Diagnosis:
    """The verdict where ranks report only that another one is gone."""
    lost = [wait for wait in evidence.waits if wait.seconds is None]
    facts: list[LogFact] = [*evidence.errors, *lost]
    ranks = {fact.rank for fact in facts if fact.rank is not None}
    silent = evidence.silent(ranks)
    first = evidence.earliest(facts)
    where = "a communication"
    if isinstance(first, LoggedWait):
        number = f" (number {first.sequence} of its group)" if first.sequence > 0 else ""
        where = f"{request_words(first.op, first.elements)}{number}"
    elif isinstance(first, LoggedError):
        where = f"{operation_of(first) or 'a communication'}{_at(*frame_of(first))}"
    sentence = f"{ranks_capitalized(ranks) if ranks else 'A rank'} lost the connection to another rank in {where}"
    positions = (*evidence.places(evidence.errors), *evidence.wait_positions(lost))
    if not silent or len(silent) == evidence.log.ranks:
        found = Diagnosis(
            "unknown", (), f"{sentence}, and no rank says why.", positions,
            advice=f"{OTHER_LOGS} NCCL_DEBUG=WARN makes NCCL say more.",
            limits=("A rank that is not in these logs may have died or ended early, or the network failed.",),
        )  # fmt: skip
        quiet = "torchrun reported no failure, so a rank of its machine that is gone had ended with status 0: early."
        return evidence.complete(found, (), facts, [quiet] if evidence.log.has_launcher and not evidence.exits else [])
    return _of_silent_end(evidence, Diagnosis("left", silent, sentence, positions), facts)


def _of_silent_end(evidence: LogEvidence, found: Diagnosis, facts: Sequence[LogFact]) -> Diagnosis:
    """The verdict on ranks that are gone without a word; the culprits of `found` are all that may be it."""
    silent, whom = found.culprits, format_ranks(found.culprits)
    positions = (*found.positions, RankPosition(silent, "wrote no error"))
    if not evidence.log.has_launcher:
        open_ = ("The logs do not say whether it died or ended early.", OTHER_LOGS)
        sentence = f"{found.sentence}. {ranks_capitalized(silent)} wrote no error."
        absent = replace(
            found, fault="absent", sentence=sentence, positions=positions, advice=ADVICE["absent"], limits=open_
        )
        return evidence.complete(absent, silent, facts)
    limits = ("torchrun sees only ranks of its own machine: one of another machine may also have died.",)
    if len(silent) == 1:
        sentence = f"{found.sentence}: {whom} had ended before. It wrote no error, and torchrun saw no failure of it."
        left = replace(found, sentence=sentence, positions=positions, advice=ADVICE["left"], limits=limits)
        return evidence.complete(left, silent, facts)
    sentence = f"{found.sentence}. {ranks_capitalized(silent)} wrote no error: one of them had ended before."
    one = replace(found, culprits=(), sentence=sentence, positions=positions, advice=ADVICE["left"], limits=limits)
    return evidence.complete(one, (), facts)


def _at(file: str, line: int) -> str:
    return f" at {format_place(file, line)}" if line else ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _time_of(error: LoggedError) -> str:
    waited = _MILLISECONDS.search(error.message)
    return f" {format_seconds(int(waited[1]) / 1000)}" if waited else ""
