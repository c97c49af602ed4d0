"""The proof of an answer as text: the code that ranks run with the right answer in it, and what they must print."""

from dataclasses import dataclass

from ddpquiz.curriculum.concept import CodeProof, DemoProof, Kind, Question, Shows
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.curriculum.snippet import has_option_line, with_option


@dataclass(frozen=True, slots=True)
class ProofText:
    """A proof: what runs, its code if it is not a demo, and the expected output or ""; `ends` says how it ends."""

    what: str
    code: str = ""
    expected: str = ""
    ends: str = ""


def proof_text(posed: Posed) -> ProofText | None:
    """Return the proof of a posed question; None if it has none."""
    question, proof = posed.question, posed.question.proof
    if proof is None:
        return None
    ranks = f"{proof.ranks} rank{'' if proof.ranks == '1' else 's'}"
    if isinstance(proof, DemoProof):
        words = " ".join((proof.demo, *proof.args))
        return ProofText(f"The demo {words} prints `{proof.label}` on {ranks}.", expected=_expected(question)[0])
    code = proof.code or question.code
    if has_option_line(code):
        code = with_option(code, _right_code(question))
    values = "".join(f"{name} = {value}\n" for name, value in posed.values.items())
    if question.kind is Kind.SPOT:
        ranks += ", as it is and with the line fixed"
    return ProofText(f"This code runs on {ranks}.", values + code, *_expected(question))


def _right_code(question: Question) -> str:
    if question.kind is Kind.SPOT:
        return question.code
    if question.kind is Kind.ORDER:
        return "\n".join(line.text for line in question.lines)
    return next(option.text.strip().strip("`") for option in question.options if option.right)


def _expected(question: Question) -> tuple[str, str]:
    """Return what ranks must print, and a sentence for ranks that do not end well."""
    if isinstance(question.proof, CodeProof) and question.proof.shows:
        return _of_shows(question.proof.shows)
    match question.kind:
        case Kind.NUMBER:
            return question.answer, ""
        case Kind.OUTPUT:
            return (question.answer if question.rank is None else f"rank {question.rank}: {question.answer}"), ""
        case Kind.ORDER:
            return "\n".join(line.shows for line in question.lines if line.shows), ""
        case _:
            every = [_of_shows(option.shows) for option in question.options if option.right and option.shows]
            return "\n".join(text for text, _ in every if text), " ".join(ends for _, ends in every if ends)


def _of_shows(shows: Shows) -> tuple[str, str]:
    if shows.hangs:
        return "", "The ranks wait forever."
    if shows.raises is not None:
        return shows.raises, ""
    if shows.by_rank is not None:
        return "\n".join(f"rank {rank}: {text}" for rank, text in shows.by_rank.items()), ""
    return shows.everywhere or "", ""
