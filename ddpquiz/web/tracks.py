"""What changes from step to step, stored so that a page can show any step at once and stays small."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class SlotHistory:
    """The steps at which the value of a slot changed, and its values from then on."""

    steps: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class Tracks:
    """The value of each slot over the steps of a run. Slots of one kind, the word before the dot, share a table."""

    def __init__(self) -> None:
        self._slots: dict[str, SlotHistory] = {}

    def set(self, slot: str, step: int, value: Any) -> None:
        """Note the value of a slot at a step; values are texts, numbers, None, and tuples of these."""
        history = self._slots.setdefault(slot, SlotHistory())
        if not history.values or history.values[-1] != value:
            history.steps.append(step)
            history.values.append(value)

    def as_json(self) -> dict[str, Any]:
        """Return the tables, and for each slot its steps and the places of its values, as numbers that compress well.

        One slot after the other adds its values to its table, so that most places are one after the place before.
        """
        tables: dict[str, dict[Any, int]] = {}
        slots = {}
        for slot, history in self._slots.items():
            table = tables.setdefault(slot.partition(".")[0], {})
            places = [table.setdefault(value, len(table)) for value in history.values]
            slots[slot] = [differences(history.steps), advances(places)]
        return {"tables": {kind: list(table) for kind, table in tables.items()}, "slots": slots}


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
