"""`ddpquiz lab`: write or repair a distributed program, and have it checked on real ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def lab(
    name: Annotated[str, typer.Argument(help="The lab.")],
    check: Annotated[bool, typer.Option("--check", help="Check the file once; exit status 0 if it passes.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --check: print JSON and nothing else.")] = False,
    folder: Annotated[Path, typer.Option("--dir", envvar="DDPQUIZ_LABS", help="The folder of your files.")] = Path(
        "ddpquiz-labs"
    ),
) -> None:
    """Write the missing lines of a distributed program. Each save is checked on real ranks."""
    from ddpquiz.cli.lab_check import check_once
    from ddpquiz.curriculum.labs import load_lab

    found = load_lab(name)
    file = folder / found.file_name
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(found.solution.starter, encoding="utf-8")
    del check
    if not check_once(found, file, json=json_).passed:
        raise typer.Exit(1)
