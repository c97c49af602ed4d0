"""The command line from outside: what is printed where, and with which exit status."""

import contextlib
import errno
import io
import json
import os
import pwd
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import passed
import pexpect
import pytest
import run_program
import typer
from rich.cells import cell_len

import ddpquiz
from ddpquiz import __main__, paths
from ddpquiz.cli import app, completion
from ddpquiz.curriculum import loading
from ddpquiz.errors import UserError
from ddpquiz.learning.log_rows import ExplanationRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.pages import lists
from ddpquiz.terminal.pages.item import item_page
from ddpquiz.terminal.pages.lesson import lesson

COMMAND = [sys.executable, "-m", "ddpquiz"]
CONCEPT = "all-reduce-ring"
ITEM = next(iter(completion.items(f"{CONCEPT}/")), "")


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")


def ddp(*words, **options):
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([*COMMAND, *words], **options)


def test_the_version_is_printed_before_anything_is_loaded(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ddpquiz", "--version"])
    monkeypatch.setitem(sys.modules, "ddpquiz.cli", None)  # importing it would raise
    __main__.main()
    assert capsys.readouterr().out == f"{ddpquiz.__version__}\n"


def test_the_version_is_an_option_like_the_others():
    assert "--version" in ddp("--help").stdout


def test_windows_is_pointed_to_wsl(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="on Windows, run it inside WSL"):
        __main__.main()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("learn", "all-reduce-rin"), "No concept named 'all-reduce-rin'"),
        (("show", f"{CONCEPT}/no-such-item"), f"No item named '{CONCEPT}/no-such-item'"),
        (("show", "ring"), "'ring' is no card or question; their names are concept/id"),
        (("list", "--path", "nothing"), "No concept named 'nothing'"),
        (("search", "xyzzy", "plugh"), "Nothing matches `xyzzy plugh`. Try other words, or see `ddpquiz list`."),
        (("demo", "no-such-demo"), "No demo named 'no-such-demo'"),
        (("prove", f"{CONCEPT}/nothing"), f"No item named '{CONCEPT}/nothing'"),
    ],
)
def test_what_the_learner_can_mend_is_one_sentence_and_status_1(words, said):
    done = ddp(*words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("no-such-command",),
        ("learn", "--lesson"),
        ("list", "--no-such-option"),
        ("list", CONCEPT, "--track", "numerics"),
        ("--install-completion", "nope"),
        ("search", "--count", "0", "x"),
    ],
)
def test_wrong_usage_is_status_2(words):
    done = ddp(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: ddpquiz" in done.stderr


def test_a_name_that_is_nearly_right_is_suggested():
    assert "Did you mean 'all-reduce-ring'" in ddp("learn", "all-reduce-rng").stderr


@pytest.mark.parametrize(("word", "meant"), [("quiz", "test"), ("stuyd", "study"), ("review", "study")])
def test_an_unknown_command_is_answered_with_a_suggestion(word, meant):
    assert f"No such command '{word}'. Did you mean '{meant}'?" in ddp(word).stderr


def test_the_recorder_is_not_a_command_and_the_error_says_how_to_start_it():
    done = ddp("record", "--to", "folder", "train.py")
    assert done.returncode == 2
    assert "-m ddpquiz.record --to DIR train.py" in done.stderr


def test_a_name_from_another_program_suggests_a_command_that_exists():
    commands = typer.main.get_command(app.app).commands
    assert not app._MEANT.keys() & commands.keys()
    assert {meant.split()[0] for meant in app._MEANT.values() if not meant.startswith("--")} <= commands.keys()


def test_completion_cannot_be_installed_for_a_named_shell(tmp_path):
    done = ddp("--install-completion", "nope", env={**os.environ, "HOME": str(tmp_path)})
    assert "it takes no value: completion is installed for the shell that runs this command; got nope" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_curriculum_of_one_track():
    done = ddp("list", "--track", "numerics").stdout
    assert "lr-scaling" in done
    assert "ddp-mechanics" not in done
    assert "There is no track `nope`; tracks are" in ddp("list", "--track", "nope").stderr
    listed = json.loads(ddp("list", "--track", "numerics", "--json").stdout)["concepts"]
    assert {concept["track"]["id"] for concept in listed} == {"numerics"}


def test_the_way_to_everything_is_everything_in_order():
    assert ddp("list", "--path").stdout.startswith(" 1.  why-distribute")
    assert json.loads(ddp("list", "--path", "--json").stdout) == json.loads(ddp("list", "--json").stdout)


def test_a_search_that_shows_less_than_it_found_says_how_to_see_the_rest():
    last = ddp("search", "--count", "2", "learning", "rate").stdout.splitlines()[-1]
    assert re.fullmatch(r"\d+ more: add a word, or see all with ddpquiz search --all learning rate", last)
    last = ddp("search", "--count", "1", "--", "--nproc-per-node").stdout.splitlines()[-1]
    all_of_them = ddp(*last.partition("ddpquiz ")[2].split())
    assert (all_of_them.returncode, "more: " in all_of_them.stdout) == (0, False)


def test_a_search_for_a_common_word_shows_the_best_hits_on_one_page():
    lines = ddp("search", "gradient").stdout.splitlines()
    assert len(lines) < 24
    assert lines[:2] == ["gradient-accumulation  concept", "  Gradient accumulation and no_sync"]


def test_a_bug_shows_its_traceback(monkeypatch):
    def broken():
        raise RuntimeError("a bug")

    monkeypatch.setattr(app, "app", lambda **_: broken())
    with pytest.raises(RuntimeError, match="a bug"):
        app.main()


LONG = "a" * 5000


@pytest.mark.parametrize(
    "words",
    [
        ("run", LONG), ("run", "--save", LONG, "x.py"), ("demo", LONG), ("demo", f"a/{LONG}"), ("demo", "--replay", LONG),
        ("import", LONG), ("check", LONG), ("pack", "add", LONG), ("pack", "new", LONG), ("site", LONG), ("diagnose", LONG),
        ("compare", LONG, LONG), ("watch", LONG), ("lab", "ring-all-reduce", "--dir", LONG), ("export", "json", "--to", LONG),
        ("plan", "--model", LONG), ("progress", "restore", LONG), ("lab", LONG), ("search", LONG), ("list", LONG),
    ],
    ids=lambda words: " ".join(words).replace(LONG, "LONG"),
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_told_in_a_sentence(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ddpquiz", *words])
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code in (0, 1, 2), end.value.code
    assert end.value.code or words[0] == "search"
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), "/x/y cannot be used (Permission denied); fix that, or choose another location.\n"),
        (
            ModuleNotFoundError("No module named 'ddpquiz.gone'", name="ddpquiz.gone"),
            "ddpquiz was upgraded or removed while it ran (ddpquiz.gone is missing); start it again.\n",
        ),
        (RuntimeError("Could not determine home directory."), "Your home folder cannot be found; set HOME to a folder.\n"),
    ],
)  # fmt: skip
def test_what_is_wrong_around_us_is_a_sentence_wherever_it_is_noticed(monkeypatch, capsys, error, said):
    def failing(**_):
        raise error

    monkeypatch.setattr(app, "app", failing)
    with pytest.raises(SystemExit) as end:
        app.main()
    assert (end.value.code, capsys.readouterr().err) == (1, said)


@pytest.mark.parametrize(
    "error", [FileNotFoundError(errno.ENOENT, "gone", "x"), OSError(errno.EBADF, "bad"), ImportError("x", name="numpy")]
)
def test_other_errors_of_the_system_are_bugs(monkeypatch, error):
    def failing(**_):
        raise error

    monkeypatch.setattr(app, "app", failing)
    with pytest.raises(type(error)):
        app.main()


@pytest.mark.parametrize(("error", "status"), [(UserError("x"), 1), (BrokenPipeError(), 1)])
def test_errors_end_with_their_status(monkeypatch, capsys, error, status):
    def failing(**_):
        raise error

    monkeypatch.setattr(app, "app", failing)
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code == status
    assert capsys.readouterr().err == ("x\n" if status == 1 and isinstance(error, UserError) else "")


def test_an_interrupt_is_status_130_even_while_modules_are_loaded(monkeypatch):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["ddpquiz", "list"])
    monkeypatch.setattr(app, "app", interrupted)
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 130


def test_an_error_cannot_steer_the_terminal(monkeypatch, capsys):
    def failing(**_):
        raise UserError("a\x1b[31mb")

    monkeypatch.setattr(app, "app", failing)
    with pytest.raises(SystemExit):
        app.main()
    assert capsys.readouterr().err == "a[31mb\n"


def test_a_reader_that_goes_away_is_no_complaint():
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m ddpquiz list | true"], capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("words", [("list",), ("list", CONCEPT), ("learn", CONCEPT), ("search", "ring")])
def test_a_pipe_gets_plain_text(words):
    done = ddp(*words)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


KNOWN = loading.load()


def widest(page, width):
    file = io.StringIO()
    layout.show(style.console(file, width=width), page)
    return max(cell_len(line) for line in file.getvalue().splitlines())


@pytest.mark.case("page", lambda concept, **_: passed.page_of(concept, KNOWN))
@pytest.mark.parametrize(
    ("concept", "width"),
    [
        *((concept.id, 60) for concept in KNOWN.concepts),  # what fits in 60 columns fits in more
        *((concept.id, width) for concept in KNOWN.concepts[::8] for width in (80, 120)),
    ],
)
def test_every_page_of_a_shipped_concept_fits(concept, width):
    shown = KNOWN.concept(concept)
    pages = [lesson(shown, before=KNOWN.concepts, after=KNOWN.concepts), lists.contents(shown)]
    pages += [item_page(item, KNOWN.sources.get(getattr(item, "source", ""))) for item in shown.items()]
    pages += [lists.learning_path(KNOWN.path(concept))]
    assert [widest(page, width) for page in pages if widest(page, width) > width] == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_list_of_the_shipped_content_fits(width):
    assert widest(lists.curriculum(KNOWN), width) <= width


def test_no_color_is_obeyed_on_a_terminal():
    def on_a_terminal(**variables):
        child = pexpect.spawn(
            sys.executable,
            ["-m", "ddpquiz", "list"],
            env={**os.environ, "TERM": "xterm-256color", "PAGER": "cat", **variables},
            encoding="utf-8",
        )
        child.expect(pexpect.EOF)
        return child.before

    assert "\x1b[38;5;" in on_a_terminal()
    assert "38;5" not in on_a_terminal(NO_COLOR="1")


def test_json_is_all_there_is_on_stdout():
    known = json.loads(ddp("list", "--json").stdout)["concepts"]
    assert [concept["id"] for concept in known if concept["id"] == CONCEPT]
    assert set(known[0]) == {"id", "track", "core", "title", "idea", "needs", "cards", "questions", "demos", "marks"}
    item = json.loads(ddp("show", known[0]["questions"][0], "--json").stdout)
    assert item["key"] == known[0]["questions"][0]


def test_the_way_to_a_concept_ends_with_it():
    way = json.loads(ddp("list", "--path", CONCEPT, "--json").stdout)["concepts"]
    assert way[-1]["id"] == CONCEPT
    seen = set()
    for concept in way:
        assert seen.issuperset(concept["needs"])
        seen.add(concept["id"])


@pytest.mark.parametrize("words", ["list", "study", "test --seed 1", f"explain {CONCEPT}"])
def test_standard_input_that_is_closed_is_as_one_at_its_end(words):
    closed, ended = ddp(*words.split(), stdin=None, preexec_fn=lambda: os.close(0)), ddp(*words.split())
    assert (closed.returncode, closed.stdout, closed.stderr) == (ended.returncode, ended.stdout, ended.stderr)
    assert "Traceback" not in closed.stderr


@pytest.mark.parametrize("words", ["list", "list --json", "export json"])
def test_standard_output_that_is_closed_is_one_that_nobody_reads(words):
    closed = ddp(*words.split(), preexec_fn=lambda: os.close(1))
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, "", "")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # Python's own way, and that of the language C
def test_bytes_on_standard_input_that_are_no_letters_are_read_as_question_marks(errors):
    options = {"text": None, "env": {**os.environ, "PYTHONIOENCODING": f"utf-8:{errors}"}}
    done = ddp("explain", CONCEPT, "--json", stdin=None, input=b"caf\xe9, every rank", **options)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["explanations"][0]["text"] == "caf\ufffd, every rank"


def test_a_data_folder_that_cannot_be_looked_at_hides_nothing_that_is_taught(tmp_path):
    options = {"env": {**os.environ, "DDPQUIZ_HOME": str(tmp_path / ("long" * 100))}}
    assert (ddp("list", **options).stdout, ddp("list", **options).returncode) == (ddp("list").stdout, 0)
    assert ddp("stats", **options).stderr.endswith("make it writable, or set DDPQUIZ_HOME to another folder.\n")


@pytest.mark.parametrize("command", ["list", "study"])
def test_a_data_folder_in_the_home_of_nobody_is_told_in_a_sentence(command):
    done = ddp(command, env={**os.environ, "DDPQUIZ_HOME": "~nobody-at-all/data"})
    said = "DDPQUIZ_HOME is ~nobody-at-all/data, but there is no user of that name here.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("folder", [paths.data_dir, paths.cache_dir])
def test_a_user_without_a_home_is_told_in_a_sentence(monkeypatch, folder):
    """As in a container whose user has only a number."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DDPQUIZ_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda user: {}[user])
    with pytest.raises(UserError) as refused:
        folder()
    assert str(refused.value) == "HOME is not set, so there is no folder for your progress; set DDPQUIZ_HOME to one."


def test_it_runs_in_any_folder_and_language(tmp_path):
    environment = {**os.environ, "LC_ALL": "C", "LANG": "C"}
    done = ddp("learn", CONCEPT, cwd=tmp_path, env=environment, encoding="utf-8", text=None)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_knows_few_letters_gets_question_marks(encoding):
    done = ddp("learn", CONCEPT, env={**os.environ, "PYTHONIOENCODING": encoding}, encoding=encoding, text=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert "? " in done.stdout


def complete(line):
    """What the shell offers after a line."""
    environment = {
        **os.environ,
        "_DDPQUIZ_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - (not line.endswith(" "))),
    }
    return subprocess.run(COMMAND, env=environment, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ddpquiz lea", "learn"),
        ("ddpquiz learn all-", CONCEPT),
        ("ddpquiz study ", CONCEPT),
        ("ddpquiz test all-", CONCEPT),
        ("ddpquiz demo allr", "allreduce"),
        (f"ddpquiz show {ITEM[:-2]}", ITEM),
        (f"ddpquiz prove {ITEM[:-2]}", ITEM),
    ],
)
def test_the_shell_completes_names(line, offered):
    assert offered in complete(line)


def test_completion_reads_names_without_parsing():
    program = "import sys; from ddpquiz.cli import completion; completion.items(''); sys.exit('yaml' in sys.modules)"
    assert subprocess.call([sys.executable, "-c", program]) == 0


def test_completion_knows_every_item():
    keys = {item.key for concept in loading.load().concepts for item in concept.items()}
    assert set(completion.items("")) == keys
    assert completion.concepts("no such") == completion.demos("no such") == completion.items("no/such") == []


def test_every_command_says_what_it_does():
    commands = typer.main.get_command(app.app).commands
    for name, command in commands.items():
        first = (command.help or "").split("\n")[0]
        assert first.endswith("."), name
        assert ddp(name, "--help").returncode == 0


WORKING = """
import time
from ddpquiz.curriculum import survey

def work(*_, **__):
    print("begun", flush=True)
    time.sleep(60)

survey.survey = work
from ddpquiz.__main__ import main
main()
"""


def test_ctrl_c_while_it_works_is_130():
    child = pexpect.spawn(sys.executable, ["-c", WORKING, "check"], env={**os.environ, "TERM": "xterm"})
    child.expect_exact("begun")
    child.kill(signal.SIGINT)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


def test_an_error_breaks_at_words_on_a_terminal_and_a_command_stays_whole(home):
    terminal = run_program.ddpquiz("plan", home=home, width=60)
    assert terminal.end() == 1
    assert "`ddpquiz plan --model llama-3-70b --gpus 256 --search`;" in terminal.lines
    terminal = run_program.ddpquiz("demo", "allreduce", "--save", "x.png", home=home, width=60)
    assert terminal.end() == 2
    assert "Error: Invalid value for --save: x.png must end with .html" in terminal.lines


EVIL = "x\x1b]0;title\x07\x9b31m\u061c\u202e"


@pytest.mark.parametrize(
    "words",
    [
        (EVIL,), (f"--{EVIL}",), ("list", EVIL), ("list", "--level", EVIL), ("demo", EVIL), ("run", EVIL), ("import", EVIL),
        ("check", EVIL), ("pack", "add", EVIL), ("pack", "remove", EVIL), ("pack", "new", EVIL), ("lab", EVIL),
        ("show", EVIL), ("search", EVIL), ("stats", f"--{EVIL}"), ("plan", "--model", EVIL), ("explain", EVIL),
        ("progress", "restore", EVIL), ("compare", EVIL, "y"), ("where", EVIL), ("export", EVIL), ("prove", EVIL),
        ("export", "csv", "--to", f"{EVIL}/y"), ("demo", "allreduce", "--nproc", EVIL), ("lab", "--dir", EVIL),
    ],
    ids=lambda words: " ".join(words).replace(EVIL, "EVIL"),
)  # fmt: skip
def test_no_typed_name_can_steer_the_terminal(words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ddpquiz", *words])
    with pytest.raises(SystemExit):
        app.main()
    said = "".join(capsys.readouterr())
    assert said
    assert not set(said) & set(EVIL[1:]) - set("]0;title31m")


@pytest.mark.parametrize(
    "words", [("export", "json"), ("export", "csv"), ("stats", "--json"), ("list", "--flagged", "--json")]
)
def test_no_imported_text_can_steer_the_terminal_and_json_loses_none(words, monkeypatch, capsys, tmp_path):
    with contextlib.closing(Progress(tmp_path / "data")) as progress:
        progress.flag("all-reduce-ring/who-holds-the-sum", EVIL, datetime(2026, 3, 2, 12, tzinfo=UTC))
        progress.explain(
            ExplanationRow(
                item="all-reduce-ring/why",
                given=EVIL,
                points=(PointRow(EVIL, matched=True),),
                took=timedelta(seconds=1),
            ),
            datetime(2026, 3, 2, 13, tzinfo=UTC),
        )
    monkeypatch.setattr(sys, "argv", ["ddpquiz", *words])
    with pytest.raises(SystemExit):
        app.main()
    said = capsys.readouterr().out
    assert said
    assert not set(said) & set(EVIL[1:]) - set("]0;title31m")
    if words == ("export", "json"):
        assert EVIL in [value for row in json.loads(said)["log"] for value in row.values()]
