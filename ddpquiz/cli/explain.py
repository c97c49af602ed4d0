"""`ddpquiz explain`: write it in your own words, and check which points you made."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
from collections import Counter
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.cli import clock, completion, sitting
from ddpquiz.cli.output import say
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Prompt
from ddpquiz.errors import UserError
from ddpquiz.learning import side_files
from ddpquiz.learning.explain import Explanation, Opinion, begin, order
from ddpquiz.paths import data_dir
from ddpquiz.safe_text import plain, to_json
from ddpquiz.terminal.kit import layout, pager, style
from ddpquiz.terminal.sittings.explain_screen import ExplainScreen, not_scored
from ddpquiz.terminal.sittings.sitting import run_sitting

_PATIENCE = 120.0  # seconds for the program that judges
_MOST = 2000  # characters of its remark


def explain(
    concept: Annotated[
        str | None,
        typer.Argument(
            help="What to explain: a concept, or one prompt of it. Without it, list the concepts.",
            autocompletion=completion.items,
        ),
    ] = None,
    editor: Annotated[bool, typer.Option("--editor", help="Write in your editor, the one that EDITOR names.")] = False,
    judge: Annotated[
        str | None, typer.Option(help="A program that ticks points; you can change the ticks.", metavar="COMMAND")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, and nothing else.")] = False,
) -> None:
    """Explain a concept in your own words; then compare with a model answer, and tick the points that you made.

    In a pipe, all of standard input is one explanation: of the prompt that is named, or of the concept's prompt that
    you explained least often. The model answer is printed, and nothing is scored unless a judge does it. A judge reads
    {"question", "points", "text"} as JSON from standard input and prints {"points": [true, ...], "say": "..."}; nothing
    is sent to any other program.
    """
    if concept is None and (editor or judge or as_json):
        raise typer.BadParameter("name a concept; `ddpquiz explain` lists them.", param_hint="CONCEPT")
    known = loading.load()
    if concept is None:
        pager.show_paged(style.console(), _list(known))
        return
    prompts = _prompts(known, concept)
    with sitting.open_sitting(known) as context:
        explained = Counter(row.item for row in context.progress.entries("explanation"))
        prompts = order(prompts, explained)
        piped = not sys.stdin.isatty()
        if piped and editor:
            raise UserError("--editor needs a terminal; without it, the text is read from standard input.")
        begun = begin(prompts[:1] if piped else prompts, clock.now())
        drafts = {} if piped else side_files.load_drafts(data_dir())
        opinion = partial(_ask_judge, judge) if judge else None
        screen = ExplainScreen(context, begun, editor=editor, drafts=drafts, judge=opinion)
        console = style.complaints() if as_json else style.console()
        if piped:
            compared = screen.compare(_read(prompts[0].key))
            if screen.note:  # of a judge that failed
                layout.show(console, Text(plain(screen.note), style="warn"))
            console.quiet = as_json
            layout.show(console, screen.by_lines.new() if compared.opinion else not_scored(compared))
            explanations = [_values(compared, scored=compared.opinion is not None)]
        else:
            try:
                if editor:
                    screen.edit()
                run_sitting(screen, console, lines=as_json)
            finally:
                _save_drafts(screen, console)
            explanations = [_values(each) for each in screen.state.done]
        if as_json:
            say(to_json({"explanations": explanations}, indent=2))


def _list(known: Catalog) -> Group:
    """Draw the concepts that can be explained, grouped by track."""
    parts: list[RenderableType] = []
    able = [concept for concept in known.concepts if concept.explain]
    width = max((len(concept.id) for concept in able), default=0)
    for track in known.tracks:
        if here := [concept for concept in able if concept.track == track.id]:
            rows = ((Text(each.id.ljust(width), style="code"), Text(plain(each.title))) for each in here)
            parts += layout.section(plain(track.title), layout.columns(rows))
    on = layout.Commands([("ddpquiz explain CONCEPT", "explain one of them in your own words")])
    return Group(*parts[1:], Text(), on)


def _prompts(known: Catalog, name: str) -> tuple[Prompt, ...]:
    if "/" not in name or any(name == concept.id for concept in known.concepts):
        return tuple(known.concept(name).explain)
    item = known.item(name)
    if not isinstance(item, Prompt):
        meant = ", ".join(prompt.key for prompt in known.concept(item.concept).explain)
        raise UserError(f"`{name}` is a card or a question; you can explain {meant}.")
    return (item,)


def _ask_judge(command: str, prompt: Prompt, text: str) -> Opinion:
    """Run a command that reads question, points and text as JSON and prints its opinion; UserError if it fails."""
    question = json.dumps({"question": prompt.ask, "points": prompt.points, "text": text}, ensure_ascii=False)
    if sys.stderr.isatty():
        say("Waiting for the judge; ctrl+c goes on without it.", err=True)
    try:
        words = shlex.split(command)
        done = subprocess.run(words, input=question.encode(), capture_output=True, timeout=_PATIENCE, check=False)
        answer = json.loads(done.stdout)
        made, remark = answer["points"], answer.get("say", "")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise _failed(command, "did not print the JSON that `ddpquiz explain --help` describes") from None
    except subprocess.TimeoutExpired:
        raise _failed(command, f"did not answer within {_PATIENCE:.0f} s") from None
    if (
        not isinstance(remark, str)
        or not isinstance(made, list)
        or [type(each) for each in made] != [bool] * len(prompt.points)
    ):
        raise _failed(command, f"must print `points`, {len(prompt.points)} times true or false, and `say`, a text")
    return Opinion(tuple(made), remark[:_MOST])


def _failed(command: str, what: str) -> UserError:
    return UserError(f"The judge `{command}` {what}, so it ticked no points.")


def _save_drafts(screen: ExplainScreen, console: Console) -> None:
    """Save the drafts for the next time; if that fails they are printed, so that they can be copied."""
    texts = [text for text in screen.begun.values() if text]
    lines = ["Your unfinished text is saved for next time."] if texts else []
    try:
        side_files.save_drafts(data_dir(), screen.begun)
    except UserError:
        lines = ["Your unfinished text:", *texts]
        raise
    finally:
        with contextlib.suppress(OSError):  # the terminal may be gone
            for line in lines:
                console.print(Text(plain(line)), soft_wrap=True)


def _read(key: str) -> str:
    if text := sys.stdin.read().strip():
        return text
    raise UserError(f"There is no text on standard input; write your explanation of {key} there.")


def _values(explanation: Explanation, *, scored: bool = True) -> dict[str, Any]:
    """An explanation as JSON; without a score, it is not known which points were made."""
    return {
        "item": explanation.prompt.key,
        "ask": explanation.prompt.ask,
        "text": explanation.text,
        "answer": explanation.prompt.answer,
        "made": explanation.made if scored else None,
        "points": [
            {"say": each.say, "made": each.made if scored else None, "by_program": each.by_program}
            for each in explanation.points
        ],
        "hint": explanation.hinted,
        "took_ms": round(explanation.took.total_seconds() * 1000),
    }
