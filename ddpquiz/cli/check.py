"""The command `check`: whether the content is right, and whether its proofs hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path  # noqa: TC003 - typer reads it when it runs
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpquiz.curriculum.concept import Concept


def check(
    path: Annotated[Path | None, typer.Argument(help="A folder with content, or one concept file.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    proofs: Annotated[bool, typer.Option("--proofs", help="Run every proof on real ranks.")] = False,
    trust: Annotated[bool, typer.Option("--trust", help="Run proofs that did not come with ddpquiz.")] = False,
) -> None:
    """Validate content: every complaint at once, as file:line:column: what is wrong and what would be right."""
    from ddpquiz.curriculum.catalog import survey

    if proofs:
        _refuse_strangers(path, trust=trust)
    found = survey(path, thorough=True)
    concepts = found.catalog.concepts
    problems = [str(complaint) for complaint in found.complaints]
    if proofs and not problems:
        problems = _prove(concepts)
    summary = _summary(concepts)
    if json_:
        _print_json(summary, problems)
    else:
        _print_lines(summary, problems, proven=proofs)
    if problems:
        raise typer.Exit(1)


def _refuse_strangers(path: Path | None, *, trust: bool) -> None:
    from ddpquiz.errors import UserError
    from ddpquiz.shipped import content_dir

    if path and not trust and not path.resolve().is_relative_to(content_dir().resolve()):
        raise UserError(
            f"{path} did not come with ddpquiz, and its proofs are programs that would run on this machine;"
            " read them, then add --trust."
        )


def _prove(concepts: Sequence[Concept]) -> list[str]:
    """Run every proof and return a sentence about each that does not hold."""
    from ddpquiz.errors import UserError

    raise UserError(f"The proofs of {len(concepts)} concepts cannot be run yet.")


def _summary(concepts: Sequence[Concept]) -> dict[str, Any]:
    from ddpquiz.curriculum.concept import Kind, Level

    questions = [question for concept in concepts for question in concept.questions]
    levels = Counter(question.level for question in questions)
    kinds = Counter(question.kind for question in questions)
    return {
        "concepts": len(concepts),
        "cards": sum(len(concept.cards) for concept in concepts),
        "questions": {str(level): levels[level] for level in Level},
        "kinds": {str(kind): kinds[kind] for kind in Kind},
        "proofs": sum(question.proof is not None for question in questions),
        "demos": len({link.run for concept in concepts for link in concept.demos}),
    }


def _print_json(summary: dict[str, Any], problems: Sequence[str]) -> None:
    import json

    print(json.dumps({**summary, "problems": problems}, indent=2))


def _print_lines(summary: dict[str, Any], problems: Sequence[str], *, proven: bool) -> None:
    if problems:
        for problem in problems:
            typer.echo(problem, err=True)
        typer.echo(_counted(len(problems), "problem"), err=True)
        return
    parts = [
        _counted(summary["concepts"], "concept"),
        _counted(summary["cards"], "card"),
        _counted(sum(summary["questions"].values()), "question"),
        f"{_counted(summary['proofs'], 'proof')}{', which all hold' if proven else ''}",
    ]
    typer.echo(f"All is well: {', '.join(parts)}.")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
