"""Read the lesson of a concept: its steps, or the one text that a lesson was before there were steps."""

from collections.abc import Sequence

from yaml import SequenceNode

from ddpquiz.curriculum.concept import DemoLink, LessonStep, LineChange, Listing, Shows
from ddpquiz.curriculum.listing import changed_code, places_of_line
from ddpquiz.curriculum.question_reader import MOST_RANKS, mention_label, read_shows
from ddpquiz.curriculum.yaml_file import Fields, check_snippet

_DOES = ("ask", "run", "demo")  # what a step can end in


def is_in_steps(concept: Fields) -> bool:
    """Whether the lesson of a concept is a list of steps."""
    return isinstance(concept.at("lesson"), SequenceNode)


def read_steps(concept: Fields) -> tuple[LessonStep, ...]:
    """Read the key `lesson`. Complaints go to the page of the concept."""
    if not is_in_steps(concept):
        return (LessonStep(concept.text("lesson"), picture=_picture(concept)),)
    return concept.records("lesson", "a step", _step)


def picture_of_more(concept: Fields) -> str:
    """Read the key `picture` of a concept whose lesson is steps: it is of `more`."""
    if "picture" in concept and "more" not in concept:
        concept.complain("picture", "it is shown with `more`, which is missing; name it in a step")
    return _picture(concept)


def _picture(record: Fields) -> str:
    name = record.text("picture", optional=True)
    if name:
        record.page.mention("picture", name, record.at("picture"))
    return name


def demos_of_steps(steps: Sequence[LessonStep], asked: Sequence[str]) -> tuple[DemoLink, ...]:
    """The demos of steps. One that comes after a question of `asked` is predicted by it."""
    return tuple(
        DemoLink(demo.run, demo.look, demo.args, demo.ranks, step.ask if step.ask in asked else "", demo.labels)
        for step in steps
        if (demo := step.demo)
    )


def _step(record: Fields) -> LessonStep:
    text = record.text("text")
    listing = _listing(record)
    demo = _demo(record)
    asked, then = record.text("ask", optional=True), record.text("then", optional=True)
    step = LessonStep(text, listing, asked, demo, then, _picture(record))
    if not any(name in record for name in _DOES):
        record.page.complain(record.node, "a step ends in something to do: give it `ask`, `run` or `demo`")
    if step.then and not step.is_done_by_learner and "run" not in record:
        record.complain("then", "it says what a result means; the step has none")
    return step


def _listing(step: Fields) -> Listing | None:
    node, changed = step.find("run", optional=True), step.find("change", optional=True)
    if node is None:
        if changed is not None:
            step.complain("change", "it changes a line of `run`, which this step does not have")
        return None
    record = Fields(step.page, node, "`run`")
    ranks = record.whole("ranks", 1, MOST_RANKS)
    code = record.code("code")
    shows = _shows(record, ranks)
    record.close()
    check_snippet(step.page, record.at("code"), "code", code)
    change = _change(step, code, ranks) if changed is not None else None
    return Listing(ranks, code, shows, change) if ranks and code and shows else None


def _change(step: Fields, code: str, ranks: int | None) -> LineChange | None:
    record = Fields(step.page, step.at("change"), "`change`")
    line, to = record.text("line"), record.code("to")
    shows, then = _shows(record, ranks), record.text("then", optional=True)
    record.close()
    if not (line and to and code):
        return None
    if (count := len(places_of_line(code, line))) != 1:
        found = f"{count} lines of `code` are" if count else "no line of `code` is"
        record.complain("line", f"{found} `{line}`; name exactly one whole line, without its indentation")
        return None
    if to.strip() == line.strip():
        record.complain("to", "it is the line as it is")
    check_snippet(step.page, record.at("to"), "to", changed_code(code, line, to))
    return LineChange(line, to, shows, then) if shows else None


def _shows(record: Fields, ranks: int | None) -> Shows | None:
    """Read what ranks print, and complain about one that is not started."""
    shows = read_shows(record.page, record.find("prints"), "prints")
    for rank in (shows.by_rank or ()) if shows and ranks else ():
        if rank >= (ranks or 0):
            record.complain("prints", f"there is no rank {rank}; `ranks` is {ranks}, and ranks count from 0")
    return shows


def _demo(step: Fields) -> DemoLink | None:
    node = step.find("demo", optional=True)
    if node is None:
        return None
    record = Fields(step.page, node, "`demo`")
    run, args = record.text("run"), record.texts("args", optional=True, empty=True)
    ranks, labels = record.whole("ranks", 1, MOST_RANKS), record.texts("labels")
    record.close()
    if run:
        step.page.mention("demo", run, record.at("run"))
    for argument in args:
        step.page.mention("argument", argument, record.at("args"), run)
    for label, place in zip(labels, record.children("labels"), strict=False):
        mention_label(step.page, label, place, run)
    look = " and ".join(filter(None, (", ".join(labels[:-1]), *labels[-1:])))
    return DemoLink(run, look, args, ranks, labels=labels)
