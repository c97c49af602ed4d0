"""`ddpquiz check`: check content files and proofs; cli/lab.py checks labs for it (`prove_labs`)."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ddpquiz.cli.output import say
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept, Kind, Level
from ddpquiz.curriculum.labs import survey_labs, survey_labs_of_pack
from ddpquiz.curriculum.plan_files import described_in, load_hardware, load_model
from ddpquiz.curriculum.quality import GOAL, GOAL_TOGETHER, Quality, measure_quality
from ddpquiz.curriculum.survey import is_pack, survey
from ddpquiz.curriculum.yaml_file import YamlFile, peek, shown
from ddpquiz.errors import ContentError, UserError
from ddpquiz.paths import content_dir
from ddpquiz.plan.model import parameters
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.layout import new_table
from ddpquiz.terminal.kit.style import console
from ddpquiz.terminal.pages.lesson_steps import unfit

_IN_STEPS = "That works. Steps that end in something to do teach better: `ddpquiz pack new` writes an example."


def check(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="A pack, a content folder, a track's folder in it, a concept file, or a model or GPU of yours for"
            " `plan`."
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    proofs: Annotated[bool, typer.Option("--proofs", help="Run every proof on real ranks.")] = False,
    quality: Annotated[
        bool, typer.Option("--quality", help="Print what a guesser would score, and list weak items.")
    ] = False,
    labs: Annotated[
        list[str] | None,
        typer.Option("--labs", help="Run all files that a lab's check must judge; `all`: every lab. May be repeated."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="With --proofs or --labs: run programs that did not come with ddpquiz.")
    ] = False,
) -> None:
    """Check content files. Each complaint names file, line and column, and what is wrong and what would be right."""
    if labs and path and not is_pack(path):
        wanted = " ".join(f"--labs {each}" for each in (*labs, path))
        raise typer.BadParameter(f"give each lab its own option: {wanted}; {path} is not the folder of a pack")
    if path and (folder := described_in(path)):
        _check_plan_file(path, folder, as_json=json_)
        return
    _refuse_untrusted(path if proofs or labs else None, trust=trust)
    if labs:
        _check_labs(labs, path)
        return
    found = survey(path, thorough=True)
    concepts = found.catalog.concepts
    known, complaints = _labs(concepts, path) if path is None or is_pack(path) else (0, [])
    problems = [*map(str, found.complaints), *complaints]
    problems = problems or _unfit(concepts, path)
    if proofs and not problems:
        problems = [*_prove(found.catalog, path), *_run_listings(concepts, path)]
    measured = None
    if quality:
        measured = measure_quality(concepts)
        problems += measured.fails
    summary = {**_summary(concepts), "labs": known}
    if json_:
        _print_json(summary, problems, measured)
    else:
        if measured:
            _print_quality(measured)
        _print_lines(summary, problems, proven=proofs)
        if not _is_ours(path):
            _advise_steps(concepts)
    if problems:
        raise typer.Exit(1)


def _check_plan_file(path: Path, folder: str, *, as_json: bool) -> None:
    """Check a file that `plan` reads; the numbers of a shipped one need a source, too. Exit with 1 if it is wrong."""
    problems: list[str] = []
    found = ""
    try:
        if folder == "models":
            model = load_model(str(path.absolute()))
            found = f"{model.name} has {parameters(model):,} parameters"
        else:
            hardware = load_hardware(str(path.absolute()))
            found = f"{hardware.name} has {hardware.memory / 2**30:,.3g} GiB"
    except ContentError as wrong:
        problems = list(map(str, wrong.complaints))
    if not problems and _is_ours(path):
        problems = list(map(str, survey(path).complaints))
    if as_json:
        say(json.dumps({"file": str(path), "describes": found, "problems": problems}, indent=2))
    elif problems:
        _print_problems(problems)
    else:
        option = "--model" if folder == "models" else "--gpu"
        say(f"No problems: {found}. `ddpquiz plan {option} {shlex.quote(str(path))} --gpus 8` plans with it.")
    if problems:
        raise typer.Exit(1)


def _labs(concepts: Sequence[Concept], pack: Path | None) -> tuple[int, list[str]]:
    """The number of labs of a pack, or of those that are shipped, and every complaint about them."""
    found = survey_labs_of_pack(pack) if pack else survey_labs([concept.id for concept in concepts])
    return len(found[0]), list(map(str, found[1]))


def _check_labs(names: list[str], pack: Path | None) -> None:
    """Read labs and run everything that their checks must decide; exit with 1 if one decides wrongly."""
    from ddpquiz.cli.lab import chosen_labs, prove_labs  # noqa: PLC0415  # only --labs needs it

    labs, complaints = chosen_labs(names, pack)
    problems = [str(complaint) for complaint in complaints] or prove_labs(labs)
    _print_problems(problems)
    if problems:
        raise typer.Exit(1)


def _print_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        say(problem, err=True)
    say(plural(len(problems), "problem"), err=True)


def _refuse_untrusted(path: Path | None, *, trust: bool) -> None:
    if path and not trust and not _is_ours(path):
        raise UserError(
            f"{path} is not part of ddpquiz, and its proofs and labs are programs that would run on this machine."
            " Read them, then add --trust."
        )


def _is_ours(path: Path | None) -> bool:
    """Whether a path, or all content, came with ddpquiz."""
    return path is None or path.resolve().is_relative_to(content_dir().resolve())


def _advise_steps(concepts: Sequence[Concept]) -> None:
    """Say once which lessons are one text, and what to do about it."""
    old = [concept.id for concept in concepts if not concept.in_steps]
    if old:
        several = f"{plural(len(old), 'lesson is', 'lessons are')} one long text"
        say(f"{several} ({', '.join(old[:3])}{', ...' if len(old) > 3 else ''}). {_IN_STEPS}", err=True)


def _unfit(concepts: Sequence[Concept], path: Path | None) -> list[str]:
    """A line for each part of a step of our own that does not fit the screen for which lessons are written."""
    if not _is_ours(path):
        return []
    return [
        f"{_place_of_step(concept, number, key, path)}: `{key}`: {problem}"
        for concept in concepts
        if concept.in_steps
        for number, step in enumerate(concept.steps)
        for key, problem in unfit(step)
    ]


def _run_listings(concepts: Sequence[Concept], path: Path | None) -> list[str]:
    """Run every listing of lessons and return a line for each that does not show what it should."""
    from ddpquiz.ranks.content_check import run_listings  # noqa: PLC0415  # only --proofs runs ranks

    problems: list[str] = []
    for ran in run_listings(concepts):
        _progress(f"listing of step {ran.step + 1}: {ran.concept.id}")
        where = _place_of_step(ran.concept, ran.step, "run", path) if ran.complaints else ""
        problems += [f"{where}: {complaint}" for complaint in ran.complaints]
    _progress("")
    return problems


def _place_of_step(concept: Concept, number: int, key: str, path: Path | None) -> str:
    """Return file, line and column of a key in a step of a lesson."""
    page = YamlFile.open(_file(concept.id, path))
    assert page.root is not None  # noqa: S101  # it was read before
    node = peek(peek(page.root, "lesson").value[number], key)
    return f"{page.name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _file(concept: str, path: Path | None) -> Path:
    """The file of a concept."""
    root = path or content_dir()
    return root if root.is_file() else next(root.rglob(f"{concept}.yaml"))


def _prove(catalog: Catalog, path: Path | None) -> list[str]:
    """Run every proof and return a line for each that fails."""
    from ddpquiz.ranks.content_check import prove_all  # noqa: PLC0415  # only --proofs runs ranks

    questions = [question for question in catalog.questions() if question.proof]
    problems: list[str] = []
    slowest: list[tuple[float, str]] = []
    for number, proven in enumerate(prove_all(questions, catalog.demos), 1):
        _progress(f"proof {number} of {len(questions)}: {proven.question.key}")
        where = _place(proven.question.concept, proven.question.id, path)
        problems += [
            f"{where}: the proof of {proven.question.id} fails: {complaint}" for complaint in proven.complaints
        ]
        slowest.append((proven.seconds, proven.question.key))
    _progress("")
    total = sum(seconds for seconds, _ in slowest)
    slow = ", ".join(f"{key} {seconds:.1f} s" for seconds, key in sorted(slowest, reverse=True)[:3])
    say(f"{plural(len(questions), 'proof')} in {total:.1f} s; the slowest: {slow}", err=True)
    return problems


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r\x1b[K{text}", nl=False, err=True)


def _place(concept: str, item: str, path: Path | None) -> str:
    """Return file, line and column of an item."""
    file = _file(concept, path)
    text = file.read_text(encoding="utf-8")
    found = re.search(rf"\bid: *[\"']?{re.escape(item)}(?![\w-])", text)
    before = text[: found.start()] if found else ""
    return f"{shown(file)}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _summary(concepts: Sequence[Concept]) -> dict[str, Any]:
    questions = [question for concept in concepts for question in concept.questions]
    levels = Counter(question.level for question in questions)
    kinds = Counter(question.kind for question in questions)
    return {
        "concepts": len(concepts),
        "cards": sum(len(concept.cards) for concept in concepts),
        "questions": {str(level): levels[level] for level in Level},
        "kinds": {str(kind): kinds[kind] for kind in Kind},
        "proofs": sum(question.proof is not None for question in questions),
        "listings": sum(step.listing is not None for concept in concepts for step in concept.steps),
        "demos": len({link.run for concept in concepts for link in concept.demos}),
    }


def _print_json(summary: dict[str, Any], problems: Sequence[str], measured: Quality | None) -> None:
    parts = {"quality": asdict(measured)} if measured else {}
    say(json.dumps({**summary, "problems": problems, **parts}, indent=2))


def _print_quality(measured: Quality) -> None:
    table = new_table(("picking", "of all", "where it applies", "goal"), left=range(4), style="head")
    for score in measured.scores:
        met = "met" if score.meets_goal else "not met"
        table.add_row(score.rule, f"{score.bank:.1%}", f"{score.where_it_applies:.1%} of {score.applies}", met)
    met = "met" if measured.together <= GOAL_TOGETHER else "not met"
    table.add_row("by all cues, learned together", f"{measured.together:.1%}", "", met)
    out = console()
    out.print(table)
    out.print(
        f"Chance is 25%. The goal is {GOAL[0]:.0%} to {GOAL[1]:.0%} for each cue where it applies, and at most"
        f" {GOAL_TOGETHER:.0%} for a guesser who has learned all cues on other concepts.",
        style="quiet",
    )
    shares = ", ".join(f"{name}: {count}" for name, count in measured.rights.items())
    out.print(f"Right options in `choices` questions: {shares}.\n", style="quiet")
    for remark in measured.remarks:
        say(f"check: {remark}")


def _print_lines(summary: dict[str, Any], problems: Sequence[str], *, proven: bool) -> None:
    if problems:
        _print_problems(problems)
        return
    parts = [
        plural(summary["concepts"], "concept"),
        plural(summary["cards"], "card"),
        plural(sum(summary["questions"].values()), "question"),
        *([plural(summary["listings"], "listing")] if summary["listings"] else []),
        f"{plural(summary['proofs'], 'proof')}{', all passed' if proven else ''}",
        *([plural(summary["labs"], "lab")] if summary["labs"] else []),
    ]
    say(f"No problems: {', '.join(parts)}.")
