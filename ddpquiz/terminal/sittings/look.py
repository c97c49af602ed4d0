"""Where the learner stands now, for home and for the end of a sitting."""

from dataclasses import replace

from ddpquiz.learning.guided_path import load_history, next_path, route
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.standing import Standing, count_standing
from ddpquiz.terminal.sittings.sitting import SittingContext


def look(context: SittingContext) -> Standing:
    """Where the learner stands now, and the path to go on with."""
    concepts, day = context.catalog.concepts, study_day(context.clock())
    history = load_history(context.progress, day)
    lessons = route(context.catalog, history)
    labs = [lab for one in lessons for lab in context.catalog.labs_about(one.id)]
    return replace(
        count_standing(context.progress, concepts, day),
        path=next_path(lessons, context.catalog.labs, history),
        core=len(context.catalog.core),
        core_read=sum(map(history.has_read, context.catalog.core)),
        has_learned=bool(history.stages),
        open_labs=tuple(lab for lab in labs if history.has_read(lab.concept) and lab.id not in history.passed),
        lesson_with_lab=next(
            (context.concepts[lab.concept] for lab in labs if not history.has_read(lab.concept)), None
        ),
    )
