"""The keyboard: what was pressed comes out, one key at a time, and the terminal is left as it was found."""

import os
import shutil
import signal
import subprocess
import sys
import termios
import textwrap
import time

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from ddpquiz.terminal.kit.keys import pasted, split

MARK_PASTES, LEAVE_PASTES = "\x1b[?2004h", "\x1b[?2004l"

# Says what it reads, one line a key. Told to be busy, it reads nothing until so many bytes have come; told that the line
# is slow, it waits long for the end of a sequence.
PROGRAM = """
import fcntl, signal, struct, sys, termios, threading, time
from ddpquiz.terminal.kit import keys as module
from ddpquiz.terminal.kit.keys import Keys
options = dict(word.split("=") for word in sys.argv[1:])
def come():
    return struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0]
if "slow" in options:
    module._ESCAPE_WAIT = module._PASTE_WAIT = 60
with Keys() as keys:
    print("ready", flush=True)
    if "elsewhere" in options:  # another thread gets the signal, so that no system call of this one is interrupted
        threading.Thread(target=time.sleep, args=[60], daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
    while come() < int(options.get("busy", 0)):
        time.sleep(0.01)
    if "drop" in options:
        print("drops", flush=True)
        keys.discard()
    if "child" in options:
        with keys.suspended():
            print("child got", input(), flush=True)
    print("go", flush=True)
    while (key := keys.get(float(options.get("patience", 60)))) not in {"x", "eof", None}:
        print(f"<{key}>", "and more" if "more" in options and keys.waiting() else "", flush=True)
print("left", key, flush=True)
"""
PROGRAM_FOR_SHELL = textwrap.dedent("""
    import os
    from ddpquiz.terminal.kit.keys import Keys
    with Keys() as keys:
        print("pid", os.getpid(), flush=True)
        while (key := keys.get(60)) not in {"x", None}:
            print(f"<{key}>", flush=True)
    print("left", flush=True)
""").replace("'", '"')


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("1234", ["1", "2", "3", "4"]),
        (" \r\n\t", ["space", "enter", "enter", "tab"]),
        ("\x7f\b", ["backspace", "backspace"]),
        ("\x03\x04\x15\x1a", ["ctrl+c", "ctrl+d", "ctrl+u", "ctrl+z"]),
        ("\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        ("\x1bOA\x1bOB\x1bOC\x1bOD", ["up", "down", "right", "left"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~", ["pageup", "pagedown", "home", "end", "home", "end"]),
        ("\x1b[1;5A", ["up"]),
        ("a\x1b[15~b\x1bOPc\x1b[[Ad", ["a", "b", "c", "d"]),  # function keys mean nothing, and leave nothing behind
        ("\x1bq", ["escape", "q"]),
        ("é€字", ["é", "€", "字"]),
        ("\x1b[200~hi\x1b[201~q", ["paste:hi", "q"]),
        ("\x1b[200~a\r\n\rb\tc\nq\x1b[201~", ["paste:a\n\nb\tc\nq"]),
        ("\x1b[200~a\x03\x1b[31mb\x1b[A\x7f\x1b[201~", ["paste:ab"]),  # no key in it acts
        ("\x1b[200~\x1b[201~\x1b[201~q", ["paste:", "q"]),
    ],
)
def test_what_is_typed_is_split_into_keys(typed, keys):
    assert split(typed) == (keys, "")


@pytest.mark.parametrize("start", ["\x1b", "\x1b[", "\x1b[1;", "\x1bO", "\x1b[[", "\x1b[200~q\r", "\x1b[200~q\x1b[201"])
def test_the_start_of_a_sequence_waits_for_its_end(start):
    assert split("a" + start) == (["a"], start)


def test_a_paste_tells_its_text_and_no_other_key_has_one():
    assert pasted("paste:q\n") == "q\n"
    assert pasted("paste:") == ""
    assert pasted("p") is None


@given(st.lists(st.sampled_from([*"\x1b[O;15~AaBé\r \x03", "\x1b[200~", "\x1b[201~"])).map("".join), st.integers(0, 40))
def test_keys_do_not_depend_on_where_a_read_ends(typed, cut):
    keys, rest = split(typed[:cut])
    more, left = split(rest + typed[cut:])
    assert (keys + more, left) == split(typed)


@pytest.fixture
def run():
    """Start the program on a terminal of its own, and wait until it reads keys."""
    running = []

    def start(*words, wait="go"):
        child = pexpect.spawn(sys.executable, ["-c", PROGRAM, *words], cwd=str(ROOT), encoding="utf-8", timeout=60)
        child.delaybeforesend = None
        running.append(child)
        child.expect_exact(wait)
        return child

    yield start
    for child in running:
        child.close(force=True)


def ended(child):
    """What was printed until the program left."""
    child.expect("left [^\r\n]*")
    return (child.before or "").replace(LEAVE_PASTES, "").split()


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["1", "2", "3", "4"], "<1><2><3><4>"),
        (["1234"], "<1><2><3><4>"),
        (["\x1b[A", "\x1bOB", "\x1b[C\x1b[D"], "<up><down><right><left>"),
        (["\x1b"], "<escape>"),
        (["\x1b", "[A"], "<up>"),  # a slow line
        (["é€", "字"], "<é><€><字>"),
        (["\x03", "\x04"], "<ctrl+c><ctrl+d>"),
        (["\x1b[200~1\x03q\x1b[2", "01~x"], "<paste:1q>"),
        (["\x13", "\x11", "\x16"], "<ctrl+s><ctrl+q><ctrl+v>"),
    ],
)
def test_keys_arrive_one_by_one_and_are_not_echoed(run, pieces, shown):
    child = run(*(["slow=yes"] if shown in {"<up>", "<paste:1q>"} else []))
    for piece in pieces:
        child.send(piece)
        time.sleep(0.1)
    child.send("x")
    assert "".join(ended(child)) == shown


def test_a_key_of_several_bytes_may_arrive_in_pieces(run):
    child = run()
    for byte in "€".encode():
        os.write(child.child_fd, bytes([byte]))
        time.sleep(0.05)
    child.send("x")
    assert ended(child) == ["<€>"]


def test_keys_typed_while_the_program_is_busy_are_kept(run):
    child = run("busy=5", wait="ready")
    child.send("12\x1b[A")
    child.expect_exact("go")
    child.send("3x")
    assert ended(child) == ["<1>", "<2>", "<up>", "<3>"]


def test_keys_typed_before_a_prompt_are_dropped_but_those_that_stop(run):
    child = run("busy=10", "drop=yes", wait="ready")
    child.send("12\x1b[Aq34\x1b\x03")
    child.expect_exact("go")
    child.send("5x")
    assert ended(child) == ["<q>", "<ctrl+c>", "<5>"]


def test_a_paste_is_dropped_whole_before_a_prompt(run):
    child = run("busy=8", "drop=yes", "slow=yes", wait="ready")
    child.send("\x1b[200~1q")
    child.expect_exact("drops")
    time.sleep(0.2)
    child.send("q2\x1b[201~")
    child.expect_exact("go")
    child.send("5x")
    assert ended(child) == ["<5>"]


def test_a_paste_whose_end_is_lost_ends_with_silence(run):
    child = run()
    child.send("\x1b[200~q1")
    child.expect_exact("<paste:q1>")
    child.send("5x")
    assert ended(child) == ["<5>"]


def test_the_reader_knows_whether_more_has_come(run):
    child = run("busy=2", "more=yes", wait="ready")
    child.send("12")
    child.expect_exact("<1> and more")
    child.expect_exact("<2> \r")
    child.send("x")
    ended(child)


def test_no_key_within_the_time_is_none(run):
    child = run("patience=0.5")
    child.expect_exact("left None")


@pytest.mark.parametrize("options", [[], ["elsewhere=yes"]], ids=["", "no interrupt"])
def test_a_resize_wakes_the_reader(run, options):
    child = run("patience=600", *options)
    child.setwinsize(30, 70)
    child.expect_exact("<resize>")
    child.send("x")
    ended(child)


def test_a_stop_from_outside_asks_for_a_repaint(run):
    child = run()
    child.kill(signal.SIGSTOP)
    child.kill(signal.SIGCONT)
    child.expect_exact("<resize>")
    child.send("x")
    ended(child)


def test_a_child_gets_the_terminal_as_it_was(run):
    child = run("child=yes", wait="ready")
    child.send("hello\r")
    child.expect_exact("child got hello")
    assert LEAVE_PASTES in (child.before or "")
    child.expect_exact("go")
    assert MARK_PASTES in (child.before or "")
    child.send("1x")
    assert ended(child) == ["<1>"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_ends_the_program_leaves_the_terminal_as_it_was(number):
    shell = _shell()
    shell.sendline(f"{sys.executable} -c '{PROGRAM_FOR_SHELL}'; echo status $?")
    shell.expect("pid ([0-9]+)\r")
    pid = int(shell.match[1])
    assert "-icanon" in _mode(shell)
    os.kill(pid, number)
    shell.expect_exact(f"status {128 + number}")
    assert LEAVE_PASTES in shell.before
    assert " icanon" in _mode(shell)
    shell.close(force=True)


def test_a_signal_that_the_shell_ignores_ends_nothing():
    shell = _shell()
    shell.sendline(f"trap '' HUP QUIT; {sys.executable} -c '{PROGRAM_FOR_SHELL}'; echo status $?")
    shell.expect("pid ([0-9]+)\r")
    for number in (signal.SIGHUP, signal.SIGQUIT):
        os.kill(int(shell.match[1]), number)
    for key in "12":
        shell.send(key)
        shell.expect_exact(f"<{key}>")
    shell.send("x")
    shell.expect_exact("status 0")
    shell.close(force=True)


def test_ctrl_z_stops_and_fg_asks_for_a_repaint():
    shell = _shell()
    shell.sendline(f"{sys.executable} -c '{PROGRAM_FOR_SHELL}'; echo status $?")
    shell.expect("pid ([0-9]+)\r")
    assert "-icanon" in _mode(shell)
    shell.send("\x1a")
    shell.expect_exact("status 148")  # the shell's word for stopped by SIGTSTP
    assert LEAVE_PASTES in shell.before
    assert " icanon" in _mode(shell)
    shell.sendline("fg")
    shell.expect_exact("<resize>")
    assert MARK_PASTES in shell.before
    assert "-icanon" in _mode(shell)
    shell.send("1x")
    shell.expect_exact("<1>")
    shell.expect_exact("left")
    assert " icanon" in _mode(shell)
    shell.close(force=True)


def test_without_a_terminal_it_says_so():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert "UserError: This needs a terminal to read keys from, and standard input is not a terminal." in done.stderr


def _shell():
    bash = shutil.which("bash")
    if not bash:
        pytest.skip("job control needs bash")
    env = os.environ | {"PS1": "shell> "}  # a line that sets it could be echoed before the first prompt
    options = ["--norc", "--noprofile", "--noediting", "-i"]
    shell = pexpect.spawn(bash, options, cwd=str(ROOT), env=env, encoding="utf-8", timeout=60)
    shell.expect_exact("shell> ")
    return shell


def _mode(shell):
    """What stty would say about the terminal, once the shell has had its moment."""
    time.sleep(0.1)
    canonical = termios.tcgetattr(shell.child_fd)[3] & termios.ICANON
    return " icanon" if canonical else "-icanon"


SWALLOWED = """
import os, signal, time
from ddpquiz.terminal.kit.keys import Keys
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.01)
with Keys() as keys:
    Dying()
    print("goes on", flush=True)
    keys.get(60)
"""


def test_a_signal_whose_exit_a_destructor_swallows_ends_the_program_too():
    child = pexpect.spawn(sys.executable, ["-c", SWALLOWED], cwd=str(ROOT), timeout=60)
    child.expect_exact("goes on")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 128 + signal.SIGHUP
