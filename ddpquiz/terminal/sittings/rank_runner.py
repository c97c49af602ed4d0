"""What a sitting runs on ranks: demos and proofs, from a screen and back to it.

The first card does not wait for what starts ranks, so that is imported where it is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import DemoLink
from ddpquiz.curriculum.demo_scripts import DEMO_PATIENCE, demo_names, read_demo
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.errors import ContentError, UserError
from ddpquiz.learning.side_files import Timing, save_timing
from ddpquiz.paths import data_dir, demo_file, demo_name, demos_dir, packs_dir
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.kit.style import console

if TYPE_CHECKING:
    from ddpquiz.events.run_state import RunState
    from ddpquiz.learning.progress import Progress  # the list of demos needs no database
    from ddpquiz.learning.quiz import Answer
    from ddpquiz.ranks.request import Request
    from ddpquiz.terminal.sittings.prediction import PredictedRun


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """How a demo is run from a screen.

    The question `answered` is on screen already, so it is not asked for the prediction, nor is one whose last answer
    was right; a question of the concept `about` is preferred. Without `predict` there is no prediction. With `step`,
    the run opens at its first operation once it has ended. `asked_at` and `run_at` are the places in a guided path.
    `predicted` is an answer that was given before, which the run shows beside its result. With `brief`, a run that ends
    well leads back at once, to a screen that shows what it printed.
    """

    answered: str = ""
    about: str = ""
    predict: bool = True
    step: bool = False
    asked_at: str = ""
    run_at: str = ""
    predicted: Answer | None = None
    brief: bool = False


DEFAULT_OPTIONS = DemoOptions()


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What came of a demo: a remark about the prediction, whether there was one, and whether the run ended well.

    `values` are the last ones that each rank printed, by label.
    """

    remark: str
    was_predicted: bool
    ended_well: bool
    values: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RankRunner:
    """What a sitting runs on ranks. Each method leaves the terminal usable, and may raise UserError."""

    catalog: Catalog
    progress: Progress
    clock: Callable[[], datetime]

    def warm(self) -> None:
        """Import torch in the background, so that a demo starts at once; if that fails, the demo reports it."""
        from ddpquiz.ranks import server_connection

        with contextlib.suppress(UserError):
            server_connection.warm()

    def demo(self, link: DemoLink, how: DemoOptions = DEFAULT_OPTIONS) -> DemoOutcome | None:
        """Run a demo after a prediction; None if the learner declines the run. In a pipe, nothing is asked."""
        from ddpquiz.ranks.installed_torch import require_demos
        from ddpquiz.ranks.request import Request
        from ddpquiz.terminal.sittings.prediction import NoRun

        require_demos()
        script, asked = script_of(link.run), None
        if how.predict and is_interactive():
            try:
                asked = self._ask(link, how)
            except NoRun:
                return None
        ranks = asked.link.ranks if asked else link.ranks
        restarts = read_demo(script).restarts
        request = Request(script, args=link.args, ranks=ranks, timeout=DEMO_PATIENCE, restarts=restarts)
        run = _run(request, link, how, asked)
        save_time(script, link.args, run)
        return DemoOutcome(
            remark=asked.remark(run, self.progress, self.clock()) if asked else "",
            was_predicted=bool(asked and asked.answer),
            ended_well=bool(run.end and run.end.ok),
            values={label: {rank: said[-1] for rank, said in by_rank.items()} for label, by_rank in run.rows.items()},
        )

    def _ask(self, link: DemoLink, how: DemoOptions) -> PredictedRun | None:
        from ddpquiz.learning.guided_path import has_learned
        from ddpquiz.terminal.sittings import prediction

        predicted = prediction.find_question(self.catalog, link, how.about)
        if predicted is None:
            return None
        _, question = predicted
        if question.key == how.answered or self._is_known(question.key):
            return None
        if question.concept != how.about and not has_learned(self.progress, question.concept):
            return None  # its lesson will ask it
        in_path = bool(how.asked_at)
        due = prediction.makes_card_due(self.catalog, question, self.progress, self.clock(), in_path=in_path)
        return prediction.ask(self.catalog, predicted, console(), how.asked_at, makes_due=due)

    def _is_known(self, question: str) -> bool:
        """Whether the last answer to a question was right: then there is nothing to predict."""
        return any(row.credit for row in self.progress.answers_to(question)[-1:])

    def prove(self, posed: Posed) -> None:
        """Run the proof of a question, and return once the learner has read the result."""
        from ddpquiz.terminal.sittings import proof_screen

        proof_screen.visit(posed, console())


def _run(request: Request, link: DemoLink, how: DemoOptions, asked: PredictedRun | None) -> RunState:
    from ddpquiz.ranks.elastic_run import begin
    from ddpquiz.terminal.runs import live_view, plain_lines
    from ddpquiz.terminal.runs.frame import Hint
    from ddpquiz.terminal.sittings.prediction import predicted_hint

    if not is_interactive():
        return plain_lines.print_run(begin(request), console())
    hint = asked.hint if asked else predicted_hint(link, how.predicted) if how.predicted else Hint(link.look)
    hint = replace(hint, place=how.run_at)
    step = how.step and not hint.prediction  # its result comes first
    options = live_view.LiveOptions(hint=hint, stay=True, step=step, brief=how.brief)
    return live_view.live(lambda chosen, _: begin(chosen), request, console(), options).asked


def script_of(name: str) -> Path:
    """The script of a demo. UserError if no demo has that name."""
    from ddpquiz.curriculum.pack_consent import allowed_pack

    pack, slash, demo = name.rpartition("/")
    path = demo_file(f"{pack}{slash}{demo.replace('-', '_').removesuffix('.py')}")
    if path.is_file():
        allowed_pack(pack)
    else:
        if Path(name).is_file():
            hint = f"`ddpquiz run {name}` runs a script of your own."
        else:
            near = _meant(name)
            hint = f"Did you mean '{near}'?" if near else "`ddpquiz demo` lists them."
        raise UserError(f"No demo named '{name}'. {hint}")
    return path


def _meant(name: str) -> str:
    """The demo that is probably meant, otherwise "".

    That is one of a pack with this name, one with nearly the same name, the first one of a concept with that name, or
    one with a similar name.
    """
    import difflib

    from ddpquiz.curriculum import loading

    added = [f"{file.parts[-3]}/{file.stem}" for file in packs_dir().glob("*/demos/[a-z]*.py")]
    demos = sorted([*demo_names(demos_dir()), *added])
    same = [demo for demo in demos if demo.rpartition("/")[2] == name]
    same += difflib.get_close_matches(name, demos, 1, cutoff=0.8)
    try:
        concepts = loading.load().concepts
    except ContentError:  # demos are also found while content is being edited
        concepts = ()
    about = [one.demos[0].run for one in concepts if one.demos and name.lower() in f"{one.id} {one.title}".lower()]
    return next(iter([*same, *about, *difflib.get_close_matches(name, demos, 1)]), "")


def save_time(script: Path, args: tuple[str, ...], seen: RunState) -> None:
    """Save how long a demo took, if it succeeded."""
    if seen.end and seen.end.ok:
        save_timing(data_dir(), demo_name(script), Timing(round(seen.end.time, 2), seen.ranks, args))
