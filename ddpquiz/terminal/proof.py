"""A proof on the screen: what runs, what was observed, and which answer that speaks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.curriculum.concept import DemoProof, Kind
from ddpquiz.curriculum.pose import number, worth
from ddpquiz.ranks import proof
from ddpquiz.terminal.style import plain, prose

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ddpquiz.curriculum.concept import Option
    from ddpquiz.curriculum.pose import Posed


def show(posed: Posed, console: Console) -> bool:
    """Run the proof, printing what runs first and then what it showed; return whether it agrees with the key."""
    console.print(_running(posed))
    lab = proof.Lab()
    agrees = True
    if proof.inserts(posed.question) and posed.question.options:
        for option in posed.question.options:
            seen = lab.observe(posed, proof.code_of(option))
            holds = proof.answers(posed.question, seen)
            agrees = agrees and holds == option.right
            console.print(_line(option.text, seen, holds=holds))
        return agrees
    code = "\n".join(line.text for line in posed.question.lines) if proof.inserts(posed.question) else None
    seen = lab.observe(posed, code)
    console.print(_observed(seen))
    for option in posed.question.options:
        holds = proof.agrees(posed.question, option, seen)
        agrees = agrees and holds == option.right
        console.print(_option(option, holds=holds))
    return agrees and not _surprise(posed, seen, console)


def _running(posed: Posed) -> RenderableType:
    question = posed.question
    ranks = int(worth(question.proof.ranks, posed.values)) if question.proof else 1
    head = Text(f"{ranks} rank{'s' * (ranks != 1)} on CPU over Gloo", style="accent")
    if isinstance(question.proof, DemoProof):
        args = " ".join(question.proof.args)
        return Group(head, Text(f"demo {question.proof.demo} {args}".rstrip(), style="code"), Text())
    return Group(head, Text(plain(proof.source(posed).rstrip()), style="code"), Text())


def _observed(seen: proof.Observed) -> Text:
    if seen.hung or seen.raised or seen.failed or len(set(seen.printed.values())) == 1:
        return Text(f"observed: {plain(str(seen))}", style="head")
    lines = [f"rank {rank}  {plain(text)}" for rank, text in seen.printed.items()]
    return Text("observed:\n" + "\n".join(lines), style="head")


def _option(option: Option, *, holds: bool) -> Text:
    mark = ("✓ ", "good") if holds else ("✗ ", "bad")
    return Text.assemble(mark, prose(option.text))


def _line(text: str, seen: proof.Observed, *, holds: bool) -> Text:
    mark = ("✓ ", "good") if holds else ("✗ ", "bad")
    return Text.assemble(mark, prose(text), (f"\n  {plain(str(seen))}", "quiet"))


def _surprise(posed: Posed, seen: proof.Observed, console: Console) -> bool:
    """Say so when a computed or printed answer is not what was observed."""
    question = posed.question
    if question.kind not in (Kind.NUMBER, Kind.OUTPUT):
        return False
    if question.kind is Kind.NUMBER:
        held = proof.all_close(number(question.answer), max(question.tolerance, 1e-5), seen)  # the text is rounded
    else:
        held = proof.prints(question, question.answer, seen)
    mark = ("✓ ", "good") if held else ("✗ ", "bad")
    console.print(Text.assemble(mark, f"the answer is {question.answer} {question.unit}".rstrip()))
    return not held
