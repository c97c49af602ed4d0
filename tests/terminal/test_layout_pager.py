"""Long pages go through the learner's pager."""

import shutil

import pytest
from run_program import piped, sample


@pytest.mark.skipif(not shutil.which("less"), reason="there is no less here")
@pytest.mark.parametrize("less", [{}, {"LESS": "-X"}])
def test_a_page_longer_than_the_terminal_goes_through_a_pager_in_color(home, less):
    terminal = sample(home, "learn", "ring", "--lesson", height=10, LESSCHARSET="utf-8", **less)
    assert terminal.wait("space next page, b page back, h help, q quit" if not less else ":").startswith(
        "The ring\ncollectives · ring\n"
    )
    assert "ddpquiz explain ring" not in terminal.text
    terminal.press(" ", "A lesson")
    terminal.press("G", "ddpquiz explain ring  describe it", "\nb page back, h help, q quit" if not less else "END")
    assert "38;5;" in terminal.raw
    assert "ESC[" not in terminal.raw
    terminal.press("\x03", "ddpquiz explain ring")
    while terminal.child.isalive():  # less drops keys that were typed before it handled the interrupt
        terminal.press("q")
        terminal.read(0.2)
    assert terminal.end() == 0


@pytest.mark.parametrize("pager", ["cat", "", "/no/such/program", "less 'never closed"])
def test_other_pagers_and_no_pager_are_used_as_set(home, pager):
    terminal = sample(home, "list", "ring", height=8, PAGER=pager)
    terminal.wait("ddpquiz show ring/ITEM")
    assert terminal.end() == 0
    assert "Front of one?" in terminal.raw


def test_a_pager_gets_question_marks_for_letters_that_the_locale_does_not_have(home):
    few = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    terminal = sample(home, "learn", "ring", "--lesson", height=8, PAGER="cat", **few)
    assert terminal.end() == 0
    assert "collectives ? ring" in terminal.raw


def test_a_page_that_fits_needs_no_pager(home):
    terminal = sample(home, "show", "ring/one", PAGER="/no/pager/is/asked --x")
    terminal.wait("Back of one")
    assert terminal.end() == 0


@pytest.mark.parametrize("size", ["0", "00", "-5", "²", "9" * 20, "wide"])
def test_a_size_that_no_terminal_has_is_as_if_it_were_not_set(home, size):
    pages = [piped(home, "show", "ring/one", COLUMNS=size, LINES=size), piped(home, "show", "ring/one", COLUMNS="80")]
    assert [page.returncode for page in pages] == [0, 0]
    assert pages[0].stdout == pages[1].stdout != ""
