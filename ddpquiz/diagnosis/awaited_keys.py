"""Ranks that wait in a store for a key that nobody has set: which rank would set it, and where that rank is."""

from collections.abc import Collection, Mapping
from pathlib import Path

from ddpquiz.diagnosis.diagnosis import ADVICE, Diagnosis, FaultKind, RankPosition, until_timeout, wait
from ddpquiz.diagnosis.rank_status import RankStatus
from ddpquiz.diagnosis.root_cause import has_timed_out, timeout_of
from ddpquiz.diagnosis.script_analysis import lines_that_set, ranks_that_reach
from ddpquiz.events.collective import Collective
from ddpquiz.events.event import StoreWaiting
from ddpquiz.events.formatting import format_place, format_ranks
from ddpquiz.events.run_state import RunState

_LONG = 1.0  # seconds, after which a key is not just about to come
SET_THE_KEY = (
    "Let the rank that should set the key do so on every path, even where it skips the work or fails. Where all ranks "
    "wait for one of them anyway, a collective such as broadcast_object_list needs no key."
)


def waits_for_keys(state: RunState) -> dict[int, StoreWaiting]:
    """The ranks that wait in a store, or raised because a key did not come in time, and for what."""
    gave_up = {
        rank: missed for rank, missed in state.missed_keys.items()
        if rank in state.raised and has_timed_out(state.raised[rank]) and state.raised[rank].time - missed.time >= 0
        and rank not in state.store_waits and _is_last(missed, state)
    }  # fmt: skip
    return dict(sorted({**gave_up, **state.store_waits}.items()))


def _is_last(missed: StoreWaiting, state: RunState) -> bool:
    """Whether a rank called nothing after it had given up a key."""
    last = state.last_call.get(missed.rank)
    return last is None or last.time <= missed.time


def key_never_set(
    state: RunState, blocked: Mapping[int, Collective], statuses: Mapping[int, RankStatus], now: float
) -> Diagnosis | None:
    """The diagnosis that ranks wait for a key that no rank sets; None if none does, or if one died meanwhile."""
    waits = waits_for_keys(state)
    first = min(waits.values(), key=lambda each: each.time, default=None)
    if first is None or (now - first.time < _LONG and first.rank in state.store_waits):
        return None
    ranks = tuple(rank for rank, each in waits.items() if each.keys == first.keys)
    others = tuple(rank for rank in state.all_ranks if rank not in ranks)
    setters = _setters(first, state)
    named = tuple(rank for rank in others if any(rank in reach for _, reach in setters.items()))
    is_known = bool(named) and all(reach != state.all_ranks for reach in setters.values())
    asked = named if is_known else others
    if any(statuses[rank].kind in ("dead", "absent") for rank in asked):
        return None
    missed = tuple(rank for rank in asked if rank in blocked or statuses[rank].kind == "left" or rank in waits)
    running = tuple(rank for rank in asked if rank not in missed)
    fault: FaultKind = "late" if running else "missing"
    culprits = running or missed
    if len(culprits) > 1 and not is_known:
        culprits = ()
    positions = [_position(ranks, first), *(_where(rank, blocked, waits, statuses) for rank in asked)]
    return Diagnosis(
        fault, culprits, " ".join(_sentences(ranks, first, setters, positions[1:], state)), tuple(positions),
        advice=_advice(fault, timeout_of(state, ranks)),
        limits=() if culprits else ("Which rank should set it is not known.",),
    )  # fmt: skip


def _advice(fault: FaultKind, seconds: float) -> str:
    longer = " If it needs that long, let the others wait for longer: `timeout` of that call." if seconds else ""
    return f"{ADVICE['late']}{longer}" if fault == "late" else SET_THE_KEY


def _sentences(
    ranks: tuple[int, ...], first: StoreWaiting, setters: Mapping[tuple[str, int], tuple[int, ...]],
    others: Collection[RankPosition], state: RunState,
) -> list[str]:  # fmt: skip
    keys = ", ".join(f'"{key}"' for key in first.keys)
    one = "it" if len(first.keys) == 1 else "all of them"
    what = f"the key{'s' * (len(first.keys) > 1)} {keys}"
    limit = until_timeout(timeout_of(state, ranks))
    waited = f"{format_ranks(ranks)} waited" if limit else wait(ranks)
    at = format_place(first.file, first.line)
    unset = f"{limit}; no rank had set {one}" if limit else f", and no rank has set {one}"
    said = [f"{waited[0].upper()}{waited[1:]} in {first.op} at {at} for {what}{unset}."]
    places = [
        f"{format_place(*place)}" + (f" on {format_ranks(reach)}" if reach != state.all_ranks else "")
        for place, reach in setters.items()
    ]
    said.append(f"The script sets it at {', '.join(places)}." if places else "No line of the script names that key.")
    alike: dict[tuple[str, str, int], list[int]] = {}
    for each in others:
        alike.setdefault((each.doing, each.file, each.line), []).extend(each.ranks)
    for (doing, file, line), those in alike.items():
        place = f" at {format_place(file, line)}" if line else ""
        who = format_ranks(those)
        said.append(f"{who[0].upper()}{who[1:]} {_verb(doing, len(those) > 1)}{place}.")
    return said


def _verb(doing: str, is_plural: bool) -> str:
    if not is_plural:
        return doing
    return doing.replace("has ", "have ", 1).replace("was ", "were ", 1).replace("waits ", "wait ", 1)


def _setters(first: StoreWaiting, state: RunState) -> dict[tuple[str, int], tuple[int, ...]]:
    """The lines that set one of the keys, and the ranks that come there as far as the script tells."""
    named = (file for file in (first.file, state.script, *_own_files(state)) if file)
    files = {Path(file).resolve(): file for file in named}.values()  # the script is named as the user did
    places = ((file, line) for file in files for key in first.keys for line in lines_that_set(file, key))
    return {place: ranks_that_reach(*place, state.all_ranks) for place in places}


def _own_files(state: RunState) -> list[str]:
    return [file for file, _, _ in state.timeline.costs.lines]


def _position(ranks: tuple[int, ...], event: StoreWaiting) -> RankPosition:
    return RankPosition(ranks, f"{event.op} for {', '.join(event.keys)}", event.file, event.line)


def _where(
    rank: int, blocked: Mapping[int, Collective], waits: Mapping[int, StoreWaiting], statuses: Mapping[int, RankStatus]
) -> RankPosition:
    """What became of a rank that might have set the key."""
    status = statuses[rank]
    if rank in blocked:
        operation = blocked[rank].calls[rank].operation
        return RankPosition((rank,), f"went on to {operation.op}", operation.file, operation.line)
    if rank in waits:
        other = waits[rank]
        return RankPosition((rank,), f"waits in {other.op} for {', '.join(other.keys)}", other.file, other.line)
    if status.kind == "left" and not status.cut_short:
        return RankPosition((rank,), "has finished without that")
    tells = status.cut_short or status.words.startswith(("waits", "does"))
    words = status.words + status.then if tells else "was last seen"
    return RankPosition((rank,), words if status.line else "has not come there", status.file, status.line)
