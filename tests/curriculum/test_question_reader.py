"""Questions of every kind: what does not fit is named with its line and column."""

import pytest
from ring_file import RING, changed, complaints

from ddpquiz.curriculum.concept import CodeProof, DemoProof, Kind, Level, Shows
from ddpquiz.curriculum.concept_reader import read_concept

# What is wrong: the valid text, what stands there instead, and every complaint
CASES = {
    "three options for four": (
        '      - {text: "3,600 bytes", shows: "3600", why: That is a tensor to each other rank. The ring sends chunks.}\n',
        "",
        "55:7: `options`: a `choice` question has four options, not 3",
    ),
    "two right options of a choice": (
        '{text: "1,200 bytes", shows',
        '{text: "1,200 bytes", right: true, shows',
        "55:7: `options`: exactly one option must be `right: true`, not 2",
    ),
    "two options alike": (
        'text: "2,400 bytes", shows',
        'text: "1,200 bytes", shows',
        "57:9: `options`: the same text appears twice",
    ),
    "a wrong option without a why": (
        ', why: That is the limit for very many ranks.}\n      - {text: "3,600',
        '}\n      - {text: "3,600',
        "57:9: missing key `why`",
    ),
    "an option that is text and code": (
        "{code: x /= world_size, right",
        "{code: x /= world_size, text: a, right",
        "91:33: `text` does not belong here: an option has either `text` or `code`",
    ),
    "choices that are all right": (
        '{text: "1.0", shows: "1.0", why: That is the sum before the division.}\n      - {text: "0.0", shows',
        '{text: "1.0", right: true, shows: "1.0", why: That is the sum before the division.}\n      - {text: "0.0", right: true, shows',
        "111:7: `options`: two or more options, but not all, must be `right: true`, not 4",
    ),
    "eight choices": (
        '      - {text: "0.0", shows: "0.0", why: That is what rank 0 brought.}\n',
        '      - {text: "0.0", shows: "0.0", why: no}\n      - {text: "0.1", shows: "0.1", why: no}\n      - {text: "0.2", shows: "0.2", why: no}\n      - {text: "0.3", shows: "0.3", why: no}\n      - {text: "0.4", shows: "0.4", why: no}\n',
        "111:7: `options`: a `choices` question has four to six options, not 8",
    ),
    "a key of another kind": (
        "    rank: 1\n    answer",
        "    rank: 1\n    unit: bytes\n    answer",
        "202:5: `unit` does not belong here: an `output` question does not have it",
    ),
    "a kind that is misspelt": (
        "kind: order\n    ask: Put the steps",
        "kind: ordr\n    ask: Put the steps",
        "161:11: `kind`: `ordr` is not one of choice, choices, number, order, output, spot; did you mean `order`?",
    ),
    "two lines to order": (
        "      - {text: all-gather, shows: gather}\n",
        "",
        "164:7: `lines`: an `order` question has three or more lines, not 2",
    ),
    "two lines alike": (
        "{text: all-gather,",
        "{text: reduce-scatter,",
        "166:9: `lines`: the same text appears twice",
    ),
    "a rank in words": (
        "    rank: 1\n    answer",
        "    rank: one\n    answer",
        "201:11: `rank`: expected a whole number from 0 to 15, got `one`",
    ),
    "a trap that is the answer": (
        '{answer: "[1.0, 0.5]", why',
        '{answer: "[2.0, 1.0]", why',
        "204:9: this trap equals the right answer",
    ),
    "code that is no Python": (
        "      dist.all_reduce(x)\n      print(x.tolist())",
        "      dist.all_reduce(x\n      print(x.tolist())",
        "199:22: `code` is not valid Python: '(' was never closed",
    ),
    "an option that is no Python": (
        "{code: x /= rank + 1, why",
        "{code: x /= rank +, why",
        "92:16: `code` is not valid Python: invalid syntax",
    ),
    "lines that are no Python": (
        "- text: x += 1",
        "- text: x += 1 +",
        "192:20: `code` is not valid Python: invalid syntax",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_place(place, name):
    old, new, *expected = CASES[name]
    place.write_text(changed((old, new)), "utf-8")
    assert complaints() == expected


def test_questions_of_every_kind_are_read_with_their_proofs():
    questions = {question.id: question for question in read_concept(RING).concept.questions}
    ring, mean = questions["ring-bytes"], questions["mean-of-ranks"]
    assert (ring.kind, ring.level, ring.options[0].right) == (Kind.CHOICE, Level.MEDIUM, True)
    assert ring.proof == DemoProof("4", "ring", "bytes sent", ("--size", "1200"))
    assert questions["sum-of-ranks"].options[3].shows.by_rank == {0: "10.0", 1: "2.0", 2: "3.0", 3: "4.0"}
    assert (mean.options[0].code, mean.proof.shows) == (True, Shows(everywhere="0.5"))
    number = questions["bytes-of-a-ring"]
    assert [(variable.name, variable.values) for variable in number.variables] == [
        ("n", ("3", "4", "8")),
        ("s", ("1200", "2400")),
    ]
    assert (number.answer, number.unit, number.tolerance) == ("2 * (n - 1) / n * s", "bytes", 0.01)
    assert [line.shows for line in questions["order-of-a-ring"].lines] == ["cut", "scatter", "gather"]
    output = questions["what-is-printed"]
    assert (output.rank, output.answer, output.proof) == (1, "[2.0, 1.0]", CodeProof("2"))
    wait = questions["what-is-waited-for"]
    assert [option.shows for option in wait.options] == [
        Shows(hangs=True),
        Shows(raises="RuntimeError"),
        Shows(by_rank={0: "1.0"}),
        Shows(everywhere="2.0"),
    ]
    assert wait.source == "dist"
