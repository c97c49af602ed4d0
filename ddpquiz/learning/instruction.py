"""What the learner has to do to answer a question, in a sentence."""

from ddpquiz.curriculum.concept import Kind, Question

HOW = {
    Kind.CHOICE: "Choose one.",
    Kind.CHOICES: "Choose all that are right, and no other.",
    Kind.NUMBER: "Type a number.",
    Kind.ORDER: "Type the numbers of the lines in the right order, such as 2 1 3.",
    Kind.OUTPUT: "Type what this prints.",
    Kind.SPOT: "Choose the line that is at fault.",
}


def instruction(question: Question) -> str:
    """Return what the learner has to do, in a sentence."""
    lines = len(question.answer.strip().splitlines())
    if question.kind is Kind.OUTPUT and lines > 1:
        return f"This prints {lines} lines. Type them in one line, with a space between them."
    return HOW[question.kind]
