"""Random content files: the reader refuses them with a complaint, and never raises."""

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ring_file import VALID

from ddpquiz.curriculum.concept_reader import concept_of
from ddpquiz.curriculum.yaml_file import YamlFile


def reads_without_a_traceback(data):
    reading = concept_of(YamlFile("x.yaml", data, thorough=True), "x", "t")
    assert (reading.concept is None) == bool(reading.page.complaints)
    for complaint in reading.page.complaints:
        assert complaint.line >= 1
        assert complaint.column >= 1
        assert "\n" not in str(complaint)


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@FUZZ
@given(st.binary(max_size=300))
def test_random_bytes_never_raise(data):
    reads_without_a_traceback(data)


@FUZZ
@given(st.text(alphabet="ab:-?[]{}&*!|>'\"%@`#, \n\\<=1", max_size=80))
def test_random_yaml_never_raises(text):
    reads_without_a_traceback(text.encode())


PIECES = (
    "",
    " ",
    "\n",
    "[]",
    "{}",
    "- ",
    "a: b\n",
    "'",
    '"',
    "{n}",
    "{{",
    "<option>",
    "0",
    "&a ",
    "*a",
    "!x ",
    "|",
    "\0",
)


@FUZZ
@given(st.integers(0, len(VALID)), st.integers(0, 60), st.sampled_from(PIECES) | st.text(max_size=5))
def test_a_file_with_a_hole_or_a_scrap_never_raises(at, length, scrap):
    reads_without_a_traceback((VALID[:at] + scrap + VALID[at + length :]).encode("utf-8", "replace"))


@FUZZ
@given(st.data())
def test_a_file_with_any_value_exchanged_never_raises(data):
    values = [found.span(1) for found in re.finditer(r"(?:[\w]+: |- )([^\n{|]+)$", VALID, re.MULTILINE)]
    start, end = data.draw(st.sampled_from(values))
    value = data.draw(
        st.sampled_from(["", "[]", "{}", "[a]", "{a: b}", "{0: a}", "x", "0", "-1", "1e999", "no", "n", "{n"])
    )
    reads_without_a_traceback((VALID[:start] + value + VALID[end:]).encode())
