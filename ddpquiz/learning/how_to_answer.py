"""What the learner has to do to answer a question, in a sentence."""

from ddpquiz.curriculum.concept import Kind, Question

_HOW = {
    Kind.CHOICE: "Choose one.",
    Kind.CHOICES: "Choose all that are right, and no other.",
    Kind.NUMBER: "Type a number.",
    Kind.ORDER: "Type the numbers of the lines in the right order, such as 2 1 3.",
    Kind.OUTPUT: "Type what this prints.",
    Kind.SPOT: "Choose the line that is at fault.",
}


def how_to_answer(question: Question) -> str:
    """Return what the learner has to do, in a sentence."""
    lines = len(question.answer.strip().splitlines())
    if question.kind is Kind.OUTPUT and lines > 1:
        return f"Type the {lines} lines that this prints, one after the other in one line."
    return _HOW[question.kind]
