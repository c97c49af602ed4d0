"""What is shipped: it is whole, its proofs hold, and its demos are those that there are."""

import contextlib
import dataclasses
import io
import itertools
import math
import re
from collections.abc import Sequence
from unittest import mock

import pytest

from ddpquiz.curriculum.concept import CodeProof, DemoProof, Kind
from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.posed_question import parse_number, pose_with
from ddpquiz.curriculum.survey import survey
from ddpquiz.learning.answers import linked_cards
from ddpquiz.paths import demos_dir
from ddpquiz.ranks.content_check import draws, prove_all
from ddpquiz.ranks.content_runner import ProofRunner, all_close

CONCEPTS = [concept.id for concept in load().concepts]


def test_the_content_has_no_fault():
    assert [str(complaint) for complaint in survey(thorough=True).complaints] == []


def prose_of(part):
    """Yield the texts of a part of a concept that are read as sentences."""
    if isinstance(part, str):
        yield re.sub(r"```.*?```|`[^`]*`", "", part, flags=re.DOTALL)
    elif isinstance(part, Sequence):
        yield from itertools.chain.from_iterable(map(prose_of, part))
    elif dataclasses.is_dataclass(part):
        fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        yield from prose_of(
            [value for name, value in fields.items() if name not in {"code", "words", "proof", "prints"}]
        )


@pytest.mark.parametrize("concept", CONCEPTS)
def test_a_percentage_is_written_as_the_screens_write_it(concept):
    assert [text for text in prose_of(load().concept(concept)) if re.search(r"[\d}] %(\W|$)", text)] == []


def is_arithmetic(question):
    proof = question.proof
    code = proof.code if isinstance(proof, CodeProof) and question.kind is Kind.NUMBER and proof.ranks == "1" else None
    return bool(code) and not any(word in code for word in ("dist.", "Parallel", "subprocess"))


def its_proofs(concept):
    questions = tuple(load().concept(concept).questions)
    demos = {each.proof.demo for each in questions if isinstance(each.proof, DemoProof)}
    return [questions, *(demos_dir() / f"{name}.py" for name in sorted(demos))]


@pytest.mark.slow
@pytest.mark.case("proof", its_proofs)
@pytest.mark.parametrize("concept", CONCEPTS)
def test_every_proof_holds_for_its_key_and_for_no_other_answer(concept):
    questions = load().concept(concept).questions
    others = [question for question in questions if not is_arithmetic(question)]
    complaints = {proven.question.id: proven.complaints for proven in prove_all(others) if proven.complaints}
    assert complaints == {}
    for question in filter(is_arithmetic, questions):  # one draw on a rank; the test below needs none for every draw
        values = draws(question)[0]
        posed = pose_with(question, values)
        seen = ProofRunner().observe(posed)
        assert all_close(posed.numbers[0], question.tolerance, seen), (question.id, values, seen)


@pytest.mark.slow
@pytest.mark.parametrize("question", [each for each in load().questions() if is_arithmetic(each)], ids=lambda q: q.key)
def test_a_key_is_what_its_proof_prints_for_every_draw(question):
    """A proof runs on one draw at a time, and only some may show that a capacity must be a whole number."""
    for draw in itertools.product(*(variable.values for variable in question.variables)):
        values = dict(zip((variable.name for variable in question.variables), draw, strict=True))
        names = {"__name__": "__main__", "rank": 0, "world_size": 1} | {n: parse_number(v) for n, v in values.items()}
        # As a rank does; code sets variables, and so does torch when it makes an optimizer
        with contextlib.redirect_stdout(io.StringIO()) as printed, mock.patch.dict("os.environ"):
            exec(f"import math, os, torch\n{question.proof.code}", names)
        key, shown = pose_with(question, values).numbers[0], float(printed.getvalue().split()[-1])
        assert math.isclose(key, shown, rel_tol=max(question.tolerance, 1e-6)), values


def test_most_questions_can_be_run():
    questions = load().questions()
    hard = [question for question in questions if question.level == "hard"]
    assert sum(question.proof is not None for question in questions) >= 0.6 * len(questions)
    assert sum(question.proof is not None for question in hard) >= 0.5 * len(hard)


def test_nearly_every_question_has_a_card_that_says_what_it_asks():
    concepts = load().concepts
    alone = [each.key for one in concepts for each in one.questions if not linked_cards(each, one.cards)]
    assert len(alone) <= 0.05 * len(load().questions()), alone


def test_every_demo_is_predicted_by_a_question():
    assert {link.run for concept in load().concepts for link in concept.demos if link.predict} == {
        path.stem for path in demos_dir().glob("*.py")
    }
