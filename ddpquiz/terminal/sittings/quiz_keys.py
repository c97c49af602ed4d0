"""What a quiz offers at each moment: the keys that work now, and what is said without being asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.learning.calibration import sureness
from ddpquiz.learning.judge import answered, chance
from ddpquiz.terminal.kit.hotkeys import FROM_ESCAPE, HELP, QUIT, Hotkey
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.sittings.answer_entry import is_typed
from ddpquiz.terminal.sittings.question_view import is_calculation
from ddpquiz.terminal.sittings.sitting_keys import DEMO, PROOF

if TYPE_CHECKING:
    from ddpquiz.curriculum.concept import Question
    from ddpquiz.learning.quiz import Quiz
    from ddpquiz.terminal.sittings.answer_entry import Entry

SKIP = Hotkey("s", "skip", "leave this question unanswered")
SOLVE = Hotkey("x", "solution", "give up and see the solution; it earns nothing")
UNDO = Hotkey("u", "undo", "take back the last step; what has been judged stays as it is")
LOOK_BACK = Hotkey("u", "look back", "look at the verdict before this one; it stays as it is")
NEXT = Hotkey("enter", "next", "go on to the next question")
FORWARD = Hotkey("enter", "forward", "go forward to where you were")
RETRY = Hotkey("r", "retry", "ask what was wrong once more, with new values and in a new order; no verdict counts it")
CALCULATION = Hotkey("p", "calculation", "run the calculation behind the answer, and come back here")
IN_EXAM = "There are no hints, solutions and demos in an exam; s skips."
_EXAM = "An exam: answers are taken without a word, and the verdicts come at the end."
_ADAPTIVE_EXAM = f"{_EXAM} It ends early once enough is known."
_SURE = ("guess", "unsure", "fairly", "sure")
_HOW_SURE = "You answered {given}. How sure are you: 1 a guess, 2 unsure, 3 fairly sure, 4 sure?"


def keys(quiz: Quiz, entry: Entry, flag: Hotkey, *, demo: bool) -> list[Hotkey]:
    """Return the keys that work now; `demo` says whether there is one to run."""
    demos = [DEMO] if demo else []
    if quiz.posed is None:
        return [Hotkey("enter", "leave"), *([RETRY] if quiz.missed else []), *_back(quiz), *demos, HELP]
    question = quiz.posed.question
    if quiz.judged:
        go_on = FORWARD if quiz.looked else NEXT
        return [go_on, *_proof(question), *demos, *_back(quiz), flag, HELP, QUIT]
    if quiz.pending:
        said = zip(_SURE, sureness(chance(question)).items(), strict=True)
        return [*(Hotkey(str(key), f"{word} {of_it:.0%}") for word, (key, of_it) in said), *_back(quiz), HELP, QUIT]
    if not is_typed(question):
        return [*entry.keys(question), *commands(quiz, flag, demo=demo)]
    return [FROM_ESCAPE, *commands(quiz, flag, demo=demo)] if entry.escaped else entry.keys(question)


def commands(quiz: Quiz, flag: Hotkey, *, demo: bool) -> list[Hotkey]:
    """Return the keys that work while a question is on screen, besides those that answer it."""
    if quiz.posed is None or quiz.rules.exam:
        return [*_back(quiz), SKIP, flag, HELP, QUIT]
    left = len(quiz.posed.question.hints) - quiz.hints
    more = f"a hint, of {left} that are left; with any number of hints a right answer earns half a point"
    hint = [Hotkey("h", f"hint ({left})", more)] if left else []
    demos = [DEMO] if demo and not quiz.rules.timed else []
    return [*hint, *_back(quiz), SOLVE, SKIP, *demos, flag, HELP, QUIT]


def _back(quiz: Quiz) -> list[Hotkey]:
    if quiz.previous and not quiz.looked:
        return [UNDO]
    return [LOOK_BACK] if quiz.looked < len(quiz.behind) else []


def _proof(question: Question) -> list[Hotkey]:
    if question.proof is None:
        return []
    return [CALCULATION if is_calculation(question) else PROOF]


def remark(quiz: Quiz) -> str:
    """Return what is to be said about the question on screen."""
    if quiz.unclear or quiz.posed is None:
        return quiz.unclear
    if quiz.pending:
        return _HOW_SURE.format(given=plain(answered(quiz.pending.posed, quiz.pending.given)))
    if quiz.rules.exam and not quiz.place:
        return _ADAPTIVE_EXAM if quiz.rules.adaptive else _EXAM
    return ""
