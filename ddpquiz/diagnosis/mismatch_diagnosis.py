"""Calls of ranks that do not match: which rank made the wrong one, and how that reads.

A call may differ in what it asks for, in its place in the order, or have no counterpart: an extra call shifts all later
ones, a message is never sent, ranks wait for each other in a circle. Dumps do not name roots, and a rank may leave no
record: then what the others show says what does not match.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache

from ddpquiz.diagnosis.diagnosis import (
    ADVICE,
    BUFFERS,
    COUNTED,
    JOINED,
    MESSAGES,
    NEIGHBOR,
    OBJECTS,
    ONE_ORDER,
    OTHER_LAYERS,
    OTHER_TENSORS,
    PARTS,
    SET_ORDER,
    SIZES,
    TAGS,
    UNEVEN,
    Diagnosis,
    FaultKind,
    RankPosition,
    advise_pairs,
    call_at,
    position_of,
    request,
    request_at,
    tell_apart,
    wait,
)
from ddpquiz.diagnosis.ranks_at_fault import Deviation, find_deviation, sides_of, unusual_ranks, who_deviates
from ddpquiz.diagnosis.script_analysis import branches_of, left_a_loop, opposite_branches, ranks_kept_apart, singled_out
from ddpquiz.diagnosis.set_order import loops_over_set
from ddpquiz.events.collective import Call, CallOrder, Collective
from ddpquiz.events.formatting import format_place, format_ranks, format_shapes
from ddpquiz.events.mismatch import EQUAL_SHAPES, Mismatch, unlike_parts
from ddpquiz.events.operation import POINT_TO_POINT, ROOTED, Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.events.source_text import source_line
from ddpquiz.events.timeline import Timeline
from ddpquiz.plural import plural

_MOST_SIDES = 6  # that a sentence lists


def diagnose_mismatch(mismatch: Mismatch, collective: Collective, order: CallOrder) -> Diagnosis:
    """Which ranks made the call that does not match, and both lines."""
    if {call.operation.op for call in collective.calls.values()} == {*POINT_TO_POINT}:
        return _of_pair(collective, order)
    if mismatch.kind == "parts":
        return _of_parts(collective)
    calls = {rank: (call.operation, call.after) for rank, call in collective.calls.items()}
    deviation = find_deviation(calls, order)
    fault: FaultKind = "order" if mismatch.kind == "order" else deviation.fault
    if fault in ("missing", "signature") and (verdict := _of_extra_call(collective, deviation, order)):
        return verdict
    culprits = tuple(sorted(calls)) if deviation.guessed and fault != "missing" else deviation.ranks
    sides = sides_of({rank: operation for rank, (operation, _) in sorted(calls.items())})
    if len(sides) > 2:  # more than right and wrong
        sentence, positions = (
            _all_sides(sides),
            tuple(position_of((*ranks,), operation) for operation, ranks in sides.items()),
        )
    else:
        sentence = _deviation_sentence(fault, deviation)
        positions = (position_of(deviation.ranks, deviation.call), position_of(deviation.others, deviation.expected))
    return Diagnosis(
        fault, culprits, sentence, positions, collective.group, collective.members, collective.index,
        _together(deviation), _advice(fault, deviation), _limits(deviation, collective, len(sides)),
    )  # fmt: skip


def _limits(deviation: Deviation, collective: Collective, sides: int) -> tuple[str, ...]:
    """What remains open where as many ranks are on each of the sides."""
    if not deviation.tied:
        return ()
    if sides > 2:
        return ("As many ranks made each of these calls, so nothing tells which of them is right.",)
    who = "As many ranks" if collective.complete else "Of the ranks that called, as many"
    return (limit_of_tie(f"{who} made the other call", deviation.ranks, deviation.others, guessed=deviation.guessed),)


def limit_of_tie(tie: str, ranks: Collection[int], others: Collection[int], *, guessed: bool) -> str:
    """What remains open where as many `others` stand against some ranks, and at most the script says who is right."""
    if guessed:
        return f"{tie}, so {format_ranks(others)} may be at fault instead."
    is_ = "is" if len(ranks) == 1 else "are"
    return f"{tie}. Only the script shows that {format_ranks(ranks)} {is_} at fault."


def _of_extra_call(collective: Collective, deviation: Deviation, order: CallOrder) -> Diagnosis | None:
    """The diagnosis that a line which only one side reached has shifted the calls; None if there is no such line.

    What its callers did earlier in the run cannot put the others in the wrong then: only they ever did it.
    """
    for callers, others in ((deviation.ranks, deviation.others), (deviation.others, deviation.ranks)):
        if extra := extra_call(collective, callers, others, order):
            break
    else:
        return _of_own_way(collective, deviation, order)
    flipped = _flipped(deviation)
    of_callers, of_others = (deviation, flipped) if callers == deviation.ranks else (flipped, deviation)
    found = deviation
    if of_others is deviation or deviation.tied:
        side = who_deviates(extra, callers, others, of_callers.expected)
        if deviation.guessed and side == "unknown":
            return None
        found = {"callers": of_callers, "others": of_others, "unknown": deviation}[side]
        found = replace(found, tied=len(callers) == len(others), guessed=False)
    who, rest, call = format_ranks(callers), format_ranks(others), call_at(extra)
    if found.ranks == others:
        sentence = f"{rest.capitalize()} never called {call}, as {who} did, so the calls after it do not match."
    elif extra.place == found.call.place:
        sentence = _deviation_sentence("missing", replace(found, extra=True))
    else:
        sentence = f"Only {who} called {call}; {rest} never did, so the calls after it do not match."
    return Diagnosis(
        "missing", found.ranks, sentence,
        (position_of(found.ranks, found.call), position_of(found.others, found.expected)),
        collective.group, collective.members, collective.index, _together(found), advise_extra(extra),
        _limits(found, collective, 2),
    )  # fmt: skip


def _of_own_way(collective: Collective, deviation: Deviation, order: CallOrder) -> Diagnosis | None:
    """The diagnosis that ranks made a call in a line of all ranks, to which the script now let only these ranks go on.

    So it is where rank 0 evaluates alone from time to time, and all ranks did at the beginning. That it did so before
    makes the call usual, and not right.
    """
    found = replace(_flipped(deviation), extra=True)
    known = {operation.place: callers for operation, callers in order.sites(collective.group, collective.members)}
    if len(found.ranks) > len(found.others) or not {*found.others} <= known.get(found.call.place, {}).keys():
        return None
    before = collective.calls[found.ranks[0]].after
    if before is None or not {*found.ranks} <= ranks_kept_apart(found.call, found.expected, before)[0]:
        return None
    return Diagnosis(
        "missing", found.ranks, _deviation_sentence("missing", found),
        (position_of(found.ranks, found.call), position_of(found.others, found.expected)),
        collective.group, collective.members, collective.index, _together(found), advise_extra(found.call),
        _limits(replace(found, tied=len(found.ranks) == len(found.others), guessed=False), collective, 2),
    )  # fmt: skip


def _flipped(deviation: Deviation) -> Deviation:
    """The same calls, with the other side at fault."""
    return replace(
        deviation, ranks=deviation.others, call=deviation.expected, others=deviation.ranks, expected=deviation.call
    )


def advise_extra(extra: Operation) -> str:
    """What to do about a call that only some ranks make."""
    is_of_buffers = extra.op == "broadcast" and _is_hidden(extra)
    return f"{BUFFERS} {ADVICE['missing']}" if is_of_buffers else ADVICE["missing"]


def _advice(fault: FaultKind, deviation: Deviation) -> str:
    """What to do: where some ranks have left a loop in which others reduce gradients, their batches differ."""
    is_own = _sends_there(deviation)
    for inner, outer in ((deviation.call, deviation.expected), (deviation.expected, deviation.call)):
        if inner.bucket is not None and outer.bucket is None and left_a_loop(inner, outer) and not is_own:
            return UNEVEN
    if deviation.call.op in POINT_TO_POINT:
        return advise_pairs((deviation.call.op, deviation.expected.op))
    call, expected = deviation.call, deviation.expected
    is_one_line = (call.file, call.line) == (expected.file, expected.line)
    if call.line and is_one_line:  # which every rank has reached
        if loop := loops_over_set(call.file, call.line):
            return SET_ORDER.format(loop=format_place(call.file, loop))
        if "_object" in source_line(call.file, call.line):
            return OBJECTS
        if call.place == expected.place and fault != "signature":
            return OTHER_TENSORS
    if fault == "missing" and {call.op, expected.op} == _OF_SHARDS and _is_hidden(call) and _is_hidden(expected):
        return OTHER_LAYERS if is_one_line else f"{OTHER_LAYERS} {ADVICE['missing']}"
    return advise_extra(call) if fault == "missing" and deviation.extra else ADVICE[fault]


_OF_SHARDS = {"all_gather_into_tensor", "reduce_scatter_tensor"}  # what FSDP calls for each layer


def _is_hidden(operation: Operation) -> bool:
    """True if the line of a call is known and does not name the operation: something makes it that the line calls."""
    text = source_line(operation.file, operation.line)
    return bool(text.strip()) and operation.op not in text


def _sends_there(deviation: Deviation) -> bool:
    """True if the script lets the ranks that deviate come to their call, or not to the other one, whatever their data.

    A step that they skip, as by `if rank == 1 and step == 2: continue`, is not that.
    """
    call, expected, ranks = deviation.call, deviation.expected, {*deviation.ranks}
    own = {*branches_of(expected.file, expected.line)} - {*branches_of(call.file, call.line)}
    is_left_out = any(branch == "unless" for _, branch in own)
    return ranks <= ranks_kept_apart(call, expected)[0] or (
        is_left_out and ranks <= ranks_kept_apart(expected, call)[1]
    )


def _of_pair(collective: Collective, order: CallOrder) -> Diagnosis:
    """The diagnosis that a send and its receive differ in size or dtype; the one that is new in its line is wrong."""
    calls = {rank: call.operation for rank, call in collective.calls.items()}
    changed = tuple(rank for rank, operation in calls.items() if order.usual_request(operation, 1))
    culprits = changed if len(changed) == 1 else tuple(sorted(calls))
    source, to = collective.members
    sent, received = calls[source], calls[to]
    sentence = f"Rank {source} sends {_sized(sent)}, but rank {to} receives {_sized(received)}."
    return Diagnosis(
        "signature", culprits, sentence,
        tuple(position_of((rank,), operation) for rank, operation in sorted(calls.items())),
        collective.group, collective.members, collective.index, advice=SIZES,
        limits=() if len(culprits) == 1 else ("Nothing in the record tells which of the two is right.",),
    )  # fmt: skip


def _of_parts(collective: Collective) -> Diagnosis:
    """The diagnosis that ranks of an all_to_all send other numbers of elements than are expected from them."""
    unlike = unlike_parts(collective)
    in_all = [rank for rank in collective.members if all(rank in pair[:2] for pair in unlike)]
    source, to, sent, expected = next((pair for pair in unlike if pair[0] != pair[1]), unlike[0])
    culprits = tuple(in_all) if len(in_all) == 1 else tuple(sorted({rank for pair in unlike for rank in pair[:2]}))
    call = call_at(collective.calls[source].operation)
    sentence = (
        f"Rank {source} sends {plural(sent, 'element')} to rank {to} in {call}, but rank {to} expects {expected:,} "
        "from it."
    )
    if len(unlike) > 1:
        sentence += f" So it is in {plural(len(unlike), 'pair')} of ranks"
        sentence += f", and rank {in_all[0]} is in each of them." if len(in_all) == 1 else "."
    return Diagnosis(
        "signature", culprits, sentence,
        tuple(position_of((rank,), collective.calls[rank].operation) for rank in dict.fromkeys((source, to))),
        collective.group, collective.members, collective.index, advice=PARTS,
        limits=() if len(in_all) == 1 else ("Nothing in the record tells which of these ranks is right.",),
    )  # fmt: skip


def _sized(operation: Operation) -> str:
    place = f" at {format_place(operation.file, operation.line)}" if operation.line else ""
    return f"{format_shapes(operation.shapes)} {operation.dtype}{place}"


def _all_sides(sides: Mapping[Operation, Sequence[int]]) -> str:
    texts = [f"{format_ranks(ranks)}: {request_at(operation)}" for operation, ranks in sides.items()]
    more = f"; and {len(texts) - _MOST_SIDES} more" if len(texts) > _MOST_SIDES else ""
    return f"Ranks ask for different things in one call: {'; '.join(texts[:_MOST_SIDES])}{more}."


def _deviation_sentence(fault: FaultKind, deviation: Deviation) -> str:
    """Write which ranks deviate, and from which call of the others."""
    who, others = format_ranks(deviation.ranks).capitalize(), format_ranks(deviation.others)
    call, expected = tell_apart(deviation.call, deviation.expected)
    if fault == "missing" and deviation.extra and len(deviation.ranks) > len(deviation.others):
        return f"{who} went on to {call}, while {others} called {expected}."
    if fault == "missing" and deviation.extra:
        return f"Only {who.lower()} called {call}; {others} called {expected} instead."
    if fault == "missing":
        return f"{who} did not call {expected}, in which {wait(deviation.others)}, but went on to {call}."
    if fault == "order":
        return f"{who} called {call} where {others} called {expected}."
    return f"{who} called {request_at(deviation.call)}, but {others} called {request_at(deviation.expected)}."


def _together(deviation: Deviation) -> str:
    """Write what all ranks had called before, if it was the same."""
    return f"Before that, all of them had called {call_at(deviation.before)}." if deviation.before else ""


def extra_call(
    collective: Collective, ranks: Collection[int], others: Collection[int], order: CallOrder
) -> Operation | None:
    """The first collective before this one in a line that some of `ranks` reached and none of `others`.

    Calls pair by their order, so such a call may have met another one of the others without an error, and the calls
    that do not match come later, in other lines. None if the others had reached a line of their own before it. Lines of
    both sides that met each other, or that stand in opposite branches, may belong together.
    """
    sites = order.sites(collective.group, collective.members)
    ours, theirs = ({*each} for each in (ranks, others))
    own, foreign = (
        [(min(at for rank, at in callers.items() if rank in side), operation) for operation, callers in sites
         if side & callers.keys() and not other & callers.keys()]
        for side, other in ((ours, theirs), (theirs, ours))
    )  # fmt: skip
    met = {at for at, _ in own} & {at for at, _ in foreign}
    first = min((at for at, _ in own if at not in met), default=collective.index)
    if first >= collective.index or any(at < first for at, _ in foreign if at not in met):
        return None
    extra = next(operation for at, operation in own if at == first)
    if any(opposite_branches(extra, operation) for operation, callers in sites if callers.keys() & theirs):
        return None
    return extra


_JOIN = re.compile(r"\bJoin\(|\bwith\b.*\.join\(")


def call_within_join(group: str, members: tuple[int, ...], timeline: Timeline) -> Diagnosis | None:
    """The diagnosis that a call of the script, within Join, met a call of ranks that had ended their inputs.

    Those make only the calls that Join mirrors, which are those of the modules that it was given. All of them come from
    the line of the `with`, and those of the modules from a line that does not name the operation.
    """
    text_at = cache(source_line)
    if not any(_JOIN.search(text_at(site.file, site.line)) for site, _ in timeline.order.sites(group, members)):
        return None
    for collective in timeline.collectives:
        calls = {rank: call.operation for rank, call in sorted(collective.calls.items())}
        texts = {rank: text_at(call.file, call.line) for rank, call in calls.items()}
        ended = tuple(rank for rank, text in texts.items() if _JOIN.search(text))
        callers = tuple(rank for rank, text in texts.items() if rank not in ended and calls[rank].op in text)
        if ended and callers:
            call, mirrored = calls[callers[0]], calls[ended[0]]
            sentence = (
                f"{format_ranks(callers).capitalize()} called {call_at(call)} when {format_ranks(ended)} had ended "
                f"{'its' if len(ended) == 1 else 'their'} inputs. Join ({format_place(mirrored.file, mirrored.line)}) "
                f"makes calls for {format_ranks(ended)} then, but only those of the modules that it was given, so from "
                "there on the calls do not match."
            )
            positions = position_of(callers, call), RankPosition(ended, "in Join", mirrored.file, mirrored.line)
            return Diagnosis(
                "missing", callers, sentence, positions, collective.group, collective.members, collective.index,
                advice=JOINED,
            )  # fmt: skip
    return None


# Ranks that wait for each other, or for a message that never comes.


# How often a rank called "send" to, or "recv" from, another one: by the operator and both ranks
MessageCounts = Mapping[tuple[str, int, int], int]


def circular_wait(
    waits: Mapping[int, Collective], order: CallOrder, messages: MessageCounts | None = None
) -> Diagnosis:
    """The diagnosis of ranks that all wait for each other: `waits` has the operation in which each of them waits.

    `messages` is None unless the record has all of them.
    """
    return _lost_message(waits, order) or _of_cycle(waits, order, messages)


def _of_cycle(waits: Mapping[int, Collective], order: CallOrder, messages: MessageCounts | None) -> Diagnosis:
    """Which ranks left the common order, or the circle itself where none did."""
    rank = min(waits, key=lambda rank: waits[rank].calls[rank].issued)
    cycle = [rank]
    while (following := next((other for other in waits[cycle[-1]].awaited if other in waits), None)) is not None:
        if following in cycle:
            cycle = cycle[cycle.index(following) :]
            break
        cycle.append(following)
    calls = {rank: (waiting.calls[rank].operation, waiting.calls[rank].after) for rank, waiting in waits.items()}
    operations = [calls[rank][0] for rank in cycle]
    in_pairs = all(operation.op in POINT_TO_POINT for operation in operations)
    first = waits[cycle[0]]
    if not in_pairs and len({operation for operation, _ in calls.values()}) > 1:
        odd = unusual_ranks(calls, order)
        near = {rank: call for rank, call in calls.items() if rank in odd or odd.intersection(waits[rank].awaited)}
        if len({operation for operation, _ in near.values()}) > 1:  # the others are where they should be
            calls = near
        elif len({waits[rank].group for rank in cycle}) > 1:
            return _across_groups(cycle, waits, order)
        deviation = find_deviation(calls, order)
        fault: FaultKind = "missing" if deviation.fault == "missing" and not deviation.extra else "order"
        both = (position_of(deviation.ranks, deviation.call), position_of(deviation.others, deviation.expected))
        return Diagnosis(
            fault, deviation.ranks, _deviation_sentence(fault, deviation), both,
            first.group, first.members, first.index, _together(deviation), ADVICE[fault],
        )  # fmt: skip
    positions = tuple(position_of((rank,), calls[rank][0]) for rank in sorted(cycle))
    text = "; ".join(
        f"rank {rank} {'for its' if calls[rank][0].in_background else 'in'} {call_at(calls[rank][0])}"
        for rank in sorted(cycle)
    )
    places = Counter(operation.place for operation, _ in calls.values())
    advice = advise_pairs(
        {operation.op for operation in operations},
        in_background=all(operation.in_background for operation in operations),
        worked_before=any(order.calls_in(operation.place) > places[operation.place] for operation in operations),
    )
    sentence = f"Ranks wait for each other: {text}."
    if in_pairs and advice == MESSAGES and messages is not None:
        counted = "; ".join(_counted(rank, calls[rank][0], messages) for rank in sorted(cycle))
        sentence, advice = f"{sentence} {counted[0].upper()}{counted[1:]}.", COUNTED
    return Diagnosis(
        "order", tuple(sorted(cycle)), sentence, positions, first.group, first.members,
        first.index, "", advice if in_pairs else ADVICE["order"],
    )  # fmt: skip


def _across_groups(cycle: Sequence[int], waits: Mapping[int, Collective], order: CallOrder) -> Diagnosis:
    """The diagnosis that each rank of a circle waits in its group for one that waits in another group.

    Only ranks that are in all of these groups can have a wrong order. Earlier steps decide who has, then the majority
    of these ranks, then a condition on the rank that leads some of them to their call. Else both orders are told.
    """
    first = waits[cycle[0]]
    calls = {rank: (each.calls[rank].operation, each.calls[rank].after) for rank, each in waits.items()}
    in_all = [rank for rank in calls if all(rank in waits[other].members for other in cycle)]
    found: Deviation | None = find_deviation(calls, order, in_all)
    by_script = ""
    if found and found.tied:
        sides = [_only(each, in_all) for each in (found, _flipped(found))]
        own = [each for each in sides if _comes_alone(each, calls)]
        has_two_sides = len({call for call, _ in calls.values()}) == 2
        found = own[0] if len(own) == 1 and has_two_sides else None
        by_script = f" A condition on the rank leads {format_ranks(found.ranks)} there." if found else ""
    if found:
        found = _only(found, in_all)
        return Diagnosis(
            "order", found.ranks, f"{_deviation_sentence('order', found)}{by_script}",
            (position_of(found.ranks, found.call), position_of(found.others, found.expected)),
            first.group, first.members, first.index, _together(found), ONE_ORDER,
        )  # fmt: skip
    ranks = tuple(sorted(cycle))
    told = "; ".join(
        f"rank {rank} for {format_ranks([other for other in waits[rank].awaited if other in waits])} in "
        f"{call_at(calls[rank][0])} (group {waits[rank].group} of {format_ranks(waits[rank].members)})"
        for rank in ranks
    )
    return Diagnosis(
        "order", ranks, f"Ranks wait for each other in different groups: {told}.",
        tuple(position_of((rank,), calls[rank][0]) for rank in ranks), first.group, first.members, first.index,
        advice=ONE_ORDER, limits=("Nothing shows which of these orders is the right one.",),
    )  # fmt: skip


def _only(found: Deviation, ranks: Collection[int]) -> Deviation:
    """The same, with only those of some ranks to blame, if there are any among them."""
    return replace(found, ranks=tuple(rank for rank in found.ranks if rank in ranks) or found.ranks)


def _comes_alone(found: Deviation, calls: Mapping[int, tuple[Operation, Operation | None]]) -> bool:
    """Whether the script lets only the ranks that deviate come to their call, or keeps only them from the other one."""
    ranks, (mine, theirs) = {*found.ranks}, (calls[side[0]][1] for side in (found.ranks, found.others))
    return (
        ranks <= ranks_kept_apart(found.call, found.expected, mine)[0]
        or ranks <= ranks_kept_apart(found.expected, found.call, theirs)[1]
    )


def _counted(rank: int, operation: Operation, messages: MessageCounts) -> str:
    """Write for which message a rank waits in a send or receive, and how many the other rank made of the other half."""
    peer = -1 if operation.peer is None else operation.peer
    sends = operation.op == "send"
    number, others = (
        messages.get((operation.op, rank, peer), 0),
        messages.get(("recv" if sends else "send", peer, rank), 0),
    )
    if sends:
        return f"rank {rank} is in its send {number:,} to rank {peer}, which has called {others:,} receives from it"
    return f"rank {rank} waits for message {number:,} from rank {peer}, which has sent {others:,} to it"


def _lost_message(waits: Mapping[int, Collective], order: CallOrder) -> Diagnosis | None:
    """Why a message does not arrive; `waits` says in which operation each rank waits for others."""
    for rank, pair in waits.items():
        operation, peer = pair.calls[rank].operation, pair.awaited[0]
        if operation.op in POINT_TO_POINT and (usual := order.usual_peer(rank, operation)) is not None:
            return _of_wrong_peer(rank, pair, usual)
    for rank, pair in waits.items():
        operation, peer = pair.calls[rank].operation, pair.awaited[0]
        if operation.op not in POINT_TO_POINT or peer not in waits:
            continue
        other = waits[peer].calls[peer].operation
        if other.op not in POINT_TO_POINT:
            return _of_other_half(rank, pair, peer, waits[peer].calls[peer], order)
        if other.peer == rank and {operation.op, other.op} == {*POINT_TO_POINT} and operation.tag != other.tag:
            return _of_tags({rank: operation, peer: other}, pair)
    return None


def _of_wrong_peer(rank: int, pair: Collective, usual: int) -> Diagnosis:
    """The diagnosis that a rank names another peer in a line than the other ranks do, each counted from itself."""
    operation = pair.calls[rank].operation
    which = "source" if operation.op == "recv" else "destination"
    does = "receive from" if operation.op == "recv" else "send to"
    sentence = (
        f"Rank {rank} waits in {call_at(operation)} for rank {operation.peer}: the wrong {which}. By the pattern "
        f"that the other ranks follow in that line, it would {does} rank {usual}."
    )
    return Diagnosis(
        "signature", (rank,), sentence, (position_of((rank,), operation),), pair.group, pair.members, pair.index,
        advice=f"Print the {which} on each rank before that line: each message needs its other half.",
    )  # fmt: skip


def _of_other_half(rank: int, pair: Collective, peer: int, instead: Call, order: CallOrder) -> Diagnosis:
    """The diagnosis that a rank waits in a send or receive, and its peer went on to a collective.

    The peer left out its half, unless this rank never made such a step before and the peer did.
    """
    call = pair.calls[rank]
    positions = (position_of((rank,), call.operation), position_of((peer,), instead.operation))
    is_usual = order.place_follows(call.operation, call.after) > 1
    if order.place_follows(instead.operation, instead.after) > 1 and not is_usual:
        sentence = f"Only rank {rank} called {call_at(call.operation)}; rank {peer}, which it waits for, is in "
        return Diagnosis(
            "missing", (rank,), f"{sentence}{call_at(instead.operation)}.", positions, pair.group, pair.members,
            pair.index, advice=MESSAGES,
        )  # fmt: skip
    half = (
        "a message that rank {} did not send" if call.operation.op == "recv" else "a receive that rank {} did not call"
    )
    return Diagnosis(
        "missing", (peer,),
        f"Rank {rank} waits in {call_at(call.operation)} for {half.format(peer)}: rank {peer} went on to "
        f"{call_at(instead.operation)}.",
        positions, pair.group, pair.members, pair.index, advice=MESSAGES,
        limits=() if is_usual else (f"Rank {rank} may also have called {call.operation.op} once too often.",),
    )  # fmt: skip


def _of_tags(calls: dict[int, Operation], pair: Collective) -> Diagnosis:
    sent, received = sorted(calls, key=lambda rank: calls[rank].op == "recv")
    sentence = (
        f"Rank {sent} sends with tag {_tag_at(calls[sent])}, but rank {received} receives with tag "
        f"{_tag_at(calls[received])}."
    )
    return Diagnosis(
        "signature", tuple(sorted(calls)), sentence,
        tuple(position_of((rank,), operation) for rank, operation in sorted(calls.items())),
        pair.group, pair.members, pair.index, advice=TAGS,
        limits=("Nothing in the record tells which of the two is right.",),
    )  # fmt: skip


def _tag_at(operation: Operation) -> str:
    return (
        f"{operation.tag} at {format_place(operation.file, operation.line)}" if operation.line else f"{operation.tag}"
    )


# What does not match where the calls alone do not show it.


def no_such_peer(blocked: Mapping[int, Collective], state: RunState) -> Diagnosis | None:
    """The diagnosis that ranks name a peer that their group does not have, such as `rank + 1` on the last rank.

    In the group of all ranks torch does not check that. A rank is stuck there if it is blocked in the call, as
    `blocked` says, or has made no call after it: over Gloo also `isend` blocks.
    """
    stuck = {
        rank: collective
        for collective in state.timeline.unfinished
        if collective.operation.op in POINT_TO_POINT
        for rank, call in collective.calls.items()
        if _is_outside(call.operation)
        and (blocked.get(rank) is collective or (call.ended is None and state.last_call[rank].number == call.number))
    }
    if not stuck:
        return None
    ranks = tuple(sorted(stuck))
    calls = {rank: stuck[rank].calls[rank].operation for rank in ranks}
    members = calls[ranks[0]].members
    them = "; ".join(f"rank {rank} called {call_at(call)} for rank {call.peer}" for rank, call in calls.items())
    return Diagnosis(
        "signature", ranks,
        f"{them[0].upper()}{them[1:]}. No such rank exists: the group has {format_ranks(members)}.",
        tuple(position_of((rank,), call) for rank, call in calls.items()), stuck[ranks[0]].group, members,
        advice=NEIGHBOR,
    )  # fmt: skip


def _is_outside(operation: Operation) -> bool:
    return operation.peer is not None and bool(operation.members) and operation.peer not in operation.members


def unseen_root_mismatch(blocked: Mapping[int, Collective], state: RunState) -> Diagnosis | None:
    """The diagnosis that ranks stay in an operation which all members have called, if only their roots can differ.

    `blocked` says in which operation each rank is that does not go on.
    """
    waits = {rank: collective for rank, collective in blocked.items() if collective.awaited}
    stuck = {
        rank: collective
        for rank, collective in blocked.items()
        if not collective.awaited and _hides_root(collective, state)
    }
    has_proof = waits or any(collective.calls[rank].failed for rank, collective in stuck.items())
    if not stuck or not has_proof or any({*waited.awaited} - {*stuck, *waits} for waited in waits.values()):
        return None
    ranks, collective = tuple(sorted(stuck)), next(iter(stuck.values()))
    operation = collective.operation
    special = tuple(sorted(singled_out([operation], in_roots=True)))
    named = f"; the script gives {format_ranks(special)} another one" if special else ""
    limit = "The record does not name roots: one of these ranks may be right, or the network is at fault."
    if special:
        limit = f"The record does not name roots. Only the script shows that {format_ranks(special)} deviates."
    return Diagnosis(
        "signature", special or ranks,
        f"{format_ranks(ranks).capitalize()} did not get out of {call_at(operation)}, which all of its members called: "
        f"they probably name different roots{named}.",
        (position_of(ranks, operation),), collective.group, collective.members, collective.index,
        advice=ADVICE["signature"], limits=(limit,),
    )  # fmt: skip


def _hides_root(collective: Collective, state: RunState) -> bool:
    """True if it has a root that the record does not name, and all of its members are known.

    Gloo's dumps show who is in a group only once each member has used it.
    """
    is_known = collective.index > 0 or len(collective.members) == state.ranks
    return is_known and collective.op in ROOTED and collective.operation.peer is None


def changed_request(blocked: Mapping[int, Collective], absent: tuple[int, ...], order: CallOrder) -> Diagnosis | None:
    """The diagnosis that ranks changed the shape or dtype of a call in which they wait for ranks without a record.

    Gloo ends the ranks whose tensors have no room for what they receive, so those often leave nothing.
    """
    calls: dict[int, Operation] = {
        rank: collective.calls[rank].operation
        for rank, collective in blocked.items()
        if collective.op.startswith(EQUAL_SHAPES)
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
        (position_of(ranks, operation), RankPosition(absent, "left no record")),
        collective.group, collective.members, collective.index, advice=ADVICE["signature"],
        limits=(f"{format_ranks(absent).capitalize()} left no record; the cause may also be there.",),
    )  # fmt: skip
