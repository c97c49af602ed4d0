"""Ranks that do not get out of `init_process_group` or `new_group`: who forms other groups, never comes, or is late."""

from collections.abc import Collection, Mapping
from typing import Any

from ddpquiz.diagnosis.diagnosis import (
    ADVICE,
    LONGER,
    SAME_MESH,
    Diagnosis,
    FaultKind,
    RankPosition,
    until_timeout,
    wait,
)
from ddpquiz.diagnosis.rank_status import RankStatus, what_became_of
from ddpquiz.diagnosis.root_cause import (
    failures_in_order,
    first_line,
    has_timed_out,
    is_consequence,
    raised_before_hang,
    timeout_of,
)
from ddpquiz.events.collective import Collective
from ddpquiz.events.event import JOIN, Forming, Joining, Raised
from ddpquiz.events.formatting import format_place, format_ranks
from ddpquiz.events.run_state import RunState
from ddpquiz.events.source_text import own_frame, source_line

_LONG = 5.0  # seconds that ranks may take to come to init_process_group after the others
_MOST_SIDES = 4  # that a sentence lists
_FORM_ALL = (
    "Every rank must call new_group for every group, in the same order, also for groups that it is not in. "
    "With use_local_synchronization=True, only the members call it."
)


def different_groups(state: RunState, blocked: Mapping[int, Collective]) -> Diagnosis | None:
    """Which ranks made other calls of new_group than the rest, if ranks are stuck: `blocked` says in what."""
    if not state.groups.inside and not blocked:
        return None
    if verdict := unlike_groups(state):
        return verdict
    for calls in state.groups.open.values():
        callers = {rank: call for rank, call in calls.items() if rank in state.groups.inside}
        others = {rank: collective for rank, collective in blocked.items() if rank not in calls}
        if callers and others:
            return _of_some(callers, others)
    return None


def unlike_groups(state: RunState) -> Diagnosis | None:
    """Which ranks asked for other groups than the rest, also if that did no harm."""
    groups = state.groups.open
    numbers = (number for number, calls in groups.items() if len({call.members for call in calls.values()}) > 1)
    first = min(numbers, default=None)
    return None if first is None else _of_different(first, groups)


def late_in_forming(state: RunState, statuses: Mapping[int, RankStatus], now: float) -> Diagnosis | None:
    """The diagnosis that names the rank for which others wait in new_group, or in init_process_group, until `now`."""
    failed = {rank for rank, raised in raised_before_hang(state).items() if not has_timed_out(raised)}
    inside = state.groups.inside - failed
    for calls in state.groups.open.values():
        waiting = {rank: call for rank, call in calls.items() if rank in inside}
        members = {member for call in waiting.values() for member in call.members}
        missing = members & statuses.keys() - calls.keys()  # a script may name a rank that the job does not have
        if missing:
            callers = tuple(sorted(waiting))
            first = waiting[callers[0]]
            if verdict := _of_late(missing, _position(callers, first), "new_group", statuses, state):
                return verdict
    return _late_in_joining(state, statuses, now)


def _late_in_joining(state: RunState, statuses: Mapping[int, RankStatus], now: float) -> Diagnosis | None:
    gave_up = {rank for rank, raised in state.raised.items() if has_timed_out(raised)} - state.last_call.keys()
    inside = {rank for rank in state.all_ranks if state.communicates_in(rank) == JOIN}
    stopped = {rank for rank in state.joining.keys() - state.joined if statuses[rank].kind == "late"}  # in the call
    waiting = tuple(sorted(gave_up | inside | stopped)) if gave_up | inside else ()
    missing = {*state.all_ranks} - state.joined - {*waiting} - state.last_call.keys()
    if not waiting:
        return None
    if not missing:
        return _never_meet(waiting, bool(gave_up), state, now)
    since = max(state.joining[rank].time if rank in state.joining else now for rank in waiting)
    if not gave_up and now - since < _LONG:  # the others may just be about to come
        missing = {rank for rank in missing if statuses[rank].seen or statuses[rank].kind != "late"}
    if not gave_up:
        missing = {rank for rank in missing if not statuses[rank].absent}
    file, line = state.places.get(waiting[0], ("", 0))
    return _of_late(missing, RankPosition(waiting, JOIN, file, line), JOIN, statuses, state)


def _never_meet(waiting: tuple[int, ...], gave_up: bool, state: RunState, now: float) -> Diagnosis | None:
    """The diagnosis that ranks do not get out of init_process_group although all have called it."""
    asked = {rank: joining for rank, joining in sorted(state.joining.items()) if rank in state.all_ranks}
    if not waiting or any(rank not in asked for rank in waiting):
        return None
    file, line = state.places.get(waiting[0], ("", 0))
    at = f" at {format_place(file, line)}" if line else ""
    waited = f"{_capitalized(wait(waiting))} in {JOIN}{at}"
    position = RankPosition(waiting, JOIN, file, line)
    size = max(asked[rank].size for rank in waiting)
    by_address, by_size = _sides(asked, "address"), _sides(asked, "size")
    by_rank = {rank: ranks for rank, ranks in _sides(asked, "asked_rank").items() if len(ranks) > 1}
    if len(by_address) > 1:
        where = "; ".join(f"{format_ranks(ranks)} look{'s' * (len(ranks) == 1)} for the others at {address}"
                          for address, ranks in by_address.items())  # fmt: skip
        return Diagnosis("signature", _few(by_address), f"{waited}: {where}.", (position,), advice=_ONE_ADDRESS)
    if len(asked) > 1 and next(iter(by_address), "").endswith(":0"):
        what = "all with port 0, so rank 0 listens at a port of the system's choice, which the others do not know"
        return Diagnosis("signature", tuple(asked), f"{waited}, {what}.", (position,), advice=_ONE_PORT)
    if len(by_size) > 1:
        what = "; ".join(f"{format_ranks(ranks)} ask{'s' * (len(ranks) == 1)} for {size} ranks"
                         for size, ranks in by_size.items())  # fmt: skip
        return Diagnosis("signature", _few(by_size), f"{waited}: {what}.", (position,), advice=_ONE_SIZE)
    if size > state.ranks:
        what = f"for {size} ranks, but the job has only {state.ranks}"
        return Diagnosis("signature", waiting, f"{waited} {what}.", (position,), advice=_ONE_SIZE)
    if by_rank:
        number, ranks = next(iter(by_rank.items()))
        what = f"{format_ranks(ranks)} each join as rank {number}"
        return Diagnosis("signature", tuple(ranks), f"{waited}: {what}.", (position,), advice=_ONE_RANK)
    since = max(asked[rank].time for rank in waiting)
    if not gave_up and state.hung is None and now - since < _LONG:
        return None  # they are about to meet
    address = next(iter(by_address), "")
    raised = {rank: each for rank, each in raised_before_hang(state).items() if is_consequence(each.message)}
    if failed := {rank: raised[rank] for rank in waiting if rank in raised}:
        return _of_failed(failed, address, state)
    sentence = f"{waited}, which every rank has called, and do not leave it."
    return Diagnosis("late", (), sentence, (position,), advice=advise_connecting(address), limits=(_NOT_KNOWN,))


def could_not_connect(state: RunState) -> Diagnosis | None:
    """The diagnosis that ranks found nobody where they looked for the others; what failed later follows from that.

    If no rank had called init_process_group there, only an old file can have named an address.
    """
    failed = {
        rank: raised for rank, raised in raised_before_hang(state).items()
        if "Connection refused" in raised.message and rank in state.joining.keys() - state.joined
    }  # fmt: skip
    addresses = {state.joining[rank].address for rank in failed}
    if len(addresses) != 1 or not all(is_effect for is_effect, _, _ in failures_in_order(state)):
        return None
    address = addresses.pop()
    is_known = {*state.all_ranks} <= state.joining.keys() or address.startswith("file://")
    return _of_failed(failed, address, state) if is_known else None


def _of_failed(failed: Mapping[int, Raised], address: str, state: RunState) -> Diagnosis:
    """The diagnosis that ranks raised in init_process_group because they could not connect."""
    first, ranks = min(failed), tuple(sorted(failed))
    file, line = own_frame(failed[first].traceback, state.script)
    at = f" at {format_place(file, line)}" if line else ""
    sentence = f"{_capitalized(format_ranks(ranks))} could not connect in {JOIN}{at}: "
    sentence += f"{first_line(failed[first]).rstrip('.')}."
    if still := tuple(rank for rank in state.all_ranks if rank not in failed and state.communicates_in(rank) == JOIN):
        sentence += f" {_capitalized(wait(still))} there."
    position = RankPosition(tuple(sorted((*ranks, *still))), JOIN, file, line)
    return Diagnosis(
        "unknown", (), sentence, (position,), advice=advise_connecting(address), limits=(_NOT_KNOWN,)
    )  # fmt: skip


_NOT_KNOWN = "What keeps the ranks from connecting is not known."


def advise_connecting(address: str) -> str:
    """What to do where ranks cannot connect although all of them have come; `address` is where they meet."""
    if address.startswith("file://"):
        path = address.removeprefix("file://")
        return _OLD_FILE.format(file=f"The file {path}" if path else "The file that init_method names")
    return _NETWORK


_ONE_ADDRESS = "All ranks must name the same MASTER_ADDR and MASTER_PORT, or the same init_method."
_ONE_PORT = "Give all ranks the same MASTER_PORT, one that is free on the machine of rank 0; torchrun finds one itself."
_ONE_SIZE = (
    "Take the world size from WORLD_SIZE, which the launcher sets for all ranks; `--nproc` says how many it starts."
)
_ONE_RANK = "Each rank of the job needs a number of its own: take it from RANK, which the launcher sets."
_OLD_FILE = (
    "{file} may be left from an earlier job: then the ranks look for processes that are gone. Delete it before each "
    "run, or give each run a new name. It must also lie where all ranks see it."
)
_NETWORK = (
    "Find out what keeps the ranks from connecting: a firewall, the network interface (GLOO_SOCKET_IFNAME), or an "
    "address and port that another job uses too."
)


def _sides(asked: Mapping[int, Joining], what: str) -> dict[Any, list[int]]:
    """The ranks by what they ask for; those of which that is unknown count as no side."""
    sides: dict[Any, list[int]] = {}
    for rank, joining in asked.items():
        if (value := getattr(joining, what)) not in ("", 0 if what == "size" else None):
            sides.setdefault(value, []).append(rank)
    return sides


def _few(sides: Mapping[Any, list[int]]) -> tuple[int, ...]:
    """The ranks outside the largest side; all ranks if several sides are equally large."""
    most = max(map(len, sides.values()))
    largest = [ranks for ranks in sides.values() if len(ranks) == most]
    few = [rank for ranks in sides.values() if len(largest) > 1 or ranks is not largest[0] for rank in ranks]
    return tuple(sorted(few))


def _of_late(
    missing: Collection[int], waiting: RankPosition, call: str, statuses: Mapping[int, RankStatus], state: RunState
) -> Diagnosis | None:
    """The diagnosis that ranks wait in a call for missing ranks: those that died, or else left, or else others."""
    for kind in ("dead", "left", "absent", "late"):
        culprits = tuple(sorted(rank for rank in missing if statuses[rank].kind == kind))
        if not culprits:
            continue
        status = statuses[culprits[0]]
        became = what_became_of({rank: statuses[rank] for rank in culprits})
        at = f" at {format_place(waiting.file, waiting.line)}" if waiting.line else ""
        limit = until_timeout(timeout_of(state, waiting.ranks))
        waited = f"{format_ranks(waiting.ranks)} waited" if limit else wait(waiting.ranks)
        sentence = f"{_capitalized(waited)} in {call}{at} for {format_ranks(culprits)}{limit}: {became}."
        positions = waiting, *(statuses[rank].position(rank) for rank in culprits)
        longer = f" {LONGER}" if limit and kind == "late" else ""
        return Diagnosis(status.kind, culprits, sentence, positions, advice=f"{ADVICE[kind]}{longer}")
    return None


def _of_different(number: int, of_all: Mapping[int, Mapping[int, Forming]]) -> Diagnosis:
    """The diagnosis that the k-th calls of the ranks ask for different groups.

    Ranks whose call is the next one of others have left one out; otherwise the majority decides.
    """
    calls, following = of_all[number], of_all.get(number + 1, {})
    sides: dict[tuple[int, ...], list[int]] = {}
    for rank, call in sorted(calls.items()):
        sides.setdefault(call.members, []).append(rank)
    early = [rank for rank, call in calls.items()
             if any(following_call.members == call.members and calls[other].members != call.members
                    for other, following_call in following.items() if other in calls)]  # fmt: skip
    if len(early) == len(calls):
        early = []  # each called first what another one called next: the order differs
    most = max(map(len, sides.values()))
    few = [rank for ranks in sides.values() for rank in ranks if len(ranks) < most]
    same_line = len({(call.file, call.line) for call in calls.values()}) == 1
    fault: FaultKind = "missing" if early else "signature" if same_line else "order"
    texts = [f"{format_ranks(ranks)} called {_call(calls[ranks[0]])}" for ranks in sides.values()]
    more = f"; and {len(texts) - _MOST_SIDES} more" if len(texts) > _MOST_SIDES else ""
    sentence = f"{_capitalized(texts[0])}, but {'; '.join(texts[1:_MOST_SIDES])}{more}."
    if early and len(sides) == 2:
        left_out = next(calls[rank] for rank in calls if rank not in early)
        sentence = f"{_capitalized(format_ranks(early))} did not call {_call(left_out)}, but {_call(calls[early[0]])}."
    positions = tuple(_position(tuple(ranks), calls[ranks[0]]) for ranks in sides.values())
    is_mesh = same_line and any(name in source_line(*_place(calls)) for name in ("init_device_mesh", "DeviceMesh("))
    return Diagnosis(
        fault, tuple(sorted(early or few or calls)), sentence, positions, index=number,
        advice=SAME_MESH if is_mesh else _FORM_ALL,
    )  # fmt: skip


def _place(calls: Mapping[int, Forming]) -> tuple[str, int]:
    """The line of the first of some calls."""
    first = calls[min(calls)]
    return first.file, first.line


def _of_some(callers: Mapping[int, Forming], others: Mapping[int, Collective]) -> Diagnosis:
    """The diagnosis that some ranks wait in new_group while others wait in an operation, and so never call it."""
    forming, rest = tuple(sorted(callers)), tuple(sorted(others))
    few, first = len(forming) < len(rest), callers[forming[0]]
    at = others[rest[0]].calls[rest[0]].operation
    sentence = f"{'only ' * few}{format_ranks(forming)} called {_call(first)}; {format_ranks(rest)} went on to {at.op}"
    positions = (_position(forming, first), RankPosition(rest, at.op, at.file, at.line))
    return Diagnosis(
        "missing", forming if few else rest, f"{_capitalized(sentence)} at {format_place(at.file, at.line)}.",
        positions, advice=_FORM_ALL,
    )  # fmt: skip


def _call(event: Forming) -> str:
    return f"{_request(event)} at {format_place(event.file, event.line)}"


def _request(event: Forming) -> str:
    return f"new_group for {format_ranks(event.members)}"


def _position(ranks: tuple[int, ...], event: Forming) -> RankPosition:
    return RankPosition(ranks, _request(event), event.file, event.line)


def _capitalized(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
