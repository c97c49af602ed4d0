"""Formulas: plain arithmetic over named values, and nothing else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpquiz.curriculum import formula

RESULTS = {
    "2 * (n - 1) / n * s": 1800,
    "s // 7 + s % 7": 174,
    "2 ** n": 16,
    "-n + +s": 1196,
    "2 ** -1": 0.5,
    "min(n, s, 3) + max(n, 2)": 7,
    "ceil(s / 7) - floor(s / 7)": 1,
    "sqrt(s * 3) + log2(n)": 62,
    "abs(-n) + round(2.6)": 7,
    "  1.5e3": 1500,
}


@pytest.mark.parametrize("expression", RESULTS)
def test_arithmetic_has_its_value(expression):
    assert formula.evaluate(expression, {"n": 4, "s": 1200}) == RESULTS[expression]


ALLOWED = "an expression has numbers, names, + - * / // % ** ( ) and min max ceil floor sqrt log2 abs round"
REFUSALS = {
    "1 / (n - 4)": "`1 / (n - 4)` divides by zero",
    "n % 0": "`n % 0` divides by zero",
    "0 ** -1": "`0 ** -1` divides by zero",
    "k + 1": "`k` is unknown; the names are n, s",
    "9 ** 9 ** 9": "`9 ** 9 ** 9` has a value that is too large",
    "1e300 * 10": "`1e300 * 10` has a value that is too large",
    "1e999": "`1e999` has a value that is too large",
    "2 ** 5000": "`2 ** 5000` has a value that is too large",
    "(-8) ** 0.5": "`-8 ** 0.5` is not a real number",
    "sqrt(-1)": "`sqrt(-1)` has no value",
    "log2(0)": "`log2(0)` has no value",
    "min(n)": "`min` takes 2 to 9 values",
    "sqrt(n, s)": "`sqrt` takes one value",
    "n +": "`n +` is not an arithmetic expression",
    "": "`` is not an arithmetic expression",
    "n = 3": "`n = 3` is not an arithmetic expression",
    "1" + " + 1" * 100: "an expression can have 300 characters; this one has 401",
    "__import__('os')": f"`__import__('os')` is not allowed; {ALLOWED}",
    "n.real": f"`n.real` is not allowed; {ALLOWED}",
    "[n]": f"`[n]` is not allowed; {ALLOWED}",
    "n if n else s": f"`n if n else s` is not allowed; {ALLOWED}",
    "n > 3": f"`n > 3` is not allowed; {ALLOWED}",
    "True": f"`True` is not allowed; {ALLOWED}",
    "'a' * 3": f"`'a'` is not allowed; {ALLOWED}",
    "1j": f"`1j` is not allowed; {ALLOWED}",
    "n ^ 2": f"`n ^ 2` is not allowed; {ALLOWED}",
    "n << 2": f"`n << 2` is not allowed; {ALLOWED}",
    "~n": f"`~n` is not allowed; {ALLOWED}",
    "max(*n)": f"`*n` is not allowed; {ALLOWED}",
    "round(n, ndigits=1)": f"`round(n, ndigits=1)` is not allowed; {ALLOWED}",
    "pow(n, 2)": f"`pow(n, 2)` is not allowed; {ALLOWED}",
    "(k := 3)": f"`(k := 3)` is not allowed; {ALLOWED}",
}


@pytest.mark.parametrize("expression", REFUSALS)
def test_what_has_no_value_is_refused_with_a_sentence(expression):
    with pytest.raises(ValueError, match=r".") as refusal:
        formula.evaluate(expression, {"n": 4, "s": 1200})
    assert str(refusal.value) == REFUSALS[expression]


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan")], ids=["whole", "inf", "nan"])
def test_a_value_that_is_too_large_is_refused_also_if_nothing_is_computed_from_it(value):
    with pytest.raises(ValueError, match="`n` has a value that is too large"):
        formula.evaluate("n", {"n": value})


def test_the_names_in_an_expression_are_known_without_their_values():
    assert formula.names("2 * (n - 1) / max(n, k) * -s") == {"n", "k", "s"}
    with pytest.raises(ValueError, match=r"`n\.real` is not allowed"):
        formula.names("s + n.real")


@given(st.text(alphabet="ns12().+-*/% ,ecilmax[]'=:", max_size=40))
def test_any_text_has_a_value_or_a_sentence(expression):
    with contextlib.suppress(ValueError):
        assert abs(formula.evaluate(expression, {"n": 4, "s": 0.5})) < 1e300
        assert formula.names(expression) <= {"n", "s"}


SPELLINGS = {
    4.0: "4",
    1200000: "1200000",
    2 * (3 - 1) / 3 * 1200: "1600",
    1 / 3: "0.333333",
    1234.5678: "1234.57",
    1234567.89: "1234568",
    0.00001: "1e-05",
    -0.5: "-0.5",
    -0.0: "0",
    2**70: "1180591620717411303424",
    0.1 + 0.2: "0.3",
}


@pytest.mark.parametrize(
    ("number", "unit", "shown"),
    [
        ("1900", "bytes", "1,900 bytes"),
        ("999", "", "999"),
        ("-1234567.5", "", "-1,234,567.5"),
        ("0.12345", "s", "0.12345 s"),
        ("5", "%", "5%"),
        ("2 * 1200 / 1e9000", "GB", "2 * 1,200 / 1e9000 GB"),
        ("1,800", "bytes", "1,800 bytes"),
        ("1180591620717411303424", "", "1,180,591,620,717,411,303,424"),
    ],
)
def test_a_quantity_has_thousands_and_its_unit(number, unit, shown):
    assert formula.quantity(number, unit) == shown


@pytest.mark.parametrize("number", SPELLINGS)
def test_numbers_are_written_as_a_learner_would(number):
    assert formula.format_number(number) == SPELLINGS[number]
