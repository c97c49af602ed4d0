"""Where a learner stands over all concepts, and what to do next."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

from ddpquiz.curriculum.catalog import LabTitle
from ddpquiz.curriculum.concept import Concept
from ddpquiz.learning.guided_path import GuidedPath, StageName
from ddpquiz.learning.mastery import Label, Strength, strengths, weakest
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import begun, new_left
from ddpquiz.learning.study import MORE, coming_again, due_now, due_soon, sort_new
from ddpquiz.learning.study_choice import CARDS_A_SITTING, proven, unread, waiting
from ddpquiz.plural import plural


@dataclass(frozen=True, slots=True)
class TrackStrength:
    """How strong the concepts of a track are: the mean of those that were tested, and how many of each label."""

    track: str
    mean: float
    labels: Counter[Label]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a learner stands: counts of cards, strengths of concepts, and the one that needs work most."""

    day: date
    due: int
    new_today: int  # new cards that the limit of a day still allows
    new: int  # cards never seen that study offers
    begun: int  # new cards of this day
    seen: int  # cards that were asked at least once
    soon: tuple[int, ...]  # cards due on each of the next seven days
    labels: Counter[Label]  # how many concepts
    weakest: Concept | None
    weakness: Strength | None
    next_concept: Concept | None  # to test next: the first untested one that was learned; without a lesson, the first
    tested: int = 0  # concepts with answers
    tracks: tuple[TrackStrength, ...] = ()  # those with answers, weakest first
    streak: int = 0  # study days in a row
    again: int = 0  # cards that were asked today and come again
    labs: int = 0  # that were passed
    stars: int = 0  # of these labs
    open_labs: tuple[LabTitle, ...] = ()  # of lessons that are done, in their order
    lesson_with_lab: Concept | None = None  # the first that has one, of those that are not done
    path: GuidedPath | None = None  # to go on with
    core: int = 0  # lessons of the core route
    core_read: int = 0  # of these, those that were read
    has_learned: bool = False  # a step of a lesson or another stage of a path was done or skipped

    @property
    def fresh(self) -> bool:
        """True if the learner has done nothing yet."""
        return not (self.seen or self.tested or self.has_learned or (self.path and self.path.begun))

    @property
    def more(self) -> int:
        """How many new cards can be added today, once nothing else is left to recall."""
        return 0 if self.due or self.again or self.new_today else min(self.new, MORE)


class Act(StrEnum):
    """What there is to do next."""

    STUDY = "study"
    LEARN = "learn"
    TEST = "test"
    MORE = "study more new cards"


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to do, the command for it, the reason to do it now, and the concept that it is about, if it is one."""

    act: Act
    command: str
    why: str
    concept: Concept | None = None

    @property
    def what(self) -> str:
        return f'{self.act} "{self.concept.title}"' if self.concept else str(self.act)


def count_standing(progress: Progress, concepts: Sequence[Concept], day: date) -> Standing:
    """Count what the home screen shows; concepts are in learning order.

    Removed and hidden items do not count, nor do new cards of concepts that were proven strong or that are `unread`.
    """
    memories, hidden, graded = progress.memories(), progress.hidden(day), progress.grades(day)
    cards = [card for concept in concepts for card in concept.cards if card.key not in hidden]
    seen = {card.key: memories[card.key] for card in cards if card.key in memories}
    strong = strengths(progress.last_answers(), day)
    here = {concept.id: strong[concept.id] for concept in concepts if concept.id in strong}
    stages = {row.item for row in progress.entries("stage")}
    wait = waiting(stages, concepts)
    unseen = [card for card in cards if card.key not in seen and card.key not in wait]
    offered = sort_new(unseen, unread(progress, concepts), proven(strong, stages)).offered
    untested = [concept for concept in concepts if not _was_tested(concept, here.get(concept.id))]
    studied = [
        concept
        for concept in untested
        if f"{concept.id}/{StageName.LESSON}" in stages or any(card.key in seen for card in concept.cards)
    ]
    weak = weakest(here)
    passed = [lab for lab in progress.labs().values() if lab.passed]
    return Standing(
        day=day,
        due=due_now(seen, day, graded),
        again=coming_again(seen, graded),
        new_today=min(len(offered), new_left(memories, day)),
        new=len(offered),
        begun=begun(memories, day),
        seen=len(seen),
        soon=tuple(due_soon(seen, day)),
        labels=_labels(concepts, here),
        weakest=next((concept for concept in concepts if concept.id == weak), None),
        weakness=here.get(weak or ""),
        next_concept=next(iter(studied or ([] if stages else untested)), None),
        tested=len(here),
        tracks=_tracks(concepts, here),
        labs=len(passed),
        stars=sum(len(lab.stars) for lab in passed),
        streak=streak((date.fromisoformat(done) for done, *_ in progress.days()), day),
    )


def streak(days: Iterable[date], today: date) -> int:
    """How many days in a row something was done, up to today or yesterday."""
    done, count = frozenset(days), 0
    last = today if today in done else today - timedelta(days=1)
    while last - timedelta(days=count) in done:
        count += 1
    return count


def _was_tested(concept: Concept, known: Strength | None) -> bool:
    """Whether a test had enough answers for a verdict, or all that there are; one left early is offered again."""
    return known is not None and (known.has_verdict or known.answers >= len(concept.questions))


def _labels(concepts: Iterable[Concept], known: Mapping[str, Strength]) -> Counter[Label]:
    return Counter(known[concept.id].label if concept.id in known else Label.UNKNOWN for concept in concepts)


def _tracks(concepts: Sequence[Concept], known: Mapping[str, Strength]) -> tuple[TrackStrength, ...]:
    found = []
    for track in dict.fromkeys(concept.track for concept in concepts):
        within = [concept for concept in concepts if concept.track == track]
        tested = [known[concept.id].mean for concept in within if concept.id in known]
        if tested:
            found.append(TrackStrength(track, sum(tested) / len(tested), _labels(within, known)))
    return tuple(sorted(found, key=lambda one: one.mean))


def advise(now: Standing) -> list[Advice]:
    """What to do next, the best first: recall, then go on with the path, then new cards, then a test.

    Cards that only come again today can wait until after the next lesson.
    """
    found: list[Advice] = []
    counts = ((now.due, "due"), (now.again, "to repeat"))
    cards = " and ".join(f"{plural(count, 'card')} {what}" for count, what in counts if count)
    if now.due:
        most = f"; a sitting has {CARDS_A_SITTING}" if now.due > CARDS_A_SITTING else ""
        found.append(Advice(Act.STUDY, "ddpquiz study", cards + most))
    if now.path and now.path.current:
        where = now.path.position.partition(": ")[2]
        found.append(Advice(Act.LEARN, "ddpquiz learn", where, now.path.concept))
    if now.again and not now.due:
        found.append(Advice(Act.STUDY, "ddpquiz study", cards))
    if now.new_today and not (now.due or now.again):
        found.append(Advice(Act.STUDY, "ddpquiz study", f"{plural(now.new_today, 'new card')} for today"))
    if now.more:
        what = f"{plural(now.more, 'more new card')} today"
        found.append(Advice(Act.MORE, f"ddpquiz study --new {now.begun + MORE}", what))
    if now.next_concept:
        found.append(Advice(Act.TEST, f"ddpquiz test {now.next_concept.id}", "not tested yet", now.next_concept))
    return found or [Advice(Act.TEST, "ddpquiz test --level hard", "nothing is due; stay sharp")]
