"""The page of `ddpquiz stats`: figures as text, with bars and colors added where there is room."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from ddpquiz.learning.lab_passes import LabStanding
from ddpquiz.learning.mastery import MEANING, WORDS, Label, Strength
from ddpquiz.learning.statistics import AHEAD, LATELY, Band, Day, Misled, Recall, Share, Statistics
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.pages.lists import one_line

_WEEKS = 16
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HEAT = ((0, "·", "quiet"), (1, "░", "good"), (10, "▒", "good"), (30, "▓", "good"), (60, "█", "good"))
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_BAR = 20  # cells of a strength
_FEW = 20  # with fewer recalls, the share is not compared with the goal
_MOST = 5  # wrong answers that are listed
_TIMES = {1: "once", 2: "twice"}
_STYLES = {Label.STRONG: "good", Label.WEAK: "bad", Label.FAIR: "warn", Label.UNKNOWN: "quiet"}
_NOTHING = "Nothing has been studied yet. `ddpquiz study` starts with the first card, `ddpquiz test` with questions."


@dataclass(frozen=True, slots=True)
class Stats:
    """The page, as wide as the screen allows."""

    now: Statistics

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _page(self.now, options.max_width)


def _page(now: Statistics, width: int) -> RenderableType:
    if not now.days:
        return prose(_NOTHING)
    inside = width - 2
    parts: list[RenderableType] = [Text("Where you stand", style="head"), Text(), _days(now)]
    parts += section(f"Recalled (your goal is {now.wanted:.0%})", *_recalls(now))
    parts += section("Cards coming due", _forecast(now, inside))
    parts += section("Study days", *_heat(now.days, now.day, inside))
    if now.sure:
        parts += section("How sure you were, and how often you were right", columns(map(_sure, now.sure)))
    parts += section("Concepts, weakest first, then those without a verdict", *_strengths(now, inside))
    if now.labs:
        parts += section("Labs that you passed", columns(map(_lab, now.labs)))
    if now.misled:
        title = "Your most frequent wrong answers, and why they are wrong"
        parts += section(title, columns(map(_misled, now.misled[:_MOST])))
    return Group(*parts)


def _lab(lab: LabStanding) -> tuple[Text, Text, Text]:
    how = "after its solution was seen" if lab.credit < 1 else ""
    stars = Text("★" * len(lab.stars) + (f" {', '.join(lab.stars)}" if lab.stars else ""), style="warn")
    return (
        Text(plain(lab.lab)),
        Text(f"{lab.passed}", style="quiet"),
        Text.assemble(stars, (f" {how}" if how else "", "quiet")),
    )


def duration(seconds: float) -> str:
    """A time as short text: `40 s`, `12 min`, `2 h 05 min`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def streak(days: int) -> str:
    """The number of study days in a row, as text."""
    return (
        f"{plural(days, 'day')}{' in a row' * (days > 1)}"
        if days
        else "none yet; one card or question today starts a streak"
    )


def _days(now: Statistics) -> RenderableType:
    each = now.seconds / len(now.days)
    done = sum(day.done for day in now.days.values())
    what = plural(done, "card, question or step", "cards, questions and steps of lessons")
    rows = [
        ("Streak", f"{streak(now.streak)} (longest: {now.longest})"),
        (
            "Done",
            f"{what} on {plural(len(now.days), 'day')}",
        ),
        ("Time", f"{duration(now.seconds)}, {duration(each)} per study day"),
    ]
    return columns((Text(name, style="quiet"), Text(words)) for name, words in rows)


def _recalls(now: Statistics) -> list[RenderableType]:
    if not now.ever.all.of:
        return [Text("No card has come back on a later day yet.", style="quiet")]
    rows = [(Text(), Text(f"last {LATELY} days", style="quiet"), Text("ever", style="quiet"))]
    for name in ("young", "mature", "all"):
        lately, ever = (_share(getattr(recall, name)) for recall in (now.lately, now.ever))
        rows.append((Text(name), lately, ever))
    legend = "Mature: cards with intervals of three weeks or more. In brackets: the 95% interval."
    return [
        columns(rows),
        Text(legend, style="quiet"),
        *([_judged(now.lately, now.wanted)] if now.lately.all.of >= _FEW else []),
    ]


def _judged(recall: Recall, wanted: float) -> Text:
    """Draw whether the share recalled differs from the goal by more than chance."""
    if recall.all.high < wanted:
        advice = "Below your goal: fewer new cards per day help, and so does `ddpquiz optimize`."
        return prose(advice, "warn")
    if recall.all.low > wanted:
        return prose("Above your goal: `ddpquiz optimize` fits the intervals to you.", "good")
    return Text("About as many as you aim for.", style="good")


def _share(share: Share) -> Text:
    """Draw a share with its interval and its number of recalls."""
    if share.value is None:
        return Text("-", style="quiet")
    return Text.assemble(f"{share.value:.0%}", (f" ({share.low:.0%} to {share.high:.0%}) of {share.of:,}", "quiet"))


def _forecast(now: Statistics, width: int) -> RenderableType:
    """Draw one column per day, today first: its bar, its count, and its name."""
    counts = (now.due, *now.ahead)
    again = [Text(f"{plural(now.again, 'card')} to repeat today")] if now.again else []
    if not any(counts):
        return Group(Text(f"None now, and none in the next {AHEAD} days.", style="quiet"), *again)
    cell = max(4, len(f"{max(counts)}") + 1)
    counts = counts[: max(1, width // cell)]
    names = ["now", *(_DAYS[(now.day.weekday() + ahead) % 7] for ahead in range(1, len(counts)))]
    most = max(1, *counts) if len(counts) > 1 else max(1, counts[0])
    bars = (_EIGHTHS[-(-count * 8 // most)] * 3 for count in counts)
    lines = [Text("".join(f"{word:<{cell}}" for word in row).rstrip()) for row in (bars, map(str, counts), names)]
    lines[0].stylize("accent")
    lines[2].stylize("quiet")
    return Group(*lines, *again)


def _heat(days: Mapping[date, Day], today: date, width: int) -> list[RenderableType]:
    """Draw one column per week, this week last; darker glyphs mean more."""
    weeks = max(1, min(_WEEKS, (width - 4) // 2))
    first = today - timedelta(days=today.weekday() + 7 * (weeks - 1))
    months, at = Text(" " * 4, style="quiet"), -1
    for week in range(weeks):
        monday = first + timedelta(days=7 * week)
        if len(months) <= 4 + 2 * week:
            named = monday.month != at and 4 + 2 * week + 3 <= 4 + 2 * weeks + 1
            months.append(_MONTHS[monday.month - 1] + " " if named else "  ")
            at = monday.month if named else at
    lines: list[RenderableType] = [months]
    for weekday in range(7):
        line = Text(f"{_DAYS[weekday]} ", style="quiet") if weekday % 2 == 0 else Text(" " * 4)
        for week in range(weeks):
            day = first + timedelta(days=7 * week + weekday)
            glyph, style = _glyph(days[day].done if day in days else 0) if day <= today else (" ", "")
            line.append(f"{glyph} ", style=style)
        line.rstrip()
        lines.append(line)
    legend = "  ".join(f"{glyph} {low or 'none'}{' or more' * (low == _HEAT[-1][0])}" for low, glyph, _ in _HEAT)
    return [*lines, Text(f"    {legend}" if width >= 50 else legend, style="quiet")]


def _glyph(done: int) -> tuple[str, str]:
    return next((glyph, style) for low, glyph, style in reversed(_HEAT) if done >= low)


def _sure(sure: Band) -> tuple[Text, Text]:
    off = ""
    if not sure.share.low <= sure.said <= sure.share.high:  # by more than chance
        off = " · overconfident" if sure.share.low < sure.said else " · underconfident"
    return Text(f"{sure.said:.0%} sure"), Text.assemble("right ", _share(sure.share), (off, "warn"))


def _strengths(now: Statistics, width: int) -> list[RenderableType]:
    rows: list[list[RenderableType]] = []
    for concept, strength in now.strengths:
        label = Text(strength.label.words, style=_STYLES[strength.label])
        share = Text(strength.share, style="quiet")
        bar: list[RenderableType] = [_bar(strength)] if width >= 60 else []
        rows.append([label, *bar, share, Text(plain(concept.title))])
    untested = Text(f"{plural(now.untested, 'concept')} not tested yet: ddpquiz test CONCEPT", style="quiet")
    tested: list[RenderableType] = [columns(rows), Text(f"{MEANING} {WORDS}", style="quiet")] if rows else []
    return [*tested, *([untested] if now.untested else [])]


def _bar(strength: Strength) -> Text:
    """Draw the interval of a strength, with its mean."""
    low, mean, high = (min(_BAR - 1, int(share * _BAR)) for share in (strength.low, strength.mean, strength.high))
    cells = "".join("●" if at == mean else "━" if low <= at <= high else "·" for at in range(_BAR))
    return Text(cells, style=_STYLES[strength.label])


def _misled(misled: Misled) -> tuple[Text, RenderableType]:
    see = f"ddpquiz demo {misled.demo}" if misled.demo else f"ddpquiz show {misled.question}"
    parts = one_line(misled.ask), one_line(f"your answer: {misled.given}"), prose(misled.why)
    times = _TIMES.get(misled.times, f"{misled.times} times")
    return Text(times, style="bad"), Group(*parts, Text(plain(see), style="code"))
