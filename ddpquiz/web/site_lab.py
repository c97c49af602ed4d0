"""The labs of a concept as HTML: what to write, the file to begin with, and the hints, folded."""

from collections.abc import Sequence

from ddpquiz.curriculum.lab import Lab
from ddpquiz.terminal.kit.layout import counted
from ddpquiz.web.markup import Markup, element, joined
from ddpquiz.web.rendered_text import lesson_parts, listing


def lab_html(lab: Lab) -> Markup:
    """Return a lab with its task; the check runs in the terminal."""
    title = element("h3", f"{lab.title} ", element("span", f"{lab.minutes} minutes", class_="kind"))
    run = element("p", "Write it in the terminal, where each save is checked on real ranks:")
    return element(
        "section",
        title,
        *_markdown(lab.task),
        run,
        listing(f"$ ddpquiz lab {lab.id}"),
        _folded(f"{lab.file_name}, the file to begin with", listing(lab.solution.starter)),
        *(_folded(f"Hint {number}", *_markdown(hint)) for number, hint in enumerate(lab.hints, 1)),
        id=f"lab-{lab.id}",
    )


def labs_list(labs: Sequence[Lab]) -> Markup:
    """Return the list of the first page that leads to each lab."""
    rows = (
        element(
            "li",
            element("a", lab.title, href=lab_address(lab)),
            element("span", f"\N{NO-BREAK SPACE}{lab.minutes}\N{NO-BREAK SPACE}min", class_="kind"),
        )
        for lab in labs
    )
    count = element(
        "p", f"{counted(len(labs), 'program')} to write or to repair, checked on real ranks in the terminal."
    )
    return joined(count, element("ul", *rows, class_="columns"))


def lab_address(lab: Lab) -> str:
    """Return where the first page finds a lab."""
    return f"concepts/{lab.concept}.html#lab-{lab.id}"


def _markdown(text: str) -> list[Markup]:
    return [html for _, html in lesson_parts(text)]


def _folded(title: str, *inside: Markup) -> Markup:
    return element("details", element("summary", title), joined(*inside), class_="fold")
