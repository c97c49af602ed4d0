"""One exam: the learner goes back and forward, and answers replace each other until the end."""

from dataclasses import replace
from datetime import datetime

from ddpquiz.learning.graded_answer import Answer
from ddpquiz.learning.question_selection import ask_next
from ddpquiz.learning.quiz_state import Event, Given, GoTo, Late, Quiz, QuizAction, SetSureness, judged_answer


def step(quiz: Quiz, event: Event, at: datetime) -> Quiz:
    """Return the exam after an event; an event that means nothing now changes nothing."""
    if quiz.stopped:
        return quiz
    match event:
        case Late(text):
            return _out_of_time(quiz, text, at)
        case QuizAction.UNDO:
            return replace(quiz, pending=None) if quiz.pending else _moved(quiz, max(0, quiz.place - 1), at)
        case QuizAction.STOP:
            return replace(_recorded(quiz, quiz.pending), stopped=True)
        case GoTo(place):
            return _moved(_recorded(quiz, quiz.pending), place, at)
        case QuizAction.OVERVIEW:
            return _moved(_recorded(quiz, quiz.pending), len(quiz.asked), at)
        case SetSureness(of_it) if quiz.pending:
            return _next(_recorded(quiz, replace(quiz.pending, confidence=of_it)), at)
        case QuizAction.SKIP if quiz.posed and not quiz.pending:
            return _next(quiz, at)
        case Given(text) if not quiz.pending:
            return _given(quiz, text, at)
    return quiz


def _given(quiz: Quiz, text: str, at: datetime) -> Quiz:
    """Accept an answer to the question on screen, after asking how sure the learner is if the rules say so."""
    if quiz.posed is None:
        return quiz
    if quiz.given and quiz.given.given == text:
        return _next(quiz, at)
    answer = judged_answer(quiz, quiz.posed, text, at)
    if answer.verdict.unclear:
        return replace(quiz, unclear=answer.verdict.unclear)
    if quiz.rules.confidence:
        return replace(quiz, pending=answer, unclear="")
    return _next(_recorded(quiz, answer), at)


def _moved(quiz: Quiz, place: int, at: datetime) -> Quiz:
    """Show the question at a place, or the overview behind the last one."""
    return replace(quiz, place=min(place, len(quiz.asked)), unclear="", pending=None, since=at)


def _next(quiz: Quiz, at: datetime) -> Quiz:
    """Go on to the next question, which an adaptive exam chooses now."""
    return ask_next(_moved(quiz, quiz.place + 1, at))


def _recorded(quiz: Quiz, answer: Answer | None) -> Quiz:
    """Record an answer in place of the one that its question had."""
    if answer is None:
        return quiz
    others = (each for each in quiz.answers if each.posed is not answer.posed)
    return replace(quiz, answers=(*others, answer), pending=None, unclear="")


def _out_of_time(quiz: Quiz, text: str, at: datetime) -> Quiz:
    """End an exam whose time is over; what was entered is the answer to the question on screen."""
    answer = quiz.pending
    if quiz.posed and not answer and (quiz.given is None or quiz.given.given != text):
        entered = judged_answer(quiz, quiz.posed, text, at, late=True)
        answer = None if entered.verdict.unclear else entered
    ended = replace(_recorded(quiz, answer), stopped=True)
    return replace(ended, late=frozenset(ended.open))
