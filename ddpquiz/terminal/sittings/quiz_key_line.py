"""The hotkeys of a quiz: those that work now, as the line of keys and the help list them."""

from ddpquiz.learning.calibration import sureness
from ddpquiz.learning.judge import chance
from ddpquiz.learning.quiz_state import Quiz
from ddpquiz.terminal.kit.hotkeys import FROM_ESCAPE, HELP, QUIT, Hotkey
from ddpquiz.terminal.sittings.answer_entry import Entry, is_typed
from ddpquiz.terminal.sittings.exam_overview import number_key
from ddpquiz.terminal.sittings.question_view import is_calculation
from ddpquiz.terminal.sittings.sitting import DEMO, PROOF

SKIP = Hotkey("s", "skip", "leave this question unanswered")
SOLVE = Hotkey("x", "solution", "show the solution; the question then earns nothing")
UNDO = Hotkey("u", "undo", "undo the last step; verdicts do not change")
LOOK_BACK = Hotkey("u", "look back", "look at the verdict before this one again")
NEXT = Hotkey("enter", "next", "go on to the next question")
FORWARD = Hotkey("enter", "forward", "go forward to the next verdict, or to where you were")
TO_QUESTION = Hotkey("esc", "back", "go back to where you were")
RETRY = Hotkey("r", "retry", "answer what was wrong once more, with new values and in a new order; it does not count")
CALCULATION = Hotkey("p", "calculation", "run the calculation behind the answer, and come back here")
DEMO_AS_HINT = Hotkey(
    "d", "demo", "run this concept's demo; before the answer it counts as a hint, so a right answer earns half a point"
)
PREVIOUS = Hotkey("u", "back", "go back to the question before this one, to change its answer")
FOLLOWING = Hotkey("s", "next", "go to the next question, with or without an answer; you can come back to this one")
END = Hotkey("q", "end", "see which questions have no answer, and end the exam there")
END_HERE = Hotkey("q", "end", "end here and see the result; everything is saved already")
END_NOW = Hotkey("q", "end the exam", "end the exam and see the verdicts; no answer can be changed after that")
TURN = Hotkey("enter", "go on", "show the next page; after the last one, leave")
LEAVE = Hotkey("q", "leave", "leave; the verdicts stay above the prompt of the shell")
_SURE = ("guess", "unsure", "fairly", "sure")


def keys(quiz: Quiz, entry: Entry, flag: Hotkey, *, demo: bool, escaped: bool) -> list[Hotkey]:
    """Return the keys that work now; `demo` says whether there is one to run, `escaped` that escape was pressed."""
    demos = [DEMO] if demo else []
    if quiz.overview:
        first = [f"question {place + 1}" for place in quiz.open[:1]]
        to_first = [Hotkey("enter", does, "go to the first question without an answer") for does in first]
        return [*to_first, number_key(quiz), PREVIOUS, END_NOW, HELP]
    if quiz.posed is None:
        leave = [TURN, LEAVE] if quiz.rules.exam else [Hotkey("enter", "leave")]
        return [*leave, *([RETRY] if quiz.missed else []), *_back(quiz), *demos, HELP]
    question = quiz.posed.question
    if quiz.judged:
        go_on = [FORWARD, TO_QUESTION] if quiz.looked else [NEXT]
        proof = [CALCULATION if is_calculation(question) else PROOF] if question.proof else []
        return [*go_on, *proof, *demos, *_back(quiz), flag, HELP, QUIT]
    if quiz.pending:
        words = _SURE if chance(question) else ("wrong", *_SURE[1:])  # nobody guesses what is typed
        said = zip(words, sureness(chance(question)).items(), strict=True)
        rest = [PREVIOUS, HELP, END] if quiz.rules.exam else [*_back(quiz), HELP, QUIT]
        return [*(Hotkey(str(key), f"{word} {of_it:.0%}") for word, (key, of_it) in said), *rest]
    if not is_typed(question):
        return [*entry.keys(question), *commands(quiz, flag, demo=demo)]
    return [FROM_ESCAPE, *commands(quiz, flag, demo=demo)] if escaped else entry.keys(question)


def commands(quiz: Quiz, flag: Hotkey, *, demo: bool) -> list[Hotkey]:
    """Return the keys that work while a question is on screen, besides those that answer it."""
    if quiz.posed is None:
        return []
    if quiz.rules.exam:
        return [*([PREVIOUS] if quiz.place else []), FOLLOWING, flag, HELP, END]
    left = max(0, len(quiz.posed.question.hints) - quiz.hints)
    more = f"a hint, of {left} that are left; with any number of hints a right answer earns half a point"
    hint = [Hotkey("h", f"hint ({left})", more)] if left else []
    demos = [DEMO_AS_HINT] if demo and not quiz.rules.timed else []
    return [*hint, *_back(quiz), SOLVE, SKIP, *demos, flag, HELP, QUIT]


def _back(quiz: Quiz) -> list[Hotkey]:
    if quiz.previous and not quiz.looked:
        return [UNDO]
    return [LOOK_BACK] if quiz.looked < len(quiz.behind) else []


def inside(keys: list[Hotkey], quiz: Quiz, leave: Hotkey) -> list[Hotkey]:
    """Return the keys of a quiz with the one that leaves: inside another screen, it shows the result first."""
    end = END_HERE if quiz.answers and leave is not QUIT else leave
    return [end if key is QUIT else key for key in keys]
