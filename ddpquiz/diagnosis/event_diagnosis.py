"""Why a run hangs or failed, by its events: `diagnose` is the one judge of a live run, of its record and of dumps.

It looks at the evidence in this order. Ranks that formed other process groups than the rest (`forming_groups.py`), and
calls that do not match (`mismatch_diagnosis.py`), are certain. Otherwise ranks wait for others: it follows the waits to
the ranks that do not wait themselves, and `rank_status.py` says what became of those. If
nothing is wrong, `_no_fault` says what speaks for that.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ddpquiz.diagnosis.awaited_keys import key_never_set, waits_for_keys
from ddpquiz.diagnosis.diagnosis import (
    ADVICE,
    CUT_SHORT,
    LONGER,
    LONGER_BARRIER,
    MESSAGES,
    MIXED,
    MORE_CALLS,
    RESUME,
    UNEVEN,
    Diagnosis,
    FaultKind,
    RankPosition,
    call_at,
    position_of,
    request_at,
    until_timeout,
    wait,
)
from ddpquiz.diagnosis.forming_groups import could_not_connect, different_groups, late_in_forming, unlike_groups
from ddpquiz.diagnosis.mismatch_diagnosis import (
    MessageCounts,
    advise_extra,
    call_within_join,
    changed_request,
    circular_wait,
    diagnose_mismatch,
    extra_call,
    limit_of_tie,
    no_such_peer,
    unseen_root_mismatch,
)
from ddpquiz.diagnosis.rank_status import (
    GONE,
    NO_RECORD,
    RankStatus,
    ends_reached,
    find_statuses,
    standing_in,
    what_became_of,
)
from ddpquiz.diagnosis.ranks_at_fault import who_deviates
from ddpquiz.diagnosis.root_cause import (
    ended_threads,
    explain_failure,
    has_timed_out,
    is_effect,
    is_interrupt,
    printed_error,
    timeout_of,
    with_ended_threads,
)
from ddpquiz.diagnosis.script_analysis import singled_out
from ddpquiz.events.collective import Collective
from ddpquiz.events.event import Note, RankStack
from ddpquiz.events.formatting import format_place, format_ranks, format_seconds
from ddpquiz.events.operation import ANY_SOURCE, POINT_TO_POINT, ROOTED, Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.plural import plural

if TYPE_CHECKING:
    from ddpquiz.jobs.rank_process import Liveness

_Blocked = Mapping[int, Collective]  # by rank: the operation in which it does not go on


def diagnose(  # noqa: PLR0913  # what is known beside the events differs with who recorded them
    state: RunState,
    *,
    absent: Collection[int] = (),
    now: float | None = None,
    seen: Mapping[int, float] | None = None,
    stacks: Collection[RankStack] = (),
    unended: Mapping[int, Liveness] | None = None,
) -> Diagnosis:
    """What is wrong with a job, with what explains a call that does not match: a handler around it, or a thread.

    `absent` are ranks of which nothing was recorded, with their status if they are a mapping, `now` is the end of what
    is known in seconds, and `seen` that of single ranks if it is earlier; `stacks` are those that ranks wrote, and
    `unended` the ranks whose record does not say how they ended.
    """
    verdict = _judge(state, absent, now, seen or {}, stacks, unended or {})
    verdict = _within_join(_by_thread(_in_handler(verdict, state), state), state)
    threads = ended_threads(state)
    if not threads and not state.restart:  # the log of ranks that were restarted begins with what ended them before
        verdict = _after_printed_error(verdict, state)
    return _after_restart(with_ended_threads(verdict, threads), state)


def _judge(  # noqa: PLR0913
    state: RunState, absent: Collection[int], now: float | None, seen: Mapping[int, float],
    stacks: Collection[RankStack], unended: Mapping[int, Liveness],
) -> Diagnosis:  # fmt: skip
    statuses = find_statuses(state, absent, stacks or (state.hung.ranks if state.hung else ()), unended)
    blocked, order = _find_blocked(state), state.timeline.order
    if verdict := could_not_connect(state) or different_groups(state, blocked):
        return verdict
    if verdict := no_such_peer(blocked, state):
        return verdict
    unlike = state.timeline.unlike()
    stuck = next((pair for pair in unlike if _is_stuck(pair[1], state)), None)
    if stuck:
        return diagnose_mismatch(*stuck, order)
    verdict = None if absent or now != math.inf else unseen_root_mismatch(blocked, state)
    verdict = verdict or _of_waits(blocked, state, statuses, state.time if now is None else now, seen)
    verdict = verdict or late_in_forming(state, statuses, state.time if now is None else now)
    if verdict is None or {*verdict.culprits} <= waits_for_keys(state).keys():
        verdict = key_never_set(state, blocked, statuses, state.time if now is None else now) or verdict
    verdict = verdict or _late_arrival(state)
    if verdict is None or verdict.fault in ("late", "dead", "absent"):
        verdict = _of_failure(statuses, state, verdict) or verdict
    if unlike and (verdict is None or verdict.fault != "dead"):  # calls that do not match, and came to an end
        return diagnose_mismatch(*unlike[0], order)
    if (
        verdict
        and {*verdict.culprits} <= {*absent}
        and (last := next((pair for pair in unlike if _is_last(pair[1], state)), None))
    ):
        return diagnose_mismatch(*last, order)  # that is certain, and that a rank left no record may follow
    if absent and (verdict is None or {*verdict.culprits} <= {*absent}):
        verdict = changed_request(blocked, tuple(sorted(absent)), order) or verdict
    if verdict is None and absent and now == math.inf:  # the others recorded that they got stuck
        verdict = _of_absence(tuple(sorted(absent)), state, statuses)
    return (
        verdict
        or _of_interrupt(statuses, state)
        or _of_death(statuses, state)
        or _of_standstill(state)
        or _of_standing(state, statuses)
        or _of_silence(state, absent, unended)
        or _of_leftover(state)
        or _no_fault(state, absent)
    )


_UNLIKE: tuple[FaultKind, ...] = ("missing", "order", "signature")
_CALLS: tuple[FaultKind, ...] = (*_UNLIKE, "late", "left")
_HANDLED = (
    "That exception comes first: it is printed only when the rank gets out of this call. In an `except` or `finally`, "
    "make no call for which all ranks are needed; let the exception end the rank."
)
_WENT_ON = (
    "If the rank went on after that error, it skipped calls that the others made. Let the exception end the rank, or "
    "let all ranks learn of it (all-reduce a flag) and skip the same calls."
)
_THREADS = (
    "A thread and the main thread call in the same group, and which of them comes first varies from rank to rank. Give "
    "the thread a group of its own (new_group on all ranks), or let one thread make all calls."
)


def _in_handler(verdict: Diagnosis, state: RunState) -> Diagnosis:
    """A verdict on calls, with the exceptions that ranks handle while they make theirs: those came before."""
    handling = {
        rank: handled for rank, handled in sorted(state.handled.items())
        if rank in state.last_call and state.last_call[rank].number == handled.number and rank not in state.finished
    }  # fmt: skip
    ranks = tuple(rank for rank in handling if rank in verdict.culprits) or tuple(handling)
    if verdict.fault not in _CALLS or not ranks or len(ranks) == state.ranks:
        return verdict
    first = handling[ranks[0]]
    message = f": {first.message}" if first.message else ""
    raised_at = f" raised at {format_place(first.file, first.line)}" if first.line else ""
    alike = [rank for rank in ranks if (handling[rank].error, handling[rank].line) == (first.error, first.line)]
    call = call_at(state.last_call[ranks[0]].operation)
    sentence = f"{format_ranks(alike).capitalize()} called {call} while handling {first.error}{raised_at}{message}."
    limits = () if verdict.fault in ("missing", "order", "signature") else verdict.limits  # who is wrong is known now
    return replace(verdict, culprits=ranks, sentence=f"{sentence} {verdict.sentence}", advice=_HANDLED, limits=limits)


_SPEAKS_OF_FAILURE = re.compile(
    r"\b(exception|failed|fatal|cannot|could not)\b|\w(Error|Exception)\b|\[Errno", re.IGNORECASE
)


def _after_printed_error(verdict: Diagnosis, state: RunState) -> Diagnosis:
    """A verdict on calls, with the error that the rank at fault has printed, and no other rank: it may have gone on."""
    made_one_more = verdict.sentence.startswith("Only ")  # what went on after an error left calls out
    if verdict.fault not in _CALLS or made_one_more or verdict.advice == _HANDLED:
        return verdict
    failed = state.raised.keys() | {
        rank for rank, exited in state.exited.items() if exited.status and not exited.stopped
    }
    printed = {rank: found for rank in {*state.log} - failed if (found := printed_error(rank, state))}
    if len(printed) != 1 or verdict.culprits != (*printed,):
        return verdict
    ((rank, (error, where)),) = printed.items()
    if where:
        told = f"Rank {rank} had printed an exception raised at {where}: {error}"
    elif _SPEAKS_OF_FAILURE.search(error):
        told = f"The last line that rank {rank} printed: {error}"
    else:
        return verdict
    advice = f"{_WENT_ON} {verdict.advice}" if verdict.advice == ADVICE["missing"] else verdict.advice
    return replace(verdict, sentence=f"{verdict.sentence} {told.rstrip('.')}.", advice=advice)


def _by_thread(verdict: Diagnosis, state: RunState) -> Diagnosis:
    """A verdict on calls that do not match, with other advice if a thread makes some of them."""
    lines = {(each.file, each.line) for each in verdict.positions if each.line}
    if verdict.fault not in ("missing", "order", "signature") or len(lines) < 2 or not lines & state.by_thread:
        return verdict
    return replace(verdict, advice=_THREADS)


def _within_join(verdict: Diagnosis, state: RunState) -> Diagnosis:
    """A verdict on calls, or the one on a call that Join does not mirror: that call shifts all later ones."""
    is_of_calls = verdict.fault in _CALLS
    found = call_within_join(verdict.group, verdict.members, state.timeline) if is_of_calls else None
    return found or verdict


def _after_restart(verdict: Diagnosis, state: RunState) -> Diagnosis:
    """A verdict on ranks that make different numbers of calls, where each may have resumed at another step."""
    if not state.restart or verdict.advice not in (UNEVEN, MORE_CALLS, ADVICE["missing"], ADVICE["left"]):
        return verdict
    last = (state.last_call[rank].operation for rank in verdict.members if rank in state.last_call)
    in_steps = {operation.bucket is not None for operation in last}  # of DDP, which some ranks still make
    return replace(verdict, advice=f"{RESUME} {UNEVEN if len(in_steps) > 1 else verdict.advice}")


def note_standstill(state: RunState, now: float, since: float, stacks: Collection[RankStack]) -> Note:
    """A note on which ranks wait for which in a run that may still go on; nothing has moved since `since` seconds."""
    verdict = diagnose(state, now=now, stacks=stacks)
    still = f"No operation and no line of output for more than {math.floor(now - since)} s."  # it may last longer
    first = (*verdict.culprits, 0)[0]
    is_late = verdict.fault == "late" and first in state.pids
    stack = f" `ddpquiz where {state.pids[first]}` shows the stack of rank {first}." if is_late else ""
    return Note(now, first, f"{still} {_where_ranks_are(verdict, stacks, state)}{stack}", of_standstill=True)


def advise_stopped(state: RunState, stacks: Collection[RankStack]) -> str:
    """What the user learns who ends a run: where its ranks stood if it did not move, and what to do about that.

    Of a run that moves, without `stacks`, only calls that do not fit together say something.
    """
    verdict = diagnose(state, stacks=stacks)
    if not stacks and verdict.fault not in _UNLIKE:
        return ""
    advice = f"\n{verdict.advice}" if verdict.fault != "none" else ""
    return _where_ranks_are(verdict, stacks, state) + advice


def tell_swallowed_failure(state: RunState) -> str:
    """What broke in a run that ended well: the first collective that failed, and the script went on; "" if none did."""
    failed = next(iter(state.timeline.unfinished), None)
    if failed is None or not any(call.failed for call in failed.calls.values()):
        return ""
    ranks = tuple(rank for rank in failed.arrived if failed.calls[rank].failed)
    who, call = format_ranks(ranks), call_at(failed.operation)
    sentence = f"The script caught an error and went on: {call} had failed on {who}."
    if missing := [rank for rank in failed.awaited if rank in state.last_call]:
        last = state.last_call[missing[0]].operation
        sentence += f" {format_ranks(missing).capitalize()} did not call it, and had last called {call_at(last)}."
    return sentence


def _where_ranks_are(verdict: Diagnosis, stacks: Collection[RankStack], state: RunState) -> str:
    """What is wrong, or else where each rank is."""
    if verdict.fault != "none":
        return verdict.whole
    places = ", ".join(f"{format_ranks(ranks)} {doing}" for doing, ranks in _alike_stacks(stacks, state).items())
    return f"No rank waits in a recorded call: {places}. It is not known what keeps them there."


# Whom the ranks wait for that do not go on.


def _find_blocked(state: RunState) -> dict[int, Collective]:
    """In which operation each rank is that does not go on, as far as the record shows."""
    blocked: dict[int, Collective] = {}
    for collective in state.timeline.unfinished:
        for rank in collective.arrived:
            call = collective.calls[rank]
            is_open = call.ended is None or call.failed
            waits = not call.operation.in_background or call.failed or call.blocks_script or state.blocked_in(rank)
            # A message in the background holds nothing up until the script waits for it
            runs_beside = collective.op in POINT_TO_POINT and (rank, call.number) in state.background
            if is_open and waits and not (runs_beside and not call.failed):
                blocked.setdefault(rank, collective)
    return dict(sorted(blocked.items()))  # whoever came first, the diagnosis reads the same


def _is_stuck(collective: Collective, state: RunState) -> bool:
    """True unless every call of the collective has ended well."""
    calls = collective.calls.values()
    if collective.complete and all(call.ended is not None and not call.failed for call in calls):
        return any(rank in state.raised for rank in collective.members)
    return True


def _is_last(collective: Collective, state: RunState) -> bool:
    """True if no rank has gone on after an operation."""
    return all(state.last_call[rank].number == call.number for rank, call in collective.calls.items())


def _of_waits(
    blocked: _Blocked, state: RunState, statuses: dict[int, RankStatus], now: float, seen: Mapping[int, float]
) -> Diagnosis | None:
    """The diagnosis that names the ranks at the end of each chain of waits, which do not wait themselves."""
    waits = {rank: collective for rank, collective in blocked.items() if collective.awaited}
    if not waits:
        return None
    roots = {rank for collective in waits.values() for rank in collective.awaited if rank not in waits and rank >= 0}
    roots = roots - blocked.keys() or roots  # the members of a group are not always known, nor whom those wait for
    statuses = {
        rank: _in_call(status, blocked[rank].calls[rank].operation)
        if rank in roots and rank in blocked and status.kind == "late"
        else status
        for rank, status in statuses.items()
    }
    absent = {rank for rank in roots if statuses[rank].absent}
    certain = {
        rank for rank in roots - absent if not absent or statuses[rank].kind != "late" or _has_gone_on(rank, state)
    }
    for kind, ranks in (("dead", certain), ("left", certain), ("late", certain), ("absent", absent), ("late", roots)):
        awaited_in = {
            rank: next(collective for collective in waits.values() if rank in collective.awaited)
            for rank in ranks if statuses[rank].kind == kind
        }  # fmt: skip
        culprits = tuple(
            rank for rank in sorted(awaited_in)
            if _is_sure(rank, awaited_in[rank], state, statuses[rank], min(now, seen.get(rank, now)))
        )  # fmt: skip
        if culprits:
            collective = awaited_in[culprits[0]]
            is_short = any(statuses[rank].cut_short for rank in culprits)
            if kind == "left" and not is_short and (extra := _extra_call(collective, culprits, state)):
                return _of_extra_call(collective, culprits, extra, state)
            found = _of_root(culprits, collective, state, statuses, absent.difference(culprits))
            return replace(found, advice=_NO_REASON) if kind == "late" and {*culprits} <= blocked.keys() else found
    if roots:
        return None
    return _of_any_source(waits, statuses) or circular_wait(waits, state.timeline.order, _messages(waits, state))


def _in_call(status: RankStatus, operation: Operation) -> RankStatus:
    """The status of a rank that does not go on in an operation that all ranks have entered, as far as is known."""
    return replace(status, words=f"is itself in {operation.op}", then=", and the record does not show why")


_NO_REASON = (
    "Find out why that call does not end: another tag, shape or dtype on the other side, a rank of which nothing is "
    "known, or the network."
)


def _messages(ranks: Collection[int], state: RunState) -> MessageCounts | None:
    """How often ranks called send and recv, for each peer; None if some of their calls are not known any more."""
    timeline = state.timeline
    calls = [(rank, call) for each in timeline.collectives for rank, call in each.calls.items()]
    begun = {rank for rank, call in calls if call.number == 1}
    if len(timeline.collectives) < timeline.count or not begun.issuperset(ranks):
        return None
    made = ((rank, call.operation) for rank, call in calls if call.operation.op in POINT_TO_POINT)
    return Counter((operation.op, rank, operation.peer) for rank, operation in made if operation.peer is not None)


def _of_any_source(waits: _Blocked, statuses: Mapping[int, RankStatus]) -> Diagnosis | None:
    """The diagnosis that ranks wait for a message from any rank, and none sends one; `waits` has all that wait."""
    receivers = {rank: pair for rank, pair in waits.items() if pair.awaited == (ANY_SOURCE,)}
    if not receivers:
        return None
    ranks, first = tuple(receivers), next(iter(receivers.values()))
    position = position_of(ranks, first.operation)
    others = {rank: statuses[rank] for rank in first.operation.members if rank not in waits}
    waited = f"{wait(ranks).capitalize()} in {call_at(first.operation)} for a message from any rank"
    kinds: tuple[FaultKind, ...] = ("dead", "left", "late", "absent")
    for kind in kinds:
        culprits = tuple(
            rank for rank, status in others.items() if status.kind == kind and (kind != "left" or status.cut_short)
        )
        if culprits:
            became = what_became_of({rank: statuses[rank] for rank in culprits})
            sentence = f"{waited}, but {format_ranks(culprits)} sent none: {became}."
            positions = position, *(statuses[rank].position(rank) for rank in culprits)
            limits = _limits_of_absence(first.operation) if kind == "absent" else ()
            return Diagnosis(
                kind, culprits, sentence, positions, first.group, first.members,
                advice=CUT_SHORT if kind == "left" else ADVICE[kind], limits=limits,
            )  # fmt: skip
    ended = f", and {format_ranks(others)} finished without sending one" if others else ", but no rank sends one"
    return Diagnosis("missing", ranks, f"{waited}{ended}.", (position,), first.group, first.members, advice=MESSAGES)


def _has_gone_on(rank: int, state: RunState) -> bool:
    """True if a rank has surely left its last operation: another one went on from there that all had to enter.

    The root of a broadcast may have failed there, because of a rank of which nothing is known.
    """
    last = state.last_call.get(rank)
    if last is None or last.operation.op in (*ROOTED, *POINT_TO_POINT):
        return False
    for collective in state.timeline.unfinished:
        if rank in collective.calls and collective.calls[rank].number == last.number:
            others = {other: call for other, call in collective.calls.items() if other != rank and not call.failed}
            return any(state.last_call[other].number > call.number for other, call in others.items())
    return False  # it was an operation of other ranks, as far as is known


def _is_sure(rank: int, collective: Collective, state: RunState, status: RankStatus, until: float) -> bool:
    """True unless a rank may come to an operation as usual, after the time until which it is known."""
    if status.kind == "late" and rank in _interrupted(state):  # what fails later is a consequence of that
        return _has_taken_long(collective, state, min(state.raised[each].time for each in _interrupted(state)))
    is_silent = status.kind == "late" and not status.seen
    is_moving = status.absent and until not in (state.time, math.inf)  # dumped while it went on
    return not (is_silent or is_moving) or _is_long(collective, state, until)


def _is_long(collective: Collective, state: RunState, now: float) -> bool:
    """True if ranks wait so long that they do not just meet later, or have failed meanwhile."""
    return _has_taken_long(collective, state, now) or any(call.failed for call in collective.calls.values())


def _has_taken_long(collective: Collective, state: RunState, now: float) -> bool:
    """True if ranks wait much longer than operations usually take."""
    since = max(call.issued for call in collective.calls.values())
    usual = max((done.started - min(call.issued for call in done.calls.values())
                 for done in state.timeline.collectives if done.started is not None), default=0.0)  # fmt: skip
    return now - since > max(1.0, 2 * usual)


def _extra_call(collective: Collective, finished: tuple[int, ...], state: RunState) -> Operation | None:
    """The call that those who wait made and those who finished did not, if the former are at fault."""
    callers = collective.arrived
    extra = extra_call(collective, callers, finished, state.timeline.order)
    if extra is None and len(finished) >= len(callers):
        is_theirs = who_deviates(collective.operation, callers, finished) == "callers"
        return collective.operation if is_theirs else None
    return extra if extra and who_deviates(extra, callers, finished) != "others" else None


def _of_extra_call(collective: Collective, finished: tuple[int, ...], extra: Operation, state: RunState) -> Diagnosis:
    """The diagnosis that some ranks made a call, or more calls, which the ranks that have finished did not make."""
    callers, call = collective.arrived, call_at(extra)
    who, others = format_ranks(callers), format_ranks(finished)
    sites = state.timeline.order.sites(collective.group, collective.members)
    is_shared = any(site.place == extra.place and at.keys() & {*finished} for site, at in sites)
    sentence = f"Only {who} called {call}; {others} finished without it."
    if is_shared:
        whose = "its" if len(callers) == 1 else "their"
        sentence = f"{who.capitalize()} made more calls than {others}, which finished without {whose} {call}."
    limits: tuple[str, ...] = ()
    if len(callers) == len(finished):
        guessed = who_deviates(extra, callers, finished) == "unknown"
        limits = (limit_of_tie("As many ranks finished without it", callers, finished, guessed=guessed),)
    advice = advise_extra(extra) if not is_shared else MORE_CALLS if extra.bucket is None else UNEVEN
    return Diagnosis(
        "missing", callers, sentence,
        (position_of(callers, collective.operation), RankPosition(finished, "finished")),
        collective.group, collective.members, collective.index, advice=advice,
        limits=limits,
    )  # fmt: skip


def _of_root(
    culprits: tuple[int, ...], collective: Collective, state: RunState, statuses: dict[int, RankStatus],
    absent: Collection[int],
) -> Diagnosis:  # fmt: skip
    """The diagnosis that ranks wait for the culprits; nothing is known of the `absent` ranks."""
    operation = collective.operation
    failed_at = min((call.ended for call in collective.calls.values() if call.failed and call.ended), default=math.inf)
    of_culprits = {
        rank: replace(statuses[rank], words="never called it")
        if statuses[rank].kind == "left" and state.finished.get(rank, 0.0) > failed_at
        else statuses[rank]
        for rank in culprits
    }  # a rank that finished after the others had given up lived while they waited
    who, status = format_ranks(culprits), of_culprits[culprits[0]]
    became = what_became_of(of_culprits)
    seconds = timeout_of(state, collective.arrived)
    waited = f"{format_ranks(collective.arrived)} waited" if seconds else wait(collective.arrived)
    limit = until_timeout(seconds, _whose(operation))
    sentence = f"{waited.capitalize()} in {call_at(operation)} for {who}{limit}: {became}."
    last = state.last_call.get(culprits[0])
    positions = [position_of(collective.arrived, operation), *(of_culprits[rank].position(rank) for rank in culprits)]
    limits = _limits_of_absence(operation) if status.absent else (status.limit,) if status.limit else ()
    if absent:
        limits += (f"{format_ranks(sorted(absent)).capitalize()} left no record; the cause may also be there.",)
    return Diagnosis(
        status.kind, culprits, sentence, tuple(positions), collective.group, collective.members, collective.index,
        f"{who.capitalize()} last called {call_at(last.operation)}." if last else "",
        CUT_SHORT
        if status.cut_short
        else _advice(status.kind, operation, last.operation if last else None, gave_up=bool(seconds)),
        limits,
    )  # fmt: skip


def _longer(operation: Operation) -> str:
    """Where to allow an operation more time."""
    return LONGER_BARRIER if operation.op == "monitored_barrier" else LONGER


def _whose(operation: Operation) -> str:
    """Whose timeout ends an operation: the script may give one to the wait for an asynchronous operation."""
    return "" if operation.asynchronous or operation.op == "monitored_barrier" else "group's "


def _late_arrival(state: RunState) -> Diagnosis | None:
    """The ranks that came to an operation when the others had given it up after a timeout."""
    for collective in state.timeline.unfinished:
        calls = collective.calls
        gave_up = [rank for rank in collective.arrived
                   if calls[rank].failed and rank in state.raised and has_timed_out(state.raised[rank])]  # fmt: skip
        ends = [end for rank in gave_up if (end := calls[rank].ended) is not None]
        late = tuple(rank for rank in collective.arrived if ends and calls[rank].issued >= min(ends))
        if not late:
            continue
        first, last = min(call.issued for call in calls.values()), calls[late[0]].operation
        operation = calls[gave_up[0]].operation
        after = format_seconds(min(calls[rank].issued for rank in late) - first)
        sentence = (
            f"{format_ranks(gave_up).capitalize()} waited in {call_at(operation)} for {format_ranks(late)}"
            f"{until_timeout(timeout_of(state, gave_up), _whose(operation))}: "
            f"{'it' if len(late) == 1 else 'they'} called {call_at(last)} {after} after the first of them."
        )
        positions = position_of(tuple(gave_up), operation), position_of(late, last)
        return Diagnosis(
            "late", late, sentence, positions, collective.group, collective.members, collective.index,
            advice=f"{ADVICE['late']} {_longer(operation)}",
        )  # fmt: skip
    return None


def _advice(kind: FaultKind, operation: Operation, last: Operation | None, *, gave_up: bool) -> str:
    """What to do about a rank for which others wait in an operation, or waited until they `gave_up`.

    `last` is what the rank called last.
    """
    if kind == "late" and gave_up:
        return f"{ADVICE[kind]} {_longer(operation)}"
    if kind == "left" and operation.bucket is not None:
        return UNEVEN
    repeats = last is not None and last.place == operation.place
    return f"{ADVICE[kind]} {MIXED}" if kind == "left" and repeats else ADVICE[kind]


def _limits_of_absence(operation: Operation) -> tuple[str, ...]:
    """What remains open if nothing is known of ranks, for which others wait in an operation."""
    special = singled_out([operation])
    if not special:
        return (NO_RECORD.limit,)
    who = format_ranks(sorted(special))
    return NO_RECORD.limit, f"The script singles out {who} in that call: another shape, dtype or root also ends ranks."


# Ranks that failed or are absent, although nothing in the calls of the others explains it.


def _of_failure(
    statuses: Mapping[int, RankStatus], state: RunState, waits: Diagnosis | None = None, *, of_consequence: bool = False
) -> Diagnosis | None:
    """Why the first rank failed by itself, if one did; `waits` says where others wait for a dead rank."""
    failure = explain_failure(state, of_consequence=of_consequence)
    if failure is None:
        return None
    positions = tuple(statuses[rank].position(rank) for rank in failure.culprits)
    if waits is None or waits.fault not in ("dead", "absent"):
        return replace(failure, positions=positions)
    return replace(
        failure, positions=(*waits.positions[:1], *positions), group=waits.group, members=waits.members,
        index=waits.index,
    )  # fmt: skip


def _of_interrupt(statuses: Mapping[int, RankStatus], state: RunState) -> Diagnosis | None:
    """Where ranks stood when somebody interrupted a job in which none waited long for another one."""
    interrupted = _interrupted(state)
    if not interrupted or not all(map(is_effect, state.raised.values())):
        return None
    by = "ctrl-c" if any(state.raised[rank].error == "KeyboardInterrupt" for rank in interrupted) else "SIGTERM"
    places: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for rank in interrupted:
        places[statuses[rank].file, statuses[rank].line].append(rank)
    texts = [
        f"{format_ranks(ranks)} {'was' if len(ranks) == 1 else 'were'} at "
        + (format_place(*place) if place[1] else "an unknown place")
        for place, ranks in places.items()
    ]
    return Diagnosis(
        "stopped", (), f"The job was interrupted, as by {by}: {'; '.join(texts)}.",
        tuple(RankPosition(tuple(ranks), "interrupted", *place) for place, ranks in places.items()),
        advice=_INTERRUPTED, limits=("No rank had waited long for another one then, as far as the record shows.",),
    )  # fmt: skip


def _interrupted(state: RunState) -> list[int]:
    """The ranks that somebody interrupted, as by ctrl-c."""
    return [rank for rank, raised in sorted(state.raised.items()) if is_interrupt(raised)]


_INTERRUPTED = "If the job hung, look at these lines, and first at those that do not communicate."


def _of_death(statuses: dict[int, RankStatus], state: RunState) -> Diagnosis | None:
    """The ranks that died although none is known to wait for them, or failed without a known cause."""
    dead = tuple(sorted(rank for rank, status in statuses.items() if status.kind == "dead" and not status.absent))
    if not dead:
        return None if state.hung else _of_failure(statuses, state, of_consequence=True)
    sentence = f"{format_ranks(dead).capitalize()} {statuses[dead[0]].words}."
    return Diagnosis("dead", dead, sentence, (statuses[dead[0]].position(dead[0]),), advice=ADVICE["dead"])


def _of_absence(absent: tuple[int, ...], state: RunState, statuses: Mapping[int, RankStatus]) -> Diagnosis:
    """The diagnosis that ranks left no record although the others recorded that they got stuck."""
    last = max(state.last_call.values(), key=lambda event: event.time, default=None)
    where = f" The last call of the others is {call_at(last.operation)}." if last else ""
    words = statuses[absent[0]].words if len({statuses[rank] for rank in absent}) == 1 else NO_RECORD.words
    sentence = f"{format_ranks(absent).capitalize()} {words}, and all calls of the others fit together.{where}"
    limits = [*_limits_of_absence(last.operation)] if last else [NO_RECORD.limit]
    if last and last.operation.op in ROOTED and last.operation.peer is None:
        limits.append(f"The others would also get stuck in this {last.operation.op} if one rank gave a different root.")
    return Diagnosis("absent", absent, sentence, advice=ADVICE["absent"], limits=tuple(limits))


def _of_silence(state: RunState, absent: Collection[int], unended: Mapping[int, Liveness]) -> Diagnosis | None:
    """The ranks whose record ends in the middle, where other ranks have recorded the end of their script."""
    ended = state.exited.keys() | state.finished.keys()
    silent = tuple(
        rank for rank in state.all_ranks
        if rank not in ended and rank not in absent and unended.get(rank) != "runs"
    )  # fmt: skip
    if not silent or not ended:
        return None
    last = max(
        (state.last_call[rank] for rank in silent if rank in state.last_call),
        key=lambda event: event.time,
        default=None,
    )
    after = f" after {call_at(last.operation)}" if last else ""
    sentence = (
        f"The record of {format_ranks(silent)} ends{after} without the end of the script, which "
        f"{format_ranks(sorted(ended))} reached."
    )
    positions = tuple(
        RankPosition((rank,), "recorded nothing more", *state.places.get(rank, ("", 0))) for rank in silent
    )
    limit = GONE if all(unended.get(rank) == "gone" for rank in silent) else _MAY_LIVE
    limits = (limit, _ABORTS) if last and last.operation.asynchronous else (limit,)
    return Diagnosis("dead", silent, sentence, positions, advice=ADVICE["dead"], limits=limits)


def without_end(found: Diagnosis, state: RunState, unended: Mapping[int, Liveness]) -> Diagnosis:
    """A verdict on a job whose calls fit together, with what it means that ranks have recorded no end.

    The job runs, or ended from one moment to the next: then what the calls show does not say who ended first.
    """
    if not unended:
        return found
    runs = [rank for rank, now in unended.items() if now == "runs"]
    who, is_over = format_ranks(runs or sorted(unended)), "gone" in unended.values()
    if is_over:
        at_once = ", all at about the same time" if len(unended) > 1 else ""
        what = f"{who.capitalize()} ended without a word{at_once}."
    elif runs:
        what = f"The job still runs: {who} {'has' if len(runs) == 1 else 'have'} not ended."
    else:
        what = f"The record of {who} has no end so far, and whether the job still runs is not known here."
    if found.fault == "silent":
        return replace(found, limits=(what, *found.limits))
    if not is_over:
        advice = _LOOK_AGAIN if state.timeline.count else found.advice
        positions = found.positions or _still_running(state)
        return replace(found, fault="quiet", sentence=f"{what} {found.sentence}", positions=positions, advice=advice)
    waits = {rank: collective for rank, collective in _find_blocked(state).items() if collective.awaited}
    limits, positions = (_WHO_FIRST, *found.limits), _still_running(state)
    if waits:
        first = next(iter(waits.values()))
        callers = tuple(rank for rank in waits if waits[rank] is first)
        others = format_ranks(first.awaited)
        what += f" {format_ranks(callers).capitalize()} had called {call_at(first.operation)}, and {others} had not."
        hint = f"If it was one rank that ended by itself, it is most likely among those that had not: {others}."
        limits = (_WHO_FIRST, hint, *found.limits)
        positions = (position_of(callers, first.operation), *_still_running(state, besides=callers))
    what += " Until then, all calls fit together." if state.timeline.count else " They had not communicated yet."
    return replace(found, fault="unknown", sentence=what, positions=positions, advice=_FIND_WHO, limits=limits)


_LOOK_AGAIN = (
    "If it seems to hang, diagnose it again in a moment: whom ranks wait for is told once they have waited long. "
    "`ddpquiz where` shows where its ranks stand now."
)
_WHO_FIRST = (
    "Which rank ended first is not known, nor how: a launcher that stops all ranks because one was killed or left by "
    "os._exit() looks like somebody who stops the job."
)
_FIND_WHO = (
    "Look in the job's log for the first exit code or signal, or name the log beside the record: `ddpquiz diagnose "
    "RECORD LOG`. The kernel's log (`dmesg`) shows whether memory ran out."
)


_MAY_LIVE = "If the job still runs, so may this rank; if it is over, it was killed, or left by os._exit()."
_ABORTS = (
    "That operation ran in the background. If nobody waited for it, torch aborts a process that ends meanwhile "
    '("terminate called without an active exception").'
)

# A job that hangs outside of recorded calls, one that shows no fault, and one that has not communicated so far.

_AGAIN = (
    "If the job has just begun, diagnose it again in a moment: ranks import libraries and load data before they "
    "communicate. `ddpquiz watch` follows a job while it runs."
)


def _of_standstill(state: RunState) -> Diagnosis | None:
    """Where the ranks of a run are that hangs for a reason that no call shows, such as a lock."""
    if state.hung is None:
        return None
    groups = _alike_stacks(state.hung.ranks, state)
    texts = [f"{format_ranks(ranks)} {'is' if len(ranks) == 1 else 'are'} {doing}" for doing, ranks in groups.items()]
    waiting = {stack.rank for stack in state.hung.ranks if stack.waits_in}
    culprits = tuple(sorted({*state.all_ranks} - waiting)) or state.all_ranks
    sentence = f"No rank made progress for {state.hung.seconds:g} s: {', '.join(texts)}."
    return Diagnosis("late", culprits, sentence, advice=ADVICE["late"])


def _alike_stacks(stacks: Collection[RankStack], state: RunState) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for stack in stacks:
        place = f"at {format_place(stack.file, stack.line)}" if stack.line else "stopped, or busy in native code"
        inside, what_for = stack.waits_in, ""
        if not inside and (stands := standing_in(stack.rank, state)):
            inside, what_for = stands
        groups.setdefault(f"in {inside} {place}{what_for}" if inside else place, []).append(stack.rank)
    return groups


def _of_standing(state: RunState, statuses: Mapping[int, RankStatus]) -> Diagnosis | None:
    """The ranks that have stood still for long outside of communication, and have not ended."""
    ended = state.exited.keys() | state.finished.keys() | state.raised.keys()
    standing = {
        rank: status for rank, status in statuses.items()
        if rank not in ended and standing_in(rank, state) and state.time - state.stands[rank].time >= _STANDS
    }  # fmt: skip
    if not standing:
        return None
    positions = tuple(status.position(rank) for rank, status in standing.items())
    became = what_became_of(standing)
    culprits = tuple(standing)
    who = "" if became.startswith("rank") else format_ranks(culprits)
    texts = became if not who else f"{who}{became.removeprefix('it').removeprefix('they')}"
    sentence = f"{texts[0].upper()}{texts[1:]}. No rank waits for another one in a recorded call."
    return Diagnosis(
        "late", culprits, sentence, positions, advice=ADVICE["late"],
        limits=("Whether that ends by itself is not known.",),
    )  # fmt: skip


_STANDS = 5.0  # seconds


def _of_leftover(state: RunState) -> Diagnosis | None:
    """The diagnosis of a call that not all of its ranks made, although all of them came to the end of the script."""
    over = ends_reached(state) - {rank for rank, exited in state.exited.items() if exited.status}
    left = [
        collective for collective in state.timeline.unfinished if collective.awaited and over >= {*collective.members}
    ]
    if not left:
        return None
    first = min(left, key=lambda each: each.arrived)  # whoever came first, the diagnosis reads the same
    operation, others = first.operation, tuple(first.awaited)
    found = _of_extra_call(first, others, operation, state)
    if operation.op in POINT_TO_POINT:
        half = "receiving it" if operation.op == "send" else "sending that message"
        who, them = format_ranks(first.arrived).capitalize(), format_ranks(others)
        sentence = f"{who} called {request_at(operation)}, and {them} finished without {half}."
        found = replace(found, sentence=sentence, advice=MESSAGES)
    more = f" In all, {len(left)} calls lack a counterpart." if len(left) > 1 else ""
    return replace(found, sentence=f"{found.sentence}{more}")


def _no_fault(state: RunState, absent: Collection[int]) -> Diagnosis:
    """The diagnosis that all known calls match."""
    count = state.timeline.count
    limits: tuple[str, ...] = (f"Nothing is known of {format_ranks(sorted(absent))}.",) if absent else ()
    if unlike := unlike_groups(state):
        limits += (f"{unlike.sentence} That did no harm this time. {unlike.advice}",)
    if count:
        sentence = f"The calls of all ranks fit together, in {plural(count, 'recorded operation')}."
        return Diagnosis("none", (), sentence, advice=ADVICE["none"], limits=limits)
    if running := _still_running(state):
        sentence = "The ranks have recorded no communication so far."
        return Diagnosis("none", (), sentence, running, advice=_AGAIN, limits=limits)
    return Diagnosis("none", (), "The ranks recorded no communication.", advice=ADVICE["none"], limits=limits)


def _still_running(state: RunState, besides: Collection[int] = ()) -> tuple[RankPosition, ...]:
    """Where ranks that have recorded no end were last seen, `besides` some."""
    places = defaultdict[tuple[str, int], list[int]](list)
    for rank in sorted(state.pids.keys() - state.finished.keys() - state.exited.keys() - {*besides}):
        places[state.places.get(rank, ("", 0))].append(rank)
    return tuple(
        RankPosition(tuple(ranks), "last seen" if place[1] else "nothing recorded yet", *place)
        for place, ranks in places.items()
    )
