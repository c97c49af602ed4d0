"""`ddpquiz check --labs`: what the checks of labs must decide, on real ranks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.labs import load_lab, survey_labs, survey_labs_of_pack
from ddpquiz.curriculum.pack_labs import load_pack_lab
from ddpquiz.errors import Complaint
from ddpquiz.ranks.lab_proof import prove_lab


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
    problems: list[str] = []
    for lab in labs:
        for proven in prove_lab(lab):
            verdict = proven.verdict
            what = "passed" if verdict.passed else f"caught by {verdict.caught}"
            typer.echo(f"{lab.id}: {proven.attempt.name}: {what}, {verdict.seconds:.1f} s. {verdict.sentence}")
            if proven.complaint:
                problems.append(f"{lab.folder / 'lab.yaml'}: {proven.complaint}")
    return problems
