"""What NCCL's RAS says of a job that runs: ranks that do not answer, and ranks that have called fewer collectives."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Literal

from ddpquiz.diagnosis.diagnosis import ADVICE, Diagnosis, RankPosition
from ddpquiz.events.formatting import format_ranks
from ddpquiz.jobs.ras import Communicator, CommunicatorRank, RasReport
from ddpquiz.plural import plural

_ONE_LOOK = (
    "One report shows one moment: the counts of a job that works differ for a moment, too. Ask RAS again some seconds "
    "later, and name both files."
)
_STILL = "Between two reports, no rank of it has called a collective."


def diagnose_ras(report: RasReport) -> Diagnosis:
    """Which ranks are missing or behind in a communicator, the largest first."""
    whole = report.looks[0][-1] if report.looks else None
    named = _ranks_of(whole) if whole else {}
    moves = False
    for looks in report.looks:
        last = looks[-1]
        names = {rank: rank if last is whole else named.get(process, -1) for process, rank in _ranks_of(last).items()}
        if dead := [names[each.rank] for each in last.missing if each.is_dead]:
            return _missing("dead", dead, last)
        if last.missing:
            return _missing("absent", [names[each.rank] for each in last.missing], last)
        if len(looks) > 1 and _has_moved(looks[-2], last):
            moves = True
        elif behind := _behind(last.ranks):
            limit = _STILL if len(looks) > 1 else _ONE_LOOK
            return _late(behind, names, last, limit)
    sentence = f"RAS shows no rank that is missing or behind, in {plural(len(report.looks), 'communicator')}."
    if moves:
        sentence = "The job moves: between two reports of RAS, ranks have called collectives."
    return Diagnosis("quiet", (), sentence, advice="`ddpquiz where` on its machines shows where the ranks stand.")


def add_ras(found: Diagnosis | None, report: RasReport) -> Diagnosis:
    """A verdict on other evidence, if there is any, together with what RAS says."""
    said = diagnose_ras(report)
    if found is None or (found.fault in ("quiet", "unknown", "none", "stopped") and said.fault != "quiet"):
        return said if found is None else replace(said, limits=(*said.limits, found.sentence))
    if said.fault == "quiet":
        return found
    if {*said.culprits} & {*found.culprits}:
        return replace(found, evidence=(*found.evidence, *said.evidence))
    limits = (*found.limits, f"RAS by itself says: {said.sentence}")
    return replace(found, limits=limits, evidence=(*found.evidence, *said.evidence))


def _ranks_of(communicator: Communicator) -> dict[tuple[str, int], int]:
    """The rank of each process in a communicator."""
    ranks = {each.process: each.rank for each in communicator.ranks}
    return ranks | {each.process: each.rank for each in communicator.missing}


def _has_moved(first: Communicator, last: Communicator) -> bool:
    before = {each.rank: each.counts for each in first.ranks}
    return any(each.counts != before.get(each.rank, each.counts) for each in last.ranks)


def _behind(ranks: Collection[CommunicatorRank]) -> tuple[str, int, list[CommunicatorRank]] | None:
    """The operation that some ranks have called less often than others, how often those have, and these ranks."""
    for op in sorted({op for each in ranks for op in each.counts}):
        most = max(each.counts.get(op, 0) for each in ranks)
        fewer = [each for each in ranks if each.counts.get(op, 0) < most]
        if fewer:
            return op, most, fewer
    return None


def _late(
    behind: tuple[str, int, list[CommunicatorRank]], names: dict[int, int], last: Communicator, limit: str
) -> Diagnosis:
    op, most, fewer = behind
    least = min(each.counts.get(op, 0) for each in fewer)
    culprits = _known(names[each.rank] for each in fewer)
    who = format_ranks(culprits).capitalize() if culprits else plural(len(fewer), "rank").capitalize()
    be, whose = ("is", "it has") if len(fewer) == 1 else ("are", "the last of them has")
    sentence = (
        f"{who} {be} behind in a communicator of {last.size} ranks: {whose} called {op} {plural(least, 'time')}, and "
        f"others {plural(most, 'time')}."
    )
    return Diagnosis(
        "late", culprits, sentence,
        (RankPosition(culprits, f"has called {op} {plural(least, 'time')}"),) if culprits else (),
        advice=f"{ADVICE['late']} `ddpquiz where` on its machine shows its line.", limits=(limit,),
        evidence=(f"{last.at}: {sentence}",),
    )  # fmt: skip


def _missing(fault: Literal["dead", "absent"], ranks: Collection[int], last: Communicator) -> Diagnosis:
    culprits = _known(ranks)
    who = format_ranks(culprits).capitalize() if culprits else plural(len(ranks), "rank").capitalize()
    be = "does" if len(ranks) == 1 else "do"
    dead = f", and RAS considers {'it' if len(ranks) == 1 else 'them'} dead" if fault == "dead" else ""
    sentence = f"{who} {be} not answer in a communicator of {last.size} ranks{dead}."
    return Diagnosis(fault, culprits, sentence, advice=ADVICE[fault], evidence=(f"{last.at}: {sentence}",))


def _known(ranks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(rank for rank in ranks if rank >= 0))
