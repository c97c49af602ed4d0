"""What NCCL's RAS says of the communicators of a job that runs: `ncclras -f json`, from NCCL 2.28.7.

The form is that of `client_support.cc` in NCCL's sources. Each file is one look; its ranks count within a communicator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpquiz.errors import UserError
from ddpquiz.events.operation import MAX_LOGGED_RANKS

_BETWEEN_TWO = ("Send", "Recv", "SendRecv", "PutSignal", "Signal", "WaitSignal")  # ranks call these differently often


@dataclass(frozen=True, slots=True)
class CommunicatorRank:
    """A rank that answered: its machine and process, and how many collectives it has called, by operation."""

    rank: int
    process: tuple[str, int]
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class MissingRank:
    """A rank that did not answer; RAS considers some of them dead."""

    rank: int
    process: tuple[str, int]
    is_dead: bool


@dataclass(frozen=True, slots=True)
class Communicator:
    """A communicator in one look, which stands in the file `at`."""

    name: str
    size: int
    ranks: tuple[CommunicatorRank, ...]
    missing: tuple[MissingRank, ...]
    at: str


@dataclass(frozen=True, slots=True)
class RasReport:
    """The looks of RAS at each communicator, oldest first, the largest communicator first."""

    looks: tuple[tuple[Communicator, ...], ...]

    @property
    def ranks(self) -> int:
        """How many ranks the job has, if one communicator holds all of them."""
        return self.looks[0][-1].size if self.looks else 0


def holds_ras(head: bytes) -> bool:
    """Whether a file that begins like this is a report of RAS."""
    return head.lstrip()[:1] == b"{" and b'"communicators_count"' in head


def read_ras(paths: Sequence[Path], names: Sequence[str]) -> RasReport:
    """The reports in some files; UserError if one is damaged."""
    found: dict[str, list[tuple[str, Communicator]]] = {}
    for path, name in zip(paths, names, strict=True):
        try:
            values = json.loads(path.read_bytes())
            for each in values["communicators"]:
                communicator = _communicator(each, name)
                found.setdefault(communicator.name, []).append((str(values["timestamp"]), communicator))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as wrong:
            raise UserError(f"{path} is not a report of `ncclras -f json` that ddpquiz can read: {wrong!r}.") from None
    looks = (tuple(each for _, each in sorted(of_one, key=lambda look: look[0])) for of_one in found.values())
    return RasReport(tuple(sorted(looks, key=lambda of_one: -of_one[-1].size)))


def _communicator(values: Any, at: str) -> Communicator:
    ranks = tuple(
        CommunicatorRank(
            _rank(each), _process(each),
            {str(op): int(count) for op, count in each["collective_counts"].items() if op not in _BETWEEN_TWO},
        )
        for each in values["ranks"]
    )  # fmt: skip
    missing = tuple(
        MissingRank(_rank(each), _process(each), bool(each["status"]["considered_dead"]))
        for each in values["missing_ranks"]
    )
    size = int(values["size"])
    if not 0 < size <= MAX_LOGGED_RANKS:
        raise ValueError(f"a communicator of {size} ranks")
    return Communicator(f"{values['hash']}:{values['secondary_hash']}", size, ranks, missing, at)


def _rank(values: Any) -> int:
    rank = int(values["rank"])
    if not 0 <= rank < MAX_LOGGED_RANKS:
        raise ValueError(f"rank {rank}")
    return rank


def _process(values: Any) -> tuple[str, int]:
    return str(values["host"]), int(values["pid"])
