"""`ddpquiz lab`: write or repair a distributed program, and have each save checked on real ranks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group

from ddpquiz.cli import clock, completion
from ddpquiz.cli.output import say
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.labs import load_lab, load_pack_lab, pack_lab_names, pack_labs, survey_labs, survey_labs_of_pack
from ddpquiz.errors import Complaint, ContentError, UserError
from ddpquiz.lab import lab_pages
from ddpquiz.lab.folder import LabFolder
from ddpquiz.lab.history import LabHistory
from ddpquiz.lab.verdict import LabFigure, LabVerdict
from ddpquiz.paths import data_dir, own_labs_dir
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import layout, pager, style
from ddpquiz.terminal.kit.screen import is_interactive


def lab(
    name: Annotated[
        str | None, typer.Argument(help="The lab. Without a name, list the labs.", autocompletion=completion.labs)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the file once; exit status 0 if it passes.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --check: print JSON and nothing else.")] = False,
    task: Annotated[bool, typer.Option("--task", help="Print the task.")] = False,
    hint: Annotated[bool, typer.Option("--hint", help="Print the next hint.")] = False,
    solution: Annotated[
        bool, typer.Option("--solution", help="Print the solution; a pass after that counts half.")
    ] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Start over from the starter; your file is kept under another name.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="The folder of your files. [default: DDPQUIZ_LABS, ./ddpquiz-labs if it exists, DDPQUIZ_HOME/labs, "
            "or ~/ddpquiz-labs]",
        ),
    ] = None,
) -> None:
    """Write the missing lines of a distributed program. Each save is checked on real ranks."""
    if sum((check, task, hint, solution, reset)) > 1:
        raise typer.BadParameter("use one of --check, --task, --hint, --solution and --reset.")
    if json_ and not check:
        raise typer.BadParameter("it needs --check.", param_hint="--json")
    files = folder_of(folder)
    if name is None:
        if check or task or hint or solution or reset:
            raise typer.BadParameter("name a lab; `ddpquiz lab` lists them.", param_hint="NAME")
        _list_labs(files)
        return
    found = load(name)
    if task:
        layout.show(style.console(), lab_pages.task(found, files.file(found)))
    elif hint:
        _print_hint(found)
    elif solution:
        _print_solution(found)
    elif reset:
        _reset(found, files)
    elif check:
        _check_once(found, files, json=json_)
    else:
        work_on(found, files)


def folder_of(named: Path | None) -> LabFolder:
    """The folder of the learner's files: the one that was named, or the usual one."""
    return LabFolder(named or own_labs_dir())


def load(name: str) -> Lab:
    """The lab of a name, `pack/lab` for one of a pack; UserError if no lab has this name."""
    return load_pack_lab(name) if "/" in name else load_lab(name, others=pack_lab_names())


def all_labs() -> list[Lab]:
    """All labs in the order of their concepts, then those of packs; ContentError if one is not valid."""
    labs, complaints = survey_labs([concept.id for concept in loading.load().concepts])
    if complaints:
        raise ContentError(tuple(complaints))
    return [*labs, *pack_labs()]


def work_on(lab: Lab, files: LabFolder, place: str = "") -> None:
    """Watch the learner's file, lab after lab, until the learner leaves; in a pipe, check it once.

    `place` is that of the first lab in a guided path; see SittingContext.
    """
    if not is_interactive():
        _check_once(lab, files, json=False)
        return
    from ddpquiz.lab.lab_screen import LabScreen  # noqa: PLC0415  # lists, tasks and hints run no ranks

    now: Lab | None = lab
    while now:
        files.begin(now)
        screen = LabScreen(now, files.file(now), _history(), _run_demo, place)
        screen.find_following = partial(_following, now)
        screen.show(style.console())
        if not screen.passed_here:
            say(f"`ddpquiz lab {now.id}` continues with {files.file(now)}.")
        now, place = screen.find_following() if screen.wants_next else None, ""


def _following(lab: Lab) -> Lab | None:
    return _history().next_lab(lab, all_labs())


def _run_demo(concept: str) -> None:
    """Run the first demo of a concept."""
    from ddpquiz.cli.progress_file import open_progress  # noqa: PLC0415  # lists, tasks and hints run no demos
    from ddpquiz.terminal.sittings.rank_runner import RankRunner  # noqa: PLC0415

    known = loading.load()
    links = known.concept(concept).demos
    if not links:
        raise UserError(f"The concept {concept} has no demo.")
    with open_progress(known.moved) as progress:
        RankRunner(known, progress, clock.now).demo(links[0])


def _history() -> LabHistory:
    return LabHistory(data_dir(), clock.now)


def _list_labs(files: LabFolder) -> None:
    known = all_labs()
    begun = [lab.id for lab in known if files.has(lab)]
    listed = lab_pages.labs(loading.load(), known, lab_pages.LabProgress(_history().standings(), begun))
    pager.show_paged(style.console(), listed)


def _print_hint(lab: Lab) -> None:
    """Print the hints that were shown before, and the next one."""
    count = min(len(lab.hints), _history().hints_shown(lab) + 1)
    _history().save_hints(lab, count)
    for number in range(1, count + 1):
        layout.show(style.console(), lab_pages.hint(lab, number))


def _print_solution(lab: Lab) -> None:
    """Print the solution, and save that it was seen."""
    _history().save_seen(lab)
    say(lab.solution.source, end="")


def _reset(lab: Lab, files: LabFolder) -> None:
    """Write the starter again, and say where the file that was there is now."""
    old = files.reset(lab)
    say(f"{files.file(lab)} is the starter again." + (f" Your file is now {old}." if old else ""))


def _check_once(lab: Lab, files: LabFolder, *, json: bool) -> None:
    """Check the learner's file once, print the verdict, save a pass, and exit with 1 if it fails."""
    from ddpquiz.lab.checker import check_solution, compare  # noqa: PLC0415  # lists, tasks and hints run no ranks

    file = files.file(lab)
    if files.begin(lab) and not json:
        say(f"{file} was created from the starter. `ddpquiz lab {lab.id} --task` prints the task.")
    verdict = check_solution(lab, file)
    figures = compare(lab, verdict) if verdict.passed else ()
    if json:
        say(to_json(_as_data(lab, verdict, figures)))
    else:
        layout.show(style.console(), Group(lab_pages.path_of(file), *lab_pages.verdict(lab, file, verdict, figures)))
        for part in lab_pages.repeat(verdict):
            style.console().print(part, soft_wrap=True)  # a command is to be copied
    if not verdict.passed:
        raise typer.Exit(1)
    _history().save_pass(lab, verdict)


def _as_data(lab: Lab, verdict: LabVerdict, figures: tuple[LabFigure, ...]) -> dict[str, Any]:
    return {
        "lab": lab.id, "passed": verdict.passed, "outcome": verdict.outcome, "sentence": verdict.sentence,
        "advice": verdict.advice, "caught": verdict.caught, "rank": verdict.rank, "ranks": verdict.ranks,
        "line": verdict.line, "seed": verdict.seed,
        "values": {str(rank): text for rank, text in verdict.values.items()},
        "waits": [{"rank": at.rank, "in": at.waits_in, "line": at.line} for at in verdict.waits],
        "repeat": verdict.repeat, "stars": list(verdict.stars), "runs": verdict.runs,
        "figures": {figure.name: {"yours": figure.yours, "reference": figure.reference} for figure in figures},
        "seconds": round(verdict.seconds, 2),
    }  # fmt: skip


def chosen_labs(names: list[str], pack: Path | None) -> tuple[list[Lab], list[Complaint]]:
    """Read the labs with these names, or `all`, of the folder of a pack or those that are shipped.

    The name of a lab in a pack that was added begins with the name of the pack.
    """
    wanted = [] if names == ["all"] else names
    if pack:
        return survey_labs_of_pack(pack, [load_lab(name, pack / "labs").id for name in wanted])
    of_packs = [load_pack_lab(name) for name in wanted if "/" in name]
    shipped = [load_lab(name).id for name in wanted if "/" not in name]
    if of_packs and not shipped:
        return of_packs, []
    labs, complaints = survey_labs([concept.id for concept in loading.load().concepts], shipped)
    return [*labs, *of_packs], complaints


def prove_labs(labs: Iterable[Lab]) -> list[str]:
    """Check all attempts of these labs on real ranks, and return a line for each verdict that is wrong."""
    from ddpquiz.lab.checker import prove_lab  # noqa: PLC0415  # only this and a check run ranks

    problems: list[str] = []
    for lab in labs:
        for proven in prove_lab(lab):
            verdict = proven.verdict
            what = "passed" if verdict.passed else f"caught by {verdict.caught}"
            say(f"{lab.id}: {proven.attempt.name}: {what}, {verdict.seconds:.1f} s. {verdict.sentence}")
            if proven.complaint:
                problems.append(f"{lab.folder / 'lab.yaml'}: {proven.complaint}")
    return problems
