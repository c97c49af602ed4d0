"""What a quiz offers at each moment: the keys that work now, and what is said without being asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.learning.calibration import SURENESS
from ddpquiz.terminal.answering import is_typed
from ddpquiz.terminal.hotkeys import DEMO, FLAG, HELP, PROOF, QUIT, Hotkey
from ddpquiz.terminal.style import plain

if TYPE_CHECKING:
    from ddpquiz.learning.quiz import Quiz
    from ddpquiz.terminal.answering import Entry

SKIP = Hotkey("s", "skip", "leave this question unanswered")
SOLVE = Hotkey("x", "solution", "give up and see the solution; it earns nothing")
UNDO = Hotkey("u", "undo", "take the last answer or skip back; once its verdict was shown, a new answer earns nothing")
NEXT = Hotkey("enter", "next", "go on to the next question")
RETRY = Hotkey("r", "retry", "ask what was wrong once more, with new values and in a new order")
SURE = tuple(
    Hotkey(str(key), f"{word} {SURENESS[key]:.0%}") for key, word in enumerate(("guess", "unsure", "fairly", "sure"), 1)
)
IN_EXAM = "There are no hints, solutions and demos in an exam; s skips."
_TOLD = "The answer was shown: a new one earns nothing."
_EXAM = "An exam: answers are taken without a word, and the verdicts come at the end."
_HOW_SURE = "You answered {given}. How sure are you: 1 a guess, 2 unsure, 3 fairly sure, 4 sure?"


def keys(quiz: Quiz, entry: Entry, *, demo: bool) -> list[Hotkey]:
    """Return the keys that work now; `demo` says whether there is one to run."""
    undo = [UNDO] if quiz.previous else []
    demos = [DEMO] if demo else []
    if quiz.posed is None:
        return [Hotkey("enter", "leave"), *([RETRY] if quiz.missed else []), *undo, *demos, HELP]
    if quiz.pending:
        return [*SURE, *undo, HELP, QUIT]
    question = quiz.posed.question
    if quiz.judged:
        return [NEXT, *([PROOF] if question.proof else []), *demos, *undo, FLAG, HELP, QUIT]
    if not is_typed(question):
        return [*entry.keys(question), *commands(quiz, demo=demo)]
    return commands(quiz, demo=demo) if entry.escaped else entry.keys(question)


def commands(quiz: Quiz, *, demo: bool) -> list[Hotkey]:
    """Return the keys that work while a question is on screen, besides those that answer it."""
    undo = [UNDO] if quiz.previous else []
    if quiz.posed is None or quiz.rules.exam:
        return [*undo, SKIP, FLAG, HELP, QUIT]
    left = len(quiz.posed.question.hints) - quiz.hints
    more = f"a hint, of {left} that are left; it halves what a right answer earns"
    hint = [Hotkey("h", f"hint ({left})", more)] if left else []
    demos = [DEMO] if demo and not quiz.rules.timed else []
    return [*hint, *undo, SOLVE, SKIP, *demos, FLAG, HELP, QUIT]


def remark(quiz: Quiz) -> str:
    """Return what is to be said about the question on screen."""
    if quiz.unclear or quiz.posed is None:
        return quiz.unclear
    if quiz.pending:
        return _HOW_SURE.format(given=plain(quiz.pending.given))
    if quiz.told:
        return _TOLD
    return _EXAM if quiz.rules.exam and not quiz.place else ""
