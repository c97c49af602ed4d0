"""`ddpquiz optimize`: fit the schedule to your own reviews."""

from __future__ import annotations

from dataclasses import replace

from ddpquiz.cli import clock
from ddpquiz.cli.output import say
from ddpquiz.cli.progress_file import moved_items, open_progress
from ddpquiz.errors import UserError
from ddpquiz.learning import fit
from ddpquiz.learning.schedule import FSRS_6


def optimize() -> None:
    """Fit the scheduler's weights to your own reviews; they are used from then on if they predict better.

    Cards that are already scheduled keep their dates. The same reviews give the same weights.
    Needs pip install 'ddpquiz[optimize]'.
    """
    with open_progress(moved_items()) as progress:
        known = fit.histories(progress.entries("review"))
        if (count := fit.recalls(known)) < fit.ENOUGH:
            raise UserError(
                f"It is too early: this takes {fit.ENOUGH} reviews of cards that you had seen on an earlier day, "
                f"and there are {count:,}. Until then the usual schedule is best for you; go on with `ddpquiz study`."
            )
        before = progress.weights()
        fitted = fit.fit(known, before.retention)
        old, new = fit.look(known, before), fit.look(known, fitted)
        start = fit.look(known, replace(before, parameters=FSRS_6))
        say(f"{fit.recalls(known):,} reviews show what you forget and when. Expected loss (less is better):")
        if before.parameters != FSRS_6:
            say(f"  FSRS-6 as it starts  {start.says}")
        say(f"  in use until now     {old.says}")
        say(f"  fitted to you        {new.says}")
        if new.loss < old.loss:
            progress.use_weights(fitted, clock.now())
            say(f"The fitted weights are in use from now on, at a retention of {before.retention:.0%}.")
        else:
            say("The fitted weights predict no better, so nothing was changed.")
