"""The page of a concept: why, the lesson, commands, mistakes, what to remember, demos, and what comes next."""

import shlex
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.curriculum.catalog import LabTitle
from ddpquiz.curriculum.concept import Card, Command, Concept, DemoLink, LessonStep, Level, Mistake, Question
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.layout import Barred, bullets, columns, indented, section, spaced
from ddpquiz.terminal.kit.style import code, plain, prose
from ddpquiz.terminal.pages.item import answer_in_words, asked_view
from ddpquiz.terminal.pages.lesson_steps import diff, markdown_of, result_parts, said_of, script_notes, text_parts

A_TEST = 10  # questions of a test, unless another count is asked for


def lesson(
    concept: Concept,
    *,
    before: Sequence[Concept] = (),
    after: Sequence[Concept] = (),
    labs: Sequence[LabTitle] = (),
    here: Sequence[Text] = (),
) -> Group:
    """Draw the page of a concept; `before` are the concepts to learn first, `after` those that build on it.

    `here` is what was measured on the learner's machine.
    """
    from ddpquiz.terminal.kit.markdown import markdown

    parts: list[RenderableType] = [
        Text(plain(concept.title), style="head"),
        Text(f"{concept.track} · {concept.id}", style="quiet"),
        Text(),
        Barred(prose(concept.idea)),
    ]
    parts += section("Why", markdown(concept.why)) if concept.why else []
    if concept.in_steps:
        for number, step in enumerate(concept.steps, 1):
            parts += section(
                f"Step {number} of {len(concept.steps)}", *spaced(step_parts(step, concept.asked_in(step)))
            )
        notes = script_notes(concept.more, concept.id)
        parts += section("More", *spaced([markdown(concept.more), *notes])) if concept.more else []
    else:
        parts += section("Lesson", markdown(concept.lesson))
    if here:
        parts += section("On your machine", *here)
    if concept.commands:
        notes = script_notes("\n".join(command.run for command in concept.commands), concept.id)
        parts += section("Commands", *spaced([*map(_command, concept.commands), *notes]))
    parts += section("Mistakes", *spaced(map(_mistake, concept.mistakes))) if concept.mistakes else []
    parts += section("Remember", bullets(map(prose, concept.remember))) if concept.remember else []
    parts += section("See it run", *spaced(map(_demo, concept.demos)))
    if labs:
        rows = ((Text(plain(f"ddpquiz lab {lab.id}"), style="code"), Text(plain(_about(lab)))) for lab in labs)
        parts += section("Build it", columns(rows))
    asked = [(number, item) for number, step in enumerate(concept.steps, 1) if (item := concept.asked_in(step))]
    if asked:
        rows = ((Text(f"step {number}", style="quiet"), prose(answer_in_words(item))) for number, item in asked)
        parts += section("Answers", columns(rows))
    parts += section("Next", _next(concept, before, after))
    return Group(*parts)


def step_parts(step: LessonStep, asked: Card | Question | None) -> list[RenderableType]:
    """Draw a step to be read: its text, what it asks, its listing with what that shows, and its demo."""
    parts = text_parts(step)
    parts += [Group(*asked_view(asked))] if asked else []
    listing = step.listing
    if listing:
        printed, ended = said_of(listing.shows, listing.ranks)
        parts += result_parts(printed, "", ended=ended)
    if step.demo:
        look = [indented(prose(f"Look at {step.demo.look}."))] if step.demo.labels else []
        parts.append(Group(code(demo_command(step.demo)), *look))
    parts += [markdown_of(step.then)] if step.then else []
    if listing and listing.change:
        printed, ended = said_of(listing.change.shows, listing.ranks)
        parts += [diff(listing.change), *result_parts(printed, listing.change.then, ended=ended)]
    return parts


def demo_command(link: DemoLink) -> str:
    """The command that runs a demo with the arguments that a concept names."""
    words = ["ddpquiz", "demo", link.run]
    words += ["--nproc", str(link.ranks)] if link.ranks else []
    words += ["--", *link.args] if link.args else []
    return plain(shlex.join(words))


def _command(command: Command) -> Group:
    run = columns([(Text("$", style="quiet"), code(command.run))], gap=1)
    parts: list[RenderableType] = [run, indented(prose(command.does))]
    if command.flags:
        rows = [(Text(plain(flag), style="code"), prose(meaning)) for flag, meaning in command.flags.items()]
        parts.append(indented(columns(rows), 4))
    if command.prints:
        parts.append(indented(Barred(code(command.prints, ""), "quiet")))
    return Group(*parts)


def _mistake(mistake: Mistake) -> Table:
    return columns(
        [
            (Text("wrong", style="bad"), prose(mistake.do)),
            (Text("then", style="quiet"), prose(mistake.happens)),
            (Text("instead", style="good"), prose(mistake.instead)),
        ]
    )


def _demo(link: DemoLink) -> Group:
    parts: list[RenderableType] = [code(demo_command(link)), indented(prose(f"Look at {link.look}"))]
    if link.predict:
        parts.append(indented(Text("It first asks for a prediction.", style="quiet")))
    return Group(*parts)


def _about(lab: LabTitle) -> str:
    return f"{lab.title}, about {lab.minutes} minutes"


def _next(concept: Concept, before: Sequence[Concept], after: Sequence[Concept]) -> Table:
    levels = Counter(question.level for question in concept.questions)
    ten = f"; a test asks {A_TEST} of them" if len(concept.questions) > A_TEST else ""
    counts = ", ".join(f"{levels[level]} {level}" for level in Level if levels[level])
    rows = [
        (f"ddpquiz study {concept.id}", f"{plural(len(concept.cards), 'card')} to recall"),
        (f"ddpquiz test {concept.id}", f"{len(concept.questions)} questions: {counts}{ten}"),
        *([(f"ddpquiz explain {concept.id}", "describe it in your own words")] if concept.explain else []),
        *((f"ddpquiz learn {other.id}", f"comes before this: {other.title}") for other in before),
        *((f"ddpquiz learn {other.id}", f"builds on this: {other.title}") for other in after),
    ]
    return columns((Text(plain(command), style="code"), Text(plain(what))) for command, what in rows)
