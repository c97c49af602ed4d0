"""Where the learner stands now, for home and for the end of a sitting."""

from collections.abc import Sequence
from dataclasses import replace

from ddpquiz.curriculum.concept import Concept
from ddpquiz.learning.guided_path import GuidedPath, PathHistory, load_history, next_path, route
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.standing import Standing, count_standing
from ddpquiz.terminal.sittings.sitting import SittingContext


def look(context: SittingContext) -> Standing:
    """Where the learner stands now, and the path to go on with."""
    concepts, day = context.catalog.concepts, study_day(context.clock())
    history = history_of(context)
    labs = [lab for one in route(context.catalog, history) for lab in context.catalog.labs_about(one.id)]
    return replace(
        count_standing(context.progress, concepts, day),
        path=path_to_go_on(context),
        core=len(context.catalog.core),
        core_read=sum(map(history.has_read, context.catalog.core)),
        has_learned=bool(history.stages),
        open_labs=tuple(lab for lab in labs if history.has_read(lab.concept) and lab.id not in history.passed),
        lesson_with_lab=next(
            (context.concepts[lab.concept] for lab in labs if not history.has_read(lab.concept)), None
        ),
    )


def path_to_go_on(context: SittingContext, within: Sequence[Concept] = ()) -> GuidedPath | None:
    """The path to go on with now, of all concepts or of some; None if all are finished."""
    history = history_of(context)
    return next_path(within or route(context.catalog, history), context.catalog.labs, history)


def history_of(context: SittingContext) -> PathHistory:
    """What the learner has done so far."""
    return load_history(context.progress, study_day(context.clock()))
