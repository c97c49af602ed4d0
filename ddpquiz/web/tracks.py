"""What changes from step to step, stored so that a page can show any step at once and stays small."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class SlotHistory:
    """The steps at which the value of a slot changed, and the places of its values in a table."""

    steps: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class Tracks:
    """The value of each slot over the steps of a run. Slots of one kind, the word before the dot, share a table."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Any, int]] = {}
        self._slots: dict[str, SlotHistory] = {}
        self._last: dict[str, Any] = {}

    def set(self, slot: str, step: int, value: Any) -> None:
        """Note the value of a slot at a step; values are texts, numbers, None, and tuples of these."""
        if slot in self._last and self._last[slot] == value:
            return
        self._last[slot] = value
        table = self._tables.setdefault(slot.partition(".")[0], {})
        history = self._slots.setdefault(slot, SlotHistory())
        history.steps.append(step)
        history.places.append(table.setdefault(value, len(table)))

    def as_json(self) -> dict[str, Any]:
        """Return tables and slots, with numbers that compress well."""
        return {
            "tables": {kind: list(table) for kind, table in self._tables.items()},
            "slots": {
                slot: [differences(history.steps), advances(history.places)] for slot, history in self._slots.items()
            },
        }


def advances(places: list[int]) -> list[int]:
    """Return by how much each place exceeds all before it; one that does not becomes -1 - place."""
    found, top = [], -1
    for place in places:
        found.append(place - top if place > top else -1 - place)
        top = max(top, place)
    return found


def differences(numbers: list[int]) -> list[int]:
    """Return the first number, then for each further one its difference from the one before."""
    return [after - before for before, after in zip([0, *numbers], numbers, strict=False)]
