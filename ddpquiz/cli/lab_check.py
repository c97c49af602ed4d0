"""`ddpquiz check --labs`: what the checks of labs must decide, on real ranks."""

from __future__ import annotations

import typer


def prove_labs(names: list[str]) -> list[str]:
    """Check all attempts of these labs on real ranks, and return a line for each verdict that is wrong."""
    from ddpquiz.curriculum.labs import load_lab
    from ddpquiz.ranks.lab_proof import prove_lab

    problems: list[str] = []
    for name in names:
        lab = load_lab(name)
        for proven in prove_lab(lab):
            verdict = proven.verdict
            what = "passed" if verdict.passed else f"caught by {verdict.caught}"
            typer.echo(f"{lab.id}: {proven.attempt.name}: {what}, {verdict.seconds:.1f} s. {verdict.sentence}")
            if proven.complaint:
                problems.append(f"{lab.folder / 'lab.yaml'}: {proven.complaint}")
    return problems
