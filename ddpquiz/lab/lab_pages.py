"""What a learner reads about labs: their list, a task, hints, the verdict on a file, and the solution beside it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.lab import Lab
from ddpquiz.events.event import RankStack
from ddpquiz.events.formatting import format_ranks
from ddpquiz.lab.verdict import LabFigure, LabVerdict
from ddpquiz.learning.lab_passes import LabStanding
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.layout import columns, indented, section, shown_path
from ddpquiz.terminal.kit.style import code, plain, prose

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
    total = f"{plural(len(known), 'lab')} · {passed} passed · {time}"
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


_WIDE = 110  # columns that two files side by side need


def task(lab: Lab, file: Path) -> RenderableType:
    """Draw the task of a lab, and where the learner's file is."""
    return Group(head(lab), path_of(file), Text(), task_text(lab))


def path_of(file: Path) -> Text:
    """Draw the path of the learner's file."""
    return Text.assemble(("your file  ", "quiet"), (plain(shown_path(file)), "code"))


def task_text(lab: Lab) -> RenderableType:
    """Draw the text of a task."""
    from ddpquiz.terminal.kit.markdown import markdown

    return markdown(lab.task)


def head(lab: Lab) -> Text:
    """Draw the title of a lab, how long it takes, and its concept."""
    return Text.assemble((plain(lab.title), "head"), (f"  about {lab.minutes} minutes · {lab.concept}", "quiet"))


def hint(lab: Lab, number: int) -> RenderableType:
    """Draw the `number`-th hint, from 1."""
    return Group(Text(f"Hint {number} of {len(lab.hints)}", style="title"), indented(prose(lab.hints[number - 1])))


def verdict(
    lab: Lab, file: Path, found: LabVerdict, figures: Sequence[LabFigure] = (), before: LabVerdict | None = None
) -> list[RenderableType]:
    """Draw a verdict: what is wrong, what each rank found, who waits where; or what passed, its figures and stars.

    `before` is the verdict on the try before a pass.
    """
    if found.passed:
        return _passed(lab, found, figures, before)
    mark = ("▸ ", "accent") if found.outcome == "unwritten" else ("✗ ", "bad")  # nothing is wrong with a starter
    parts: list[RenderableType] = [Text.assemble(mark, plain(found.sentence))]
    if found.advice:
        parts.append(Text(plain(found.advice), style="quiet"))
    if found.values:
        said = {text: "as above" for text in found.values.values() if f", {text}." in found.sentence}
        parts += [Text(), _by_ranks((rank, said.get(text, text)) for rank, text in sorted(found.values.items()))]
    if found.waits:
        parts += [Text(), _by_ranks((each.rank, _where(each, file)) for each in found.waits)]
    if found.outcome != "unwritten" and found.line and (line := _line_of(file, found.line)):
        parts += [Text(), Text.assemble((f"{found.line:5}  ", "quiet"), (plain(line), "code"))]
    return parts


def repeat(found: LabVerdict) -> list[RenderableType]:
    """Draw the command that repeats the run that failed, on a line of its own."""
    if not found.repeat or found.outcome == "unwritten":
        return []
    what = "Repeat the check:" if found.repeat.startswith("ddpquiz") else "Repeat this run:"
    return [Text(), Text(what, style="quiet"), code(found.repeat)]


def _passed(
    lab: Lab, found: LabVerdict, figures: Sequence[LabFigure], before: LabVerdict | None
) -> list[RenderableType]:
    tried = ""
    if before and before.runs:
        tried = f"; the try before {'passed' if before.passed else 'failed'} after {_ran(before)}"
    parts: list[RenderableType] = [Text.assemble(("✓ ", "good"), f"It passes: {_ran(found)}{tried}.")]
    if lab.stars:
        parts.append(Text("A star is for a solution that does more than the task asks:", style="quiet"))
    for star in lab.stars:
        met = star.name in found.stars
        mark = ("★ ", "warn") if met else ("☆ ", "quiet")
        parts.append(Text.assemble(mark, plain(f"{star.name}: {star.say}"), "" if met else " (not met)"))
    if used := [each for each in figures if each.yours or each.reference]:  # some labs send nothing at all
        top = [Text(word, style="quiet") for word in ("", "yours", "the reference")]
        where = f"What the busiest of {plural(found.ranks, 'rank')} did in the last run, in all of its cases together"
        parts += section(where, columns([top, *map(_figure, used)]), Text(_otherwise(used), style="quiet"))
    held = [prose(claim) for claim in dict.fromkeys(lab.claims)]
    if lab.budgets:
        held.append(prose(f"within the budgets: {', '.join(budget.name for budget in lab.budgets)}"))
    if held:
        parts += section("What was checked", columns((Text("✓", style="good"), each) for each in held))
    return parts


def _ran(found: LabVerdict) -> str:
    return f"{plural(found.runs, 'run')} in {found.seconds:.1f} s"


def _otherwise(figures: Sequence[LabFigure]) -> str:
    """What the reference solution does otherwise, as far as figures tell."""
    lower = ", ".join(each.name for each in figures if each.reference < each.yours)
    higher = ", ".join(each.name for each in figures if each.reference > each.yours)
    differs = "; ".join(filter(None, [f"lower in {lower}" * bool(lower), f"higher in {higher}" * bool(higher)]))
    return f"The reference is {differs}." if differs else "The reference has the same figures."


def _figure(figure: LabFigure) -> list[Text]:
    one = figure.unit.removesuffix("s")
    amounts = [Text(plural(round(amount), one)) for amount in (figure.yours, figure.reference)]
    return [Text(figure.name, style="quiet"), *amounts]


def _by_ranks(rows: Iterable[tuple[int, str]]) -> RenderableType:
    """What is said of each rank, once for the ranks of which the same is said."""
    ranks: dict[str, list[int]] = {}
    for rank, text in rows:
        ranks.setdefault(text, []).append(rank)
    return columns((Text(format_ranks(those), style="quiet"), Text(plain(text))) for text, those in ranks.items())


def _where(rank: RankStack, file: Path) -> str:
    place = f"line {rank.line}" if rank.file == str(file.absolute()) else f"{Path(rank.file).name}, line {rank.line}"
    if rank.waits_in:
        return f"waiting in {rank.waits_in}, {place}"
    return f"not waiting; at {place}" if rank.line else "ended"


def _line_of(file: Path, line: int) -> str:
    try:
        lines = file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return lines[line - 1].strip() if line <= len(lines) else ""


def solution(lab: Lab, file: Path, width: int) -> RenderableType:
    """Draw the solution: beside the learner's file if there is room for both, else alone."""
    from ddpquiz.terminal.kit.highlight import python

    theirs = python(lab.solution.source)
    try:
        yours = python(file.read_text("utf-8", errors="replace"))
    except OSError:
        yours = None
    if yours is None or width < _WIDE:
        return Group(Text("The solution", style="title"), Text(), theirs)
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(Text("Yours", style="title"), Text("The solution", style="title"))
    table.add_row(yours, theirs)
    return table
