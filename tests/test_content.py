"""What is shipped: it is whole, its proofs hold, and its demos are those that there are."""

import pytest

from ddpquiz.curriculum.catalog import load
from ddpquiz.curriculum.survey import survey
from ddpquiz.ranks.proving import prove_all
from ddpquiz.shipped import demos_dir

CONCEPTS = [concept.id for concept in load().concepts]


def test_the_content_has_no_fault():
    assert [str(complaint) for complaint in survey(thorough=True).complaints] == []


@pytest.mark.parametrize("concept", CONCEPTS)
def test_every_proof_holds_for_its_key_and_for_no_other_answer(concept):
    questions = load().concept(concept).questions
    complaints = {proven.question.id: proven.complaints for proven in prove_all(questions) if proven.complaints}
    assert complaints == {}


def test_most_questions_can_be_run():
    questions = load().questions()
    hard = [question for question in questions if question.level == "hard"]
    assert sum(question.proof is not None for question in questions) >= 0.6 * len(questions)
    assert sum(question.proof is not None for question in hard) >= 0.5 * len(hard)


def test_every_demo_is_predicted_by_a_question():
    assert {link.run for concept in load().concepts for link in concept.demos if link.predict} == {
        path.stem for path in demos_dir().glob("*.py")
    }
