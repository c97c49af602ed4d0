"""`ddpquiz lab`: write or repair a distributed program, and have each save checked on real ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli import completion, lab_commands
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.labs import load_lab, load_pack_lab, pack_lab_names
from ddpquiz.lab.folder import LabFolder
from ddpquiz.paths import own_labs_dir


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
        bool, typer.Option("--reset", help="Write the starter again; the file that is there gets another name.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="The folder of your files. [default: DDPQUIZ_LABS, or ./ddpquiz-labs]")
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
        lab_commands.list_labs(files)
        return
    found = load(name)
    if task:
        lab_commands.print_task(found)
    elif hint:
        lab_commands.print_hint(found)
    elif solution:
        lab_commands.print_solution(found)
    elif reset:
        lab_commands.reset(found, files)
    elif check:
        lab_commands.check_once(found, files, json=json_)
    else:
        from ddpquiz.cli import lab_work  # noqa: PLC0415  # the list and the task need nothing that runs ranks

        lab_work.work_on(found, files)


def folder_of(named: Path | None) -> LabFolder:
    """Return the folder of the learner's files: the one that was named, or the usual one."""
    return LabFolder(named or own_labs_dir())


def load(name: str) -> Lab:
    """Return the lab of a name, `pack/lab` for one of a pack; UserError if no lab has this name."""
    return load_pack_lab(name) if "/" in name else load_lab(name, others=pack_lab_names())
