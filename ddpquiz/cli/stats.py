"""`ddpquiz stats`: what you recall, what comes due, how strong you are, and what misled you."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from ddpquiz.cli import clock
from ddpquiz.cli.output import say
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.learning import statistics
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.statistics import Recall, Share, Statistics
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages.stats import Stats


def stats(
    as_json: Annotated[bool, typer.Option("--json", help="Write everything as JSON, and nothing else.")] = False,
) -> None:
    """Show what you recall, what comes due, your study days, how well you know each concept, and what misled you."""
    known = loading.load()
    with open_progress(known.moved) as progress:
        if as_json:
            say(to_json(_values(_statistics(known, progress)), indent=2))
        else:
            pager.show_paged(style.console(), Stats(_statistics(known, progress)))


def _statistics(known: Catalog, progress: Progress) -> Statistics:
    return statistics.statistics(progress, known.concepts, study_day(clock.now()))


def _values(now: Statistics) -> dict[str, Any]:
    return {
        "day": str(now.day),
        "streak": now.streak,
        "longest_streak": now.longest,
        "seconds": round(now.seconds),
        "days": [{"day": str(day), "done": did.done, "seconds": round(did.seconds)} for day, did in now.days.items()],
        "retention": {"wanted": now.wanted, "last_30_days": _recall(now.lately), "ever": _recall(now.ever)},
        "due": now.due,
        "coming_again": now.again,
        "forecast": list(now.ahead),
        "calibration": [{"confidence": sure.said, **_share(sure.share)} for sure in now.sure],
        "concepts": [
            {
                "concept": concept.id,
                "strength": strength.label,
                **{name: round(getattr(strength, name), 3) for name in ("mean", "low", "high")},
                "answers": strength.answers,
            }
            for concept, strength in now.strengths
        ],
        "untested": now.untested,
        "labs": [
            {
                "lab": lab.lab,
                "concept": lab.concept,
                "passed": str(lab.passed),
                "stars": lab.stars,
                "credit": lab.credit,
            }
            for lab in now.labs
        ],
        "misconceptions": [asdict(one) for one in now.misled],
    }


def _recall(recall: Recall) -> dict[str, Any]:
    return {"young": _share(recall.young), "mature": _share(recall.mature), "all": _share(recall.all)}


def _share(share: Share) -> dict[str, Any]:
    return {
        "count": share.count,
        "of": share.of,
        "share": None if share.value is None else round(share.value, 4),
        "low": round(share.low, 4),
        "high": round(share.high, 4),
    }
