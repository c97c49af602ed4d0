"""Which ranks do not go on, and what is known of the time for which they wait."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping

from ddpquiz.diagnosis import root_cause
from ddpquiz.diagnosis.mismatch_verdict import circular_wait, extra_call, of_mismatch, standpoint, wait
from ddpquiz.diagnosis.ranks_at_fault import singled_out
from ddpquiz.diagnosis.root_cause import NO_FILE, Cause, Fate, find_fates
from ddpquiz.diagnosis.verdict import (
    MIXED,
    MORE_CALLS,
    NEXT,
    UNEVEN,
    Diagnosis,
    FaultKind,
    Standpoint,
    call_at,
    request,
    request_at,
)
from ddpquiz.events.collective import CallOrder, Collective
from ddpquiz.events.event import POINT_TO_POINT, ROOTED, Forming, Note, Operation, RankPosition
from ddpquiz.events.formatting import format_place, format_ranks
from ddpquiz.events.mismatch import EQUAL_SHAPES
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.plural import plural

# Which ranks do not go on, and what is known of the time for which they wait.


def find_blocked(state: RunState) -> dict[int, Collective]:
    """Return in which operation each rank is that does not go on, as far as the record shows."""
    blocked: dict[int, Collective] = {}
    for collective in state.timeline.unfinished:
        for rank in collective.arrived:
            call = collective.calls[rank]
            is_open = call.ended is None or call.failed
            waits = not call.operation.in_background or call.failed or call.blocks_script or state.blocked_in(rank)
            if is_open and waits:
                blocked.setdefault(rank, collective)
    return blocked


def has_gone_on(rank: int, state: RunState) -> bool:
    """Return True if a rank has surely left its last operation: another one went on from there that all had to enter.

    The root of a broadcast may have failed there, because of a rank of which nothing is known.
    """
    last = state.last_call.get(rank)
    if last is None or last.operation.op in (*ROOTED, *POINT_TO_POINT):
        return False
    for each in state.timeline.unfinished:
        if rank in each.calls and each.calls[rank].number == last.number:
            others = {other: call for other, call in each.calls.items() if other != rank and not call.failed}
            return any(state.last_call[other].number > call.number for other, call in others.items())
    return False  # it was an operation of other ranks, as far as is known


def is_long(collective: Collective, state: RunState, now: float) -> bool:
    """Return True if ranks wait much longer than operations usually take, so that they do not just meet later."""
    since = max(call.issued for call in collective.calls.values())
    usual = max((each.started - min(c.issued for c in each.calls.values())
                 for each in state.timeline.collectives if each.started is not None), default=0.0)  # fmt: skip
    return now - since > max(1.0, 2 * usual) or any(call.failed for call in collective.calls.values())


# A rank that asks for something else than its line always did, where the other ranks left no record.


def changed_request(blocked: Mapping[int, Collective], absent: tuple[int, ...], order: CallOrder) -> Diagnosis | None:
    """Return that ranks changed the shape or dtype of a call in which they wait for ranks without a record.

    Gloo ends the ranks whose tensors have no room for what they receive, so those often leave nothing.
    """
    calls: dict[int, Operation] = {
        rank: each.calls[rank].operation for rank, each in blocked.items() if each.op.startswith(EQUAL_SHAPES)
    }
    changed = {rank: operation for rank, operation in calls.items() if order.usual_request(operation, len(calls))}
    if not changed or len({*changed.values()}) > 1:
        return None
    ranks, operation = tuple(sorted(changed)), next(iter(changed.values()))
    usual = order.usual_request(operation, len(calls)) or operation
    collective = blocked[ranks[0]]
    return Diagnosis(
        "signature", ranks,
        f"{format_ranks(ranks).capitalize()} called {request_at(operation)}; before, every call in that line was "
        f"{request(usual)}.",
        (standpoint(ranks, operation), Standpoint(absent, "left no record")),
        collective.group, collective.members, collective.index, next=NEXT["signature"],
        limits=(f"{format_ranks(absent).capitalize()} left no record; the cause may also be there.",),
    )  # fmt: skip


# The verdict on ranks that form groups: some ask for other groups than the rest, never ask, or come late.

MOST_SIDES = 4  # that a sentence lists
FORM_ALL = (
    "Every rank must call new_group for every group, in the same order, also for groups that it is not in. "
    "With use_local_synchronization=True, only the members call it."
)


def different_groups(state: RunState, blocked: Mapping[int, Collective]) -> Diagnosis | None:
    """Return which ranks made other calls of new_group than the rest, if ranks are stuck."""
    if not state.groups.inside and not blocked:
        return None
    if verdict := unlike_groups(state):
        return verdict
    for calls in state.groups.open.values():
        callers = {rank: each for rank, each in calls.items() if rank in state.groups.inside}
        others = {rank: each for rank, each in blocked.items() if rank not in calls}
        if callers and others:
            return _of_some(callers, others)
    return None


def unlike_groups(state: RunState) -> Diagnosis | None:
    """Return which ranks asked for other groups than the rest, also if that did no harm."""
    groups = state.groups.open
    numbers = (number for number, calls in groups.items() if len({each.members for each in calls.values()}) > 1)
    first = min(numbers, default=None)
    return None if first is None else _of_different(first, groups)


def late_in_forming(state: RunState, fates: Mapping[int, Fate]) -> Diagnosis | None:
    """Return for which member the others wait in new_group."""
    for calls in state.groups.open.values():
        waiting = {rank: each for rank, each in calls.items() if rank in state.groups.inside}
        missing = {member for each in waiting.values() for member in each.members if member not in calls}
        for kind in ("dead", "left", "late"):
            culprits = tuple(sorted(rank for rank in missing if fates[rank].kind == kind))
            if culprits:
                return _of_late(kind, culprits, waiting, fates)
    return None


def _of_different(number: int, of_all: Mapping[int, Mapping[int, Forming]]) -> Diagnosis:
    """Return that the k-th calls ask for different groups.

    Ranks whose call is the next one of others have left one out; otherwise the majority decides.
    """
    calls, following = of_all[number], of_all.get(number + 1, {})
    sides: dict[tuple[int, ...], list[int]] = {}
    for rank, call in sorted(calls.items()):
        sides.setdefault(call.members, []).append(rank)
    early = [rank for rank, call in calls.items()
             if any(each.members == call.members and calls[other].members != call.members
                    for other, each in following.items() if other in calls)]  # fmt: skip
    most = max(map(len, sides.values()))
    few = [rank for ranks in sides.values() for rank in ranks if len(ranks) < most]
    same_line = len({(each.file, each.line) for each in calls.values()}) == 1
    fault: FaultKind = "missing" if early else "signature" if same_line else "order"
    texts = [f"{format_ranks(ranks)} called {_call(calls[ranks[0]])}" for ranks in sides.values()]
    more = f"; and {len(texts) - MOST_SIDES} more" if len(texts) > MOST_SIDES else ""
    sentence = f"{_capitalized(texts[0])}, but {'; '.join(texts[1:MOST_SIDES])}{more}."
    if early and len(sides) == 2:
        left_out = next(calls[rank] for rank in calls if rank not in early)
        sentence = f"{_capitalized(format_ranks(early))} did not call {_call(left_out)}, but {_call(calls[early[0]])}."
    standpoints = tuple(_standpoint(tuple(ranks), calls[ranks[0]]) for ranks in sides.values())
    return Diagnosis(fault, tuple(sorted(early or few or calls)), sentence, standpoints, index=number, next=FORM_ALL)


def _of_some(callers: Mapping[int, Forming], others: Mapping[int, Collective]) -> Diagnosis:
    """Return that some ranks wait in new_group while others wait in an operation, and so never call it."""
    these, rest = tuple(sorted(callers)), tuple(sorted(others))
    few, first = len(these) < len(rest), callers[these[0]]
    at = others[rest[0]].calls[rest[0]].operation
    sentence = f"{'only ' * few}{format_ranks(these)} called {_call(first)}; {format_ranks(rest)} went on to {at.op}"
    standpoints = (_standpoint(these, first), Standpoint(rest, at.op, at.file, at.line))
    return Diagnosis(
        "missing", these if few else rest, f"{_capitalized(sentence)} at {format_place(at.file, at.line)}.",
        standpoints, next=FORM_ALL,
    )  # fmt: skip


def _of_late(
    kind: FaultKind, culprits: tuple[int, ...], waiting: Mapping[int, Forming], fates: Mapping[int, Fate]
) -> Diagnosis:
    callers, fate = tuple(sorted(waiting)), fates[culprits[0]]
    first = waiting[callers[0]]
    place = f" at {format_place(fate.file, fate.line)}" if fate.line else ""
    what = f": it {fate.words}{place}." if len(culprits) == 1 else "."
    sentence = f"{_capitalized(wait(callers))} in new_group at {format_place(first.file, first.line)} for "
    standpoints = [_standpoint(callers, first)]
    standpoints += [Standpoint((rank,), fates[rank].words, fates[rank].file, fates[rank].line) for rank in culprits]
    return Diagnosis(kind, culprits, sentence + format_ranks(culprits) + what, tuple(standpoints), next=NEXT[kind])


def _call(event: Forming) -> str:
    return f"{_request(event)} at {format_place(event.file, event.line)}"


def _request(event: Forming) -> str:
    return f"new_group for {format_ranks(event.members)}"


def _standpoint(ranks: tuple[int, ...], event: Forming) -> Standpoint:
    return Standpoint(ranks, _request(event), event.file, event.line)


def _capitalized(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


# The verdict on a job whose communication shows no fault, or that has not communicated so far.

_AGAIN = (
    "If the job has just begun, diagnose it again in a moment: ranks import libraries and load data before they "
    "communicate. `ddpquiz watch` follows a job while it runs."
)


def no_fault(state: RunState, absent: Collection[int]) -> Diagnosis:
    """Return that all calls fit together, as far as they are known."""
    count = state.timeline.count
    limits: tuple[str, ...] = (f"Nothing is known of {format_ranks(sorted(absent))}.",) if absent else ()
    if unlike := unlike_groups(state):
        limits += (f"{unlike.sentence} That did no harm this time. {unlike.next}",)
    if count:
        sentence = f"The calls of all ranks fit together, in {plural(count, 'recorded operation')}."
        return Diagnosis("none", (), sentence, next=NEXT["none"], limits=limits)
    if running := _still_running(state):
        sentence = "The ranks have recorded no communication so far."
        return Diagnosis("none", (), sentence, running, next=_AGAIN, limits=limits)
    return Diagnosis("none", (), "The ranks recorded no communication.", next=NEXT["none"], limits=limits)


def _still_running(state: RunState) -> tuple[Standpoint, ...]:
    """Return where ranks that have not ended were last seen."""
    places = defaultdict[tuple[str, int], list[int]](list)
    for rank in sorted(state.pids.keys() - state.finished - state.exited.keys()):
        places[state.places.get(rank, ("", 0))].append(rank)
    return tuple(
        Standpoint(tuple(ranks), "last seen" if place[1] else "nothing recorded yet", *place)
        for place, ranks in places.items()
    )


# What is wrong with the communication of a job: the first operation that does not fit, which ranks, and which lines.


def diagnose(
    state: RunState,
    *,
    absent: Collection[int] = (),
    now: float | None = None,
    seen: Mapping[int, float] | None = None,
    positions: Collection[RankPosition] = (),
) -> Diagnosis:
    """Return what is wrong.

    `absent` are ranks of which nothing is known, `now` is the end of what is known, and `seen` that of single ranks if
    it is earlier; `positions` say where ranks stand by their stacks.
    """
    fates = find_fates(state, absent, positions or (state.hung.ranks if state.hung else ()))
    if verdict := different_groups(state, find_blocked(state)):
        return verdict
    unlike = state.timeline.unlike()
    stuck = [found for found in unlike if _is_stuck(found[1], state)]
    if stuck:
        return of_mismatch(*stuck[0], state.timeline.order)
    verdict = None if absent or now != math.inf else _of_hidden_roots(state)
    verdict = verdict or _of_waits(state, fates, state.time if now is None else now, seen or {})
    verdict = verdict or late_in_forming(state, fates)
    if unlike and (verdict is None or verdict.fault != "dead"):  # calls that do not match, and came to an end
        return of_mismatch(*unlike[0], state.timeline.order)
    if (
        verdict
        and {*verdict.culprits} <= {*absent}
        and (last := next((e for e in unlike if _is_last(e[1], state)), None))
    ):
        return of_mismatch(*last, state.timeline.order)  # that is certain, and that a rank left no record may follow
    if absent and (verdict is None or {*verdict.culprits} <= {*absent}):
        verdict = changed_request(find_blocked(state), tuple(sorted(absent)), state.timeline.order) or verdict
    if verdict is None and absent and now == math.inf:  # the others recorded that they got stuck
        verdict = _of_absence(tuple(sorted(absent)), state)
    return verdict or _of_death(fates, state) or no_fault(state, absent)


def diagnose_record(record: JobRecord, state: RunState) -> Diagnosis:
    """Return what is wrong with a recorded job; `state` is what its events have led to."""
    return diagnose(state, absent=record.missing, now=record.until, seen=record.seen)


def _is_stuck(collective: Collective, state: RunState) -> bool:
    """Return True unless every call of the collective has ended well."""
    calls = collective.calls.values()
    if collective.complete and all(call.ended is not None and not call.failed for call in calls):
        return any(rank in state.raised for rank in collective.members)
    return True


def _is_last(collective: Collective, state: RunState) -> bool:
    """Return True if no rank has gone on after an operation."""
    return all(state.last_call[rank].number == call.number for rank, call in collective.calls.items())


def _of_waits(state: RunState, fates: dict[int, Fate], now: float, seen: Mapping[int, float]) -> Diagnosis | None:
    """Return whom the waiting ranks wait for in the end, through chains of ranks that wait themselves."""
    blocked = find_blocked(state)
    waits = {rank: each for rank, each in blocked.items() if each.awaited}
    if not waits:
        return None
    roots = {rank for each in waits.values() for rank in each.awaited if rank not in waits and rank >= 0}
    roots = roots - blocked.keys() or roots  # the members of a group are not always known, nor whom those wait for
    absent = {rank for rank in roots if fates[rank].absent}
    certain = {rank for rank in roots - absent if not absent or fates[rank].kind != "late" or has_gone_on(rank, state)}
    for kind, ranks in (("dead", certain), ("left", certain), ("late", certain), ("dead", absent), ("late", roots)):
        found = {
            rank: next(each for each in waits.values() if rank in each.awaited)
            for rank in ranks if fates[rank].kind == kind
        }  # fmt: skip
        culprits = tuple(
            rank for rank in sorted(found) if _is_sure(found[rank], state, fates[rank], min(now, seen.get(rank, now)))
        )
        if culprits:
            collective = found[culprits[0]]
            if kind == "left" and (extra := _extra_call(collective, culprits, state)):
                return _of_extra_call(collective, culprits, extra, state)
            return _of_root(culprits, collective, state, fates, absent.difference(culprits))
    return None if roots else circular_wait(waits, state.timeline.order)


def _is_sure(collective: Collective, state: RunState, fate: Fate, until: float) -> bool:
    """Return True unless a rank may come to an operation as usual, after the time until which it is known."""
    is_silent = fate.kind == "late" and not fate.seen
    is_moving = fate.absent and until not in (state.time, math.inf)  # dumped while it went on
    return not (is_silent or is_moving) or is_long(collective, state, until)


def _hides_root(collective: Collective, state: RunState) -> bool:
    """Return True if it has a root that the record does not name, and all of its members are known.

    Gloo's dumps show who is in a group only once each member has used it.
    """
    is_known = collective.index > 0 or len(collective.members) == state.ranks
    return is_known and collective.op in ROOTED and collective.operation.peer is None


def _of_hidden_roots(state: RunState) -> Diagnosis | None:
    """Return that ranks stay in an operation which all members have called, if only their roots can differ."""
    blocked = find_blocked(state)
    waits = {rank: each for rank, each in blocked.items() if each.awaited}
    stuck = {rank: each for rank, each in blocked.items() if not each.awaited and _hides_root(each, state)}
    has_proof = waits or any(collective.calls[rank].failed for rank, collective in stuck.items())
    if not stuck or not has_proof or any({*each.awaited} - {*stuck, *waits} for each in waits.values()):
        return None
    ranks, collective = tuple(sorted(stuck)), next(iter(stuck.values()))
    operation = collective.operation
    special = tuple(sorted(singled_out([operation], in_roots=True)))
    named = f"; the script gives {format_ranks(special)} another one" if special else ""
    limit = "The record does not name roots: one of these ranks may be right, or the network is at fault."
    if special:
        limit = f"The record does not name roots: that {format_ranks(special)} deviates is known from the script only."
    return Diagnosis(
        "signature", special or ranks,
        f"{format_ranks(ranks).capitalize()} did not get out of {call_at(operation)}, which all of its members called: "
        f"they probably name different roots{named}.",
        (standpoint(ranks, operation),), collective.group, collective.members, collective.index,
        next=NEXT["signature"], limits=(limit,),
    )  # fmt: skip


def _extra_call(collective: Collective, finished: tuple[int, ...], state: RunState) -> Operation | None:
    """Return the call that those who wait made and those who finished did not, if the former are at fault."""
    extra = extra_call(collective, collective.arrived, finished, state.timeline.order)
    return extra or (collective.operation if len(finished) > len(collective.arrived) else None)


def _of_extra_call(collective: Collective, finished: tuple[int, ...], extra: Operation, state: RunState) -> Diagnosis:
    """Return that some ranks made a call that others, who have finished, did not make, or made fewer calls."""
    callers, call = collective.arrived, call_at(extra)
    who, others = format_ranks(callers), format_ranks(finished)
    sites = state.timeline.order.sites(collective.group, collective.members)
    is_shared = any(site.place == extra.place and at.keys() & {*finished} for site, at in sites)
    sentence = f"Only {who} called {call}; {others} finished without it."
    if is_shared:
        whose = "its" if len(callers) == 1 else "their"
        sentence = f"{who.capitalize()} made more calls than {others}, which finished without {whose} {call}."
    return Diagnosis(
        "missing", callers, sentence,
        (standpoint(callers, collective.operation), Standpoint(finished, "finished")),
        collective.group, collective.members, collective.index,
        next=NEXT["missing"] if not is_shared else MORE_CALLS if extra.bucket is None else UNEVEN,
    )  # fmt: skip


def _of_root(
    culprits: tuple[int, ...], collective: Collective, state: RunState, fates: dict[int, Fate], absent: Collection[int]
) -> Diagnosis:
    """Return that ranks wait for others; of the `absent` ones, nothing is known."""
    operation = collective.operation
    who, fate = format_ranks(culprits), fates[culprits[0]]
    kind = fate.kind
    place = f" at {format_place(fate.file, fate.line)}" if fate.line else ""
    sentence = f"{wait(collective.arrived).capitalize()} in {call_at(operation)} for {who}"
    sentence += f": it {fate.words}{place}." if len(culprits) == 1 else "."
    last = state.last_call.get(culprits[0])
    standpoints = [standpoint(collective.arrived, operation)]
    standpoints += [Standpoint((rank,), fates[rank].words, fates[rank].file, fates[rank].line) for rank in culprits]
    limits = _limits_of_absence(operation) if fate.absent else ()
    if absent:
        limits += (f"{format_ranks(sorted(absent)).capitalize()} left no record; the cause may also be there.",)
    return Diagnosis(
        kind, culprits, sentence, tuple(standpoints), collective.group, collective.members, collective.index,
        f"{who.capitalize()} last called {call_at(last.operation)}." if last else "",
        _next(kind, operation, last.operation if last else None),
        limits,
    )  # fmt: skip


def _next(kind: FaultKind, operation: Operation, last: Operation | None) -> str:
    """Return what to do about a rank for which others wait in an operation; `last` is what the rank called last."""
    if kind == "left" and operation.bucket is not None:
        return UNEVEN
    repeats = last is not None and last.place == operation.place
    return f"{NEXT[kind]} {MIXED}" if kind == "left" and repeats else NEXT[kind]


def _limits_of_absence(operation: Operation) -> tuple[str, ...]:
    """Return what remains open if nothing is known of ranks, for which others wait in an operation."""
    special = singled_out([operation])
    if not special:
        return (NO_FILE.limit,)
    who = format_ranks(sorted(special))
    return NO_FILE.limit, f"The script singles out {who} in that call: another shape, dtype or root also ends ranks."


def _of_death(fates: dict[int, Fate], state: RunState) -> Diagnosis | None:
    """Return the ranks that died although none is known to wait for them."""
    dead = tuple(sorted(rank for rank, fate in fates.items() if fate.kind == "dead" and not fate.absent))
    if not dead:
        return None
    first = fates[dead[0]]
    where = Standpoint(dead, first.words, first.file, first.line)
    cause = root_cause.find(state)
    if cause.rank in state.raised and cause.rank in dead:
        return Diagnosis("dead", dead, cause.why, (where,), next=cause.mend or NEXT["raised"])
    return Diagnosis("dead", dead, f"{format_ranks(dead).capitalize()} {first.words}.", (where,), next=NEXT["dead"])


def _of_absence(absent: tuple[int, ...], state: RunState) -> Diagnosis:
    """Return that ranks left no record although the others recorded that they got stuck."""
    last = max(state.last_call.values(), key=lambda event: event.time, default=None)
    where = f" The last call of the others is {call_at(last.operation)}." if last else ""
    sentence = f"{format_ranks(absent).capitalize()} left no record, and all calls of the others fit together.{where}"
    limits = [*_limits_of_absence(last.operation)] if last else [NO_FILE.limit]
    if last and last.operation.op in ROOTED and last.operation.peer is None:
        limits.append(f"The others would get stuck in this {last.operation.op} also if one rank named another root.")
    return Diagnosis("dead", absent, sentence, next=NEXT["dead"], limits=tuple(limits))


# What is said of a run in which nothing moves: while it goes on, and when the user ends it there.


def note_standstill(state: RunState, now: float, since: float, positions: Collection[RankPosition]) -> Note:
    """Return who waits for whom in a run that may still go on; `since` is when something moved last."""
    verdict = diagnose(state, now=now, positions=positions)
    still = f"No operation and no line of output for {now - since:.0f} s."
    return Note(now, (*verdict.culprits, 0)[0], f"{still} {_standing(verdict, positions)}")


def cause_of_stop(why: str, state: RunState, positions: Collection[RankPosition]) -> Cause:
    """Return why the user's run ended, and where its ranks stood if it did not move, with what to do about that."""
    if not positions:
        return Cause(why=why)
    verdict = diagnose(state, positions=positions)
    advice = f"\n{verdict.next}" if verdict.fault != "none" else ""
    return Cause(why=why, mend=_standing(verdict, positions) + advice)


def _standing(verdict: Diagnosis, positions: Collection[RankPosition]) -> str:
    """Return what is wrong, or else where each rank stands."""
    if verdict.fault != "none":
        return verdict.whole
    places = (f"rank {each.rank} at {format_place(each.file, each.line)}" for each in positions if each.line)
    return f"No rank waits for another one: {', '.join(places)}."
