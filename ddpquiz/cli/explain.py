"""`ddpquiz explain`: say it in your own words, and see which points you made."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpquiz.cli import clock, completion, desk
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Prompt
    from ddpquiz.learning.explain import Explanation
    from ddpquiz.terminal.sittings.explain import ExplainScreen


def explain(
    concept: Annotated[
        str, typer.Argument(help="What to explain: a concept, or one prompt of it.", autocompletion=completion.items)
    ],
    editor: Annotated[bool, typer.Option("--editor", help="Write in your editor, as EDITOR names it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, and nothing else.")] = False,
) -> None:
    """Explain a concept in your own words; its points are looked for in what you write, and you have the last word.

    In a pipe, all of standard input is one explanation: of the prompt that is named, or of the concept's prompt that
    you explained least often.
    """
    from collections import Counter

    from ddpquiz.curriculum import loading
    from ddpquiz.learning import explain, side_files
    from ddpquiz.learning.progress import Progress
    from ddpquiz.paths import data_dir
    from ddpquiz.terminal.kit import layout, style
    from ddpquiz.terminal.sittings.explain import ExplainScreen

    known = loading.load()
    prompts = _prompts(known, concept)
    with Progress(data_dir()) as progress:
        explained = Counter(row.item for row in progress.kept("explanation"))
        prompts = explain.order(prompts, explained)
        piped = not sys.stdin.isatty()
        if piped and editor:
            raise UserError("--editor needs a terminal; without it, the text is read from standard input.")
        begun = explain.begin(prompts[:1] if piped else prompts, clock.now())
        begun_before = {} if piped else side_files.load_drafts(data_dir())
        seat = ExplainScreen(desk.desk(known, progress), begun, editor=editor, drafts=begun_before)
        console = style.complaints() if as_json else style.console()
        if piped:
            _read(seat, prompts[0].key)
            console.quiet = as_json
            layout.show(console, seat.new_lines())
        else:
            try:
                if editor:
                    seat.edit()
                desk.sit_down(seat, console, lines=as_json)
            finally:
                _keep(seat, console)
        if as_json:
            _print(seat.state.done)


def _prompts(known: Catalog, name: str) -> tuple[Prompt, ...]:
    from ddpquiz.curriculum.concept import Prompt

    if "/" not in name:
        return known.concept(name).explain
    item = known.item(name)
    if not isinstance(item, Prompt):
        meant = ", ".join(prompt.key for prompt in known.concept(item.concept).explain)
        raise UserError(f"`{name}` is a card or a question; what can be explained is {meant}.")
    return (item,)


def _keep(seat: ExplainScreen, console: Console) -> None:
    """Keep what was begun for the next time, and say so; where that cannot be done it is printed, to be copied."""
    from rich.text import Text

    from ddpquiz.learning import side_files
    from ddpquiz.paths import data_dir
    from ddpquiz.terminal.kit.style import plain

    texts = [text for text in seat.begun.values() if text]
    told = ["What you began to write is here again the next time."] if texts else []
    try:
        side_files.save_drafts(data_dir(), seat.begun)
    except UserError:
        told = ["What you began to write:", *texts]
        raise
    finally:
        with contextlib.suppress(OSError):  # the terminal may be gone
            for line in told:
                console.print(Text(plain(line)), soft_wrap=True)


def _read(seat: ExplainScreen, key: str) -> None:
    """Take all of standard input as one explanation."""
    seat.text = sys.stdin.read()
    seat.finish()
    if not seat.state.done:
        raise UserError(f"There is no text on standard input; write your explanation of {key} there.")


def _print(done: tuple[Explanation, ...]) -> None:
    import json

    print(json.dumps({"explanations": [_told(each) for each in done]}, indent=2, ensure_ascii=False))


def _told(explanation: Explanation) -> dict[str, Any]:
    return {
        "item": explanation.prompt.key,
        "ask": explanation.prompt.ask,
        "text": explanation.text,
        "made": explanation.made,
        "points": [
            {
                "say": each.point.say,
                "made": each.made,
                "words": [*each.words],
                "overruled": each.overruled,
            }
            for each in explanation.points
        ],
        "hint": explanation.hinted,
        "took_ms": round(explanation.took.total_seconds() * 1000),
    }
