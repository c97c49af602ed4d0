"""One quiz: what each answer and key does to it. Old state and event in, new state out."""

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.posed_question import Posed, pose
from ddpquiz.learning import exam
from ddpquiz.learning.graded_answer import Answer
from ddpquiz.learning.judge import Verdict
from ddpquiz.learning.question_selection import ask_next
from ddpquiz.learning.quiz_state import (
    PLAIN,
    Event,
    Given,
    Late,
    Quiz,
    QuizAction,
    Rules,
    SetSureness,
    judged_answer,
    unanswered,
)


def begin(
    questions: Iterable[Question], dice: random.Random, at: datetime, *, retry: bool = False, rules: Rules = PLAIN
) -> Quiz:
    """Return a quiz with the first question on screen."""
    posed = tuple(pose(question, dice) for question in questions)
    if not rules.adaptive:
        return Quiz(posed, at, at, retry=retry, rules=rules)
    rules = replace(rules, adaptive=min(rules.adaptive, len(posed)))
    return ask_next(Quiz((), at, at, rules=rules, pool=posed))


def step(quiz: Quiz, event: Event, at: datetime) -> Quiz:
    """Return the quiz after an event; an event that means nothing now changes nothing."""
    if quiz.rules.exam:
        return exam.step(quiz, event, at)
    posed = quiz.posed
    match event:
        case QuizAction.UNDO:
            return _undone(quiz, at)
        case QuizAction.DEMO if posed and not quiz.judged:
            return replace(_hinted(quiz, posed, max(1, len(posed.question.hints))), since=at)
        case QuizAction.BACK | QuizAction.DEMO:
            return replace(quiz, since=at)
        case QuizAction.STOP if posed:
            after = _answered(quiz, quiz.pending) if quiz.pending else quiz  # an answer counts without a sureness
            return _undoable(replace(after, stopped=True, looked=0), quiz)
        case QuizAction.NEXT if quiz.looked:
            return replace(quiz, looked=quiz.looked - 1, since=at)
        case QuizAction.NEXT if quiz.judged:
            return _advanced(quiz, at)
        case SetSureness(of_it) if quiz.pending and not quiz.judged:
            return _answered(quiz, replace(quiz.pending, confidence=of_it))
        case _ if posed and not quiz.judged and not quiz.pending:
            return _step_of_question(quiz, posed, event, at)
    return quiz


def _step_of_question(quiz: Quiz, posed: Posed, event: Event, at: datetime) -> Quiz:
    """Return the quiz after an event while a question waits for its answer."""
    match event:
        case QuizAction.SKIP:
            return _undoable(_advanced(quiz, at), quiz)
        case QuizAction.HINT if quiz.hints < len(posed.question.hints):
            return _hinted(quiz, posed, quiz.hints + 1)
        case QuizAction.SOLVE:
            return _answered(
                quiz, Answer(posed, "", Verdict(right=False), at, at - quiz.since, hints=quiz.hints, solved=True)
            )
        case Late(text):
            return _out_of_time(replace(quiz, late=quiz.late | {quiz.place}), posed, text, at)
        case Given(text):
            return _given(quiz, judged_answer(quiz, posed, text, at))
    return quiz


def news(old: Quiz, new: Quiz) -> tuple[Answer | None, Answer | None]:
    """Return the answer that a step added and the one that it removed, for the log."""
    now, before = new.answers[-1:], old.answers
    added = now[0] if now and not any(answer is now[0] for answer in before) else None
    after = {id(answer) for answer in new.answers}
    return added, next((answer for answer in before if id(answer) not in after), None)


def _undone(quiz: Quiz, at: datetime) -> Quiz:
    """Go back to before the last step, or look at an earlier verdict; hints that were seen stay seen."""
    if quiz.previous and not quiz.looked:
        return replace(quiz.previous, since=at, unclear="", hinted=quiz.hinted)
    return replace(quiz, looked=min(quiz.looked + 1, len(quiz.behind)))


def _hinted(quiz: Quiz, posed: Posed, hints: int) -> Quiz:
    return replace(quiz, hinted={**quiz.hinted, id(posed): hints}, unclear="")


def _advanced(quiz: Quiz, at: datetime) -> Quiz:
    after = replace(quiz, place=quiz.place + 1, unclear="", answer=None, pending=None, since=at, previous=None)
    return ask_next(after)


def _given(quiz: Quiz, answer: Answer) -> Quiz:
    """Accept an answer, after asking how sure the learner is if the rules say so; a text may not be an answer."""
    if answer.verdict.unclear:
        return replace(quiz, unclear=answer.verdict.unclear)
    if quiz.rules.confidence:
        return _undoable(replace(quiz, pending=answer, unclear=""), quiz)
    return _answered(quiz, answer)


def _answered(quiz: Quiz, answer: Answer) -> Quiz:
    """Record an answer, and show the verdict on it."""
    return replace(quiz, answers=(*quiz.answers, answer), answer=answer, pending=None, unclear="", previous=None)


def _undoable(after: Quiz, before: Quiz) -> Quiz:
    """Let undo lead back, but not to a question whose clock ran."""
    return replace(after, previous=None if after.rules.timed else before)


def _out_of_time(quiz: Quiz, posed: Posed, text: str, at: datetime) -> Quiz:
    """Accept the text that was typed so far; if it is not an answer, the question counts as not answered."""
    answer = judged_answer(quiz, posed, text, at, late=True)
    if answer.verdict.unclear:
        return replace(quiz, answer=unanswered(posed, at), unclear="", previous=None)
    return _given(quiz, answer)
