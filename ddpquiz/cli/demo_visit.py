"""A run of a demo in the middle of a sitting: a prediction, the run on the screen, and what came of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ddpquiz.cli import demo, prediction

if TYPE_CHECKING:
    from ddpquiz.cli.prediction import Before
    from ddpquiz.curriculum.concept import DemoLink
    from ddpquiz.terminal.sittings.path import DemoVisit


def visit(link: DemoLink, before: Before, *, ask: bool = True, step: bool = False, place: str = "") -> DemoVisit | None:
    """Ask for a prediction, and run a demo; return None if the learner declines the run.

    Without `ask`, and in a pipe, there is no prediction. With `step`, the run opens at its first operation once it has
    ended. `place` is that of the run in a guided path; see Desk.
    """
    from ddpquiz.curriculum.demo_scripts import read_demo
    from ddpquiz.ranks.elastic.elastic_run import begin
    from ddpquiz.ranks.request import Request
    from ddpquiz.terminal.kit import screen, style
    from ddpquiz.terminal.runs import plain_lines, watch
    from ddpquiz.terminal.runs.frame import Hint
    from ddpquiz.terminal.sittings.path import DemoVisit
    from ddpquiz.terminal.sittings.prediction import NoRun

    console, script, predicted = style.console(), demo.script_of(link.run), None
    if ask and screen.is_interactive():
        try:
            predicted = prediction.ask(link.run, link.args, link.ranks, console, before)
        except NoRun:
            return None
    ranks = predicted.link.ranks if predicted else link.ranks
    restarts = read_demo(script).restarts
    request = Request(script, args=link.args, ranks=ranks, timeout=demo.PATIENCE, restarts=restarts)
    if screen.is_interactive():
        hint = replace(predicted.hint if predicted else Hint(link.look), place=place)
        how = watch.LiveOptions(hint=hint, stay=True, step=step)
        state = watch.live(lambda chosen, _: begin(chosen), request, console, how).asked
    else:
        state = plain_lines.print_run(begin(request), console)
    demo.save_time(script, link.args, state)
    return DemoVisit(
        remark=prediction.note(predicted, state) if predicted else "",
        was_predicted=bool(predicted and predicted.prediction),
        ended_well=bool(state.end and state.end.ok),
    )
