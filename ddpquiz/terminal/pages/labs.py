"""The list of labs, by track: which are new, begun and passed, with stars, minutes and what each needs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.lab import Lab
from ddpquiz.learning.lab_passes import LabStanding
from ddpquiz.terminal.kit.layout import columns, counted, indented, section
from ddpquiz.terminal.kit.style import plain

_NEXT = (
    ("ddpquiz lab NAME", "write the file, and have each save checked"),
    ("ddpquiz lab NAME --check", "check the file once"),
)


@dataclass(frozen=True, slots=True)
class LabProgress:
    """What a learner did with the labs: standings by name, and the names of those with a file."""

    standings: Mapping[str, LabStanding]
    begun: Collection[str]

    def state(self, lab: Lab) -> str:
        standing = self.standings.get(lab.id)
        if standing and standing.passed:
            return "passed"
        return "begun" if lab.id in self.begun else "new"


def labs(catalog: Catalog, known: Sequence[Lab], progress: LabProgress) -> Group:
    """Draw the labs, which are in the order of their concepts, by the tracks of these."""
    track_of = {concept.id: concept.track for concept in catalog.concepts}
    parts: list[RenderableType] = []
    width = max((len(lab.id) for lab in known), default=0)
    for track in catalog.tracks:
        here = [lab for lab in known if track_of.get(lab.concept) == track.id]
        if here:
            rows = [part for lab in here for part in _rows(lab, width, progress)]
            parts += section(plain(track.title), *rows)
    passed = sum(progress.state(lab) == "passed" for lab in known)
    minutes = sum(lab.minutes for lab in known)
    time = f"about {minutes / 60:.0f} hours" if minutes > 90 else f"about {minutes} minutes"
    total = f"{counted(len(known), 'lab')} · {passed} passed · {time}"
    commands = columns((Text(command, style="code"), Text(what)) for command, what in _NEXT)
    stars = Text("Stars are further targets, such as fewer bytes: ☆ not yet met, ★ met.", style="quiet")
    return Group(Text(total), commands, stars, *parts)


def _rows(lab: Lab, width: int, progress: LabProgress) -> list[RenderableType]:
    mark = {"passed": ("✓ passed", "good"), "begun": ("· begun ", "warn"), "new": ("  new   ", "quiet")}
    standing = progress.standings.get(lab.id)
    stars = "★" * len(standing.stars if standing else ()) + "☆" * len(lab.stars)
    shown = Text.assemble(
        mark[progress.state(lab)], "  ", (lab.id.ljust(width), "code"), "  ", (f"{lab.minutes:2} min ", "quiet"),
        (stars[: len(lab.stars)].ljust(2), "warn"), "  ", plain(lab.title),
    )  # fmt: skip
    shown.no_wrap, shown.overflow = True, "ellipsis"
    needs = Text(f"after {', '.join(lab.needs)}", style="quiet")
    return [shown, indented(needs, 10)] if lab.needs else [shown]
