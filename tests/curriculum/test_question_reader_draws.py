"""The variables of a question: each draw is tried, and what goes wrong in one is named."""

import pytest
from ring_file import changed, complaints

# What is wrong: the valid text, what stands there instead, and every complaint
CASES = {
    "an answer with an unknown name": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: 2 * (k - 1) / n * s\n    unit",
        "130:13: `k` is not one of `vars`: n, s",
    ),
    "an answer that would run something": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: __import__('os').system('x')\n    unit",
        "130:13: `__import__('os').system('x')` is not allowed; an expression has numbers, names, + - * / // % ** ( ) and min max ceil floor sqrt log2 abs round",
    ),
    "an answer cut short": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: 2 * (n -\n    unit",
        "130:13: `2 * (n -` is not an arithmetic expression",
    ),
    "a draw that divides by zero": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 0, 8], s: [1200, 2400]}",
        "130:13: with n = 0, s = 1200: `2 * (n - 1) / n * s` divides by zero",
    ),
    "a draw in words": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, four, 8], s: [1200, 2400]}",
        "129:19: `n`: expected a number, got `four`",
    ),
    "a figure of the machine for no variable": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 8], s: [1200, 2400]}\n    measured: {k: ranks}",
        "130:19: `k`: it is not one of `vars`: n, s",
    ),
    "a figure that no bench finds": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 8], s: [1200, 2400]}\n    measured: {n: speed}",
        "130:19: `n`: expected `ranks`, or an operation with `.alpha` (µs) or `.beta` (µs per MB), such as `all_reduce.alpha`, got `speed`",
    ),
    "a repeated draw": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 4], s: [1200, 2400]}",
        "129:15: `n`: a value is listed twice",
    ),
    "a draw from nothing": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [], s: [1200, 2400]}",
        "129:15: `n`: the list is empty",
    ),
    "no vars": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {}",
        "129:11: `vars`: the mapping is empty",
        "140:14: `ranks`: `n` is not one of the question's `vars`",
    ),
    "a variable called rank": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 8], s: [1200], rank: [1]}",
        "129:11: `vars`: `rank` is in neither `ask` nor `code`, so a learner cannot know it",
        "129:43: `rank`: choose another name: it must be a Python name that is not in use",
    ),
    "a variable that nobody sees": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 8], s: [1200], k: [1]}",
        "129:11: `vars`: `k` is in neither `ask` nor `code`, so a learner cannot know it",
    ),
    "a placeholder with an unknown name": (
        "Each chunk has {=s / n} bytes.",
        "Each chunk of {m} has {=s / m} bytes.",
        "136:13: `hints`: `{m}` is not one of `vars`: n, s; a plain brace is `{{`",
        "136:13: `m` is not one of `vars`: n, s",
    ),
    "a single brace": (
        "Each chunk has {=s / n} bytes.",
        "Each { chunk.",
        "136:13: `hints`: a single `{`; write `{{` for a plain brace",
    ),
    "a tolerance in percent": (
        "tolerance: 0.01",
        "tolerance: 1%",
        "132:16: `tolerance`: expected a fraction such as 0.01, got `1%`",
    ),
    "an answer that nobody can type": (
        "s: [1200, 2400]}\n    answer: 2 * (n - 1) / n * s\n    unit: bytes\n    tolerance: 0.01\n",
        "s: [1000]}\n    answer: 2 * (n - 1) / n * s\n",
        "130:13: with n = 3, s = 1000: the answer is 1333.3333333333333, which a learner cannot type exactly; add a `tolerance`",
    ),
    "a trap that is right in one draw": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [2, 4, 8], s: [1200, 2400]}",
        "135:9: with n = 2, s = 1200: this trap equals the right answer; change it or the `vars`",
    ),
    "too many draws": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39], s: [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139]}",
        "129:11: `vars`: 1,520 draws; at most 1,000 are allowed, because each is checked",
    ),
    "a draw of too many ranks": (
        'ranks: "n"\n',
        "ranks: n * 4\n",
        "140:14: with n = 8, s = 1200: `ranks` is not a whole number from 1 to 16",
    ),
    "a power without end": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: 9 ** 9 ** 9 * n * s\n    unit",
        "130:13: with n = 3, s = 1200: `9 ** 9 ** 9 * n * s` has a value that is too large",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_place(place, name):
    old, new, *expected = CASES[name]
    place.write_text(changed((old, new)), "utf-8")
    assert complaints() == expected
