"""Cases that passed are not run again until something that they depend on changes.

The mark `case(kind, depends)` makes cases of all tests of a function. The fingerprint of a case is a hash of:

- what `depends` returns for the test's parameters: files, folders, and parsed data by their `repr`;
- every file of ddpquiz/, but for the folders that nothing in a rank, a proof or a lab's check may import;
- the test's module, conftest.py and the modules of tests/helpers;
- the versions in constraints.txt, Python and the platform.

passed.json holds the fingerprints of the cases that passed. A case is left out if the file *of the base commit* has its
fingerprint; what a change has added to the file itself is not trusted. 5 % of what could be left out, and at least two
of each kind, runs all the same: which ones depends on the content of the whole checkout. If one of these fails, there is
something that the fingerprints do not see, and all entries of its kind are dropped.

    pytest --base REV    leave out what passed in REV, and add what passes now
    pytest --all         run everything, and write the file anew

Without one of the two, or with paths, -k or -m, everything that is selected runs, and the file is neither read nor
written.
"""

import hashlib
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from math import ceil
from pathlib import Path

import pytest
from places import ROOT, TESTS

from ddpquiz.paths import content_dir, demos_dir, labs_dir

FILE = TESTS / "passed.json"
# tests/project/test_imports.py holds that what runs in ranks, proofs and checks of labs imports none of these
NOT_BELOW = {"cli", "learning", "recordings", "terminal", "web"}
# Commands that know neither content nor a learner, and what of these folders they load all the same
RUN_COMMANDS = {"run", "where", "diagnose", "plan"}
LOADED = ("cli", "terminal/kit", "terminal/runs", "web", "learning/side_files.py")
SAMPLE, LEAST = 0.05, 2  # share of the cases that could be left out, and cases of each kind, that run all the same


def engine_module(**_):
    """What a module depends on that tests the engine with its own scripts, or with those that are shipped."""
    return [demos_dir(), labs_dir(), TESTS / "data"]


def command_module(**_):
    """What a module depends on that starts only commands of RUN_COMMANDS: the engine, and what these load."""
    return [*engine_module(), *(ROOT / "ddpquiz" / name for name in LOADED)]


def plan_module(**_):
    """What a module depends on that starts `plan`: also the files of models and of hardware."""
    return [*command_module(), content_dir() / "models", content_dir() / "hardware"]


def page_of(concept, known):
    """What a page about a concept depends on: its file, the names of the others, and all that draws pages."""
    names = [(each.id, each.title, each.needs) for each in known.concepts]
    drawing = [ROOT / "ddpquiz" / name for name in ("learning", "terminal")]
    file = content_dir() / known.concept(concept).track / f"{concept}.yaml"
    return [file, content_dir() / "sources.yaml", known.tracks, names, *drawing]


# For `pytestmark`; test_passed.py says which modules may have them
ENGINE = pytest.mark.case("engine", engine_module)
COMMANDS = pytest.mark.case("command", command_module)
PLANS = pytest.mark.case("plan", plan_module)


def why_unusable():
    """Why fingerprints mean nothing here, or ""."""
    if Path("/dev/nvidiactl").exists():
        return "this machine has a GPU"
    for name, version in re.findall(
        r"^([\w-]+)==(\S+)", ROOT.joinpath("constraints.txt").read_text("utf-8"), re.MULTILINE
    ):
        try:
            installed = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue  # the file also names what other platforms and Pythons need
        if installed != version:
            return f"constraints.txt names {name} {version}, and {installed} is installed"
    return ""


def environment():
    """Where the entries of the file hold."""
    return f"Python {platform.python_version()}, {sys.platform}, {platform.machine()}"


def load(text):
    """The fingerprints in a file, by kind and case, and the cases whose entry was not written by `save`."""
    found, wrong = {}, []
    for kind, cases in json.loads(text)["passed"].items():
        for key, entry in cases.items():
            fingerprint, _, seal = entry.partition(" ")
            if seal == _seal(kind, key, fingerprint):
                found[kind, key] = fingerprint
            else:
                wrong.append(f"{kind}: {key}")
    return found, wrong


def save(entries, path=FILE):
    """Write the fingerprints of cases that passed, one on a line, so that changes merge."""
    kinds = defaultdict(dict)
    for (kind, key), fingerprint in sorted(entries.items()):
        kinds[kind][key] = f"{fingerprint} {_seal(kind, key, fingerprint)}"
    path.write_text(
        json.dumps({"environment": environment(), "passed": kinds}, indent=0, ensure_ascii=False) + "\n", "utf-8"
    )


def _seal(*words):
    return _hash(*(word.encode() for word in words))[:8]


def _hash(*parts):
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


@cache
def _content(path):
    """A hash of a file, or of all files of a folder with their names."""
    if path.is_file():
        return _hash(path.read_bytes())
    files = [each for each in sorted(path.rglob("*")) if each.is_file() and "__pycache__" not in each.parts]
    return _hash(*(part for each in files for part in (str(each.relative_to(path)).encode(), each.read_bytes())))


@cache
def _shared():
    """A hash of what all cases depend on."""
    package = [
        each for each in sorted(ROOT.joinpath("ddpquiz").iterdir()) if each.name not in {*NOT_BELOW, "__pycache__"}
    ]
    helpers = [TESTS / "conftest.py", *sorted(TESTS.joinpath("helpers").glob("*.py"))]
    files = [*package, *helpers, ROOT / "constraints.txt"]
    return _hash(environment().encode(), *(f"{each.name} {_content(each)}".encode() for each in files))


def _fingerprint(item, kind, key, depends):
    parameters = getattr(item, "callspec", None)
    named = [
        f"{each.relative_to(ROOT)} {_content(each)}" if isinstance(each, Path) else repr(each)
        for each in depends(**(parameters.params if parameters else {}))
    ]
    return _hash(*(part.encode() for part in (kind, key, _shared(), _content(item.path), *named)))[:32]


def cases(items):
    """Return (kind, key), fingerprint and item of each case."""
    found = {}
    for item in items:
        marker = item.get_closest_marker("case")
        if marker:
            kind, depends = marker.args
            key = item.nodeid.partition("@")[0].removeprefix("tests/")
            found[kind, key] = (_fingerprint(item, kind, key, depends), item)
    return found


def sample(known, tree):
    """Which of the cases that could be left out run all the same; `tree` is a hash of the checkout."""
    kinds = defaultdict(list)
    for kind, key in known:
        kinds[kind].append((_hash(tree.encode(), key.encode()), (kind, key)))
    return {
        case for drawn in kinds.values() for _, case in sorted(drawn)[: max(LEAST, ceil(SAMPLE * len(drawn)))]
    }  # fmt: skip


def _git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def tree_hash():
    """A hash of all files of the checkout, but for the file of fingerprints."""
    names = sorted(
        {*(_git("ls-files", "-z", "--cached", "--others", "--exclude-standard") or b"").split(b"\0")} - {b""}
    )
    paths = [ROOT / name.decode() for name in names]
    return _hash(
        *(part for each in paths if each.is_file() and each != FILE for part in (bytes(each), each.read_bytes()))
    )


class Passed:
    """The plugin. Workers decide what to leave out, all alike; the controller counts and writes the file."""

    def __init__(self, config):
        self.config = config
        self.trusted, self.tree, self.note = {}, "", ""
        self.cases, self.left_out = {}, set()  # known when a worker has ended
        self.ran, self.failed = set(), set()
        option = config.option
        if hasattr(config, "workerinput"):
            self.active, trusted, self.tree = config.workerinput["passed"]
            self.trusted = {(kind, key): fingerprint for kind, key, fingerprint in trusted}
        else:
            whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not (option.keyword or option.markexpr)
            self.active = whole and bool(option.base or option.all)
            if self.active:
                self._find_trusted()

    def _find_trusted(self):
        self.note = why_unusable()
        base = (
            None
            if self.note or self.config.option.all
            else _git("show", f"{self.config.option.base}:tests/{FILE.name}")
        )
        if base:
            self.trusted, self.tree = load(base)[0], tree_hash()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["passed"] = (
            self.active,
            [[*case, fingerprint] for case, fingerprint in self.trusted.items()],
            self.tree,
        )

    def pytest_collection_modifyitems(self, items):
        if not self.active:
            return
        every = cases(items)
        known = {case for case, (fingerprint, _) in every.items() if self.trusted.get(case) == fingerprint}
        left_out = known - sample(known, self.tree)
        for case, (_, item) in every.items():
            item.user_properties.append(("case", [*case, case in known]))
        out = {every[case][1] for case in left_out}
        self.config.hook.pytest_deselected(items=[item for item in items if item in out])
        items[:] = [item for item in items if item not in out]
        self.cases, self.left_out = {case: fingerprint for case, (fingerprint, _) in every.items()}, left_out
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["passed_cases"] = [
                [*case, fingerprint] for case, fingerprint in self.cases.items()
            ]
            self.config.workeroutput["passed_left_out"] = [list(case) for case in left_out]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        output = getattr(node, "workeroutput", {})
        if "passed_cases" in output:
            self.cases = {(kind, key): fingerprint for kind, key, fingerprint in output["passed_cases"]}
            self.left_out = {tuple(case) for case in output["passed_left_out"]}

    def pytest_runtest_logreport(self, report):
        """Count a case as passed only if its test ran, and neither it nor its fixtures failed or skipped it."""
        for kind, key, known in (value for name, value in report.user_properties if name == "case"):
            if report.when == "call" and report.outcome == "passed":
                self.ran.add((kind, key))
            elif report.outcome == "failed":
                self.failed.add((kind, key, known))

    def pytest_sessionfinish(self, exitstatus):
        if (
            hasattr(self.config, "workerinput")
            or not self.active
            or self.note
            or exitstatus not in (0, 1)
            or not self.cases
            or self.config.option.collectonly
        ):
            return
        self.save()

    def save(self):
        """Write the file: what passed now, and what was left out because it passed before."""
        if (
            not self.config.option.all
            and FILE.exists()
            and json.loads(FILE.read_text("utf-8"))["environment"] != environment()
        ):
            self.note = "the entries of the file are from another platform or Python"
            return
        bad = {(kind, key) for kind, key, _ in self.failed}
        holds = {case: self.cases[case] for case in (self.ran | self.left_out) - bad if case[0] not in self.dropped}
        save(holds)

    @property
    def dropped(self):
        """The kinds of which a case failed although nothing that it depends on had changed."""
        return {kind for kind, _, known in self.failed if known}

    def pytest_terminal_summary(self, terminalreporter):
        if not self.active or self.config.option.collectonly:
            return
        say = terminalreporter.write_line
        if self.note:
            say(f"Every case ran, and {FILE.name} was neither used nor written: {self.note}.")
        elif self.config.option.base and not self.trusted:
            say(f"Every case ran: {self.config.option.base} has no {FILE.name}.")
        elif self.trusted:
            known = len(self.left_out) + sum(1 for case in self.ran if self.trusted.get(case) == self.cases.get(case))
            say(
                f"{len(self.left_out)} of {len(self.cases)} cases were left out: they passed before, and nothing that they"
            )
            say(f"depend on has changed. {known - len(self.left_out)} more of these ran as a sample.")
        for kind in sorted(self.dropped):
            say(
                f"A case of kind `{kind}` failed although nothing in its fingerprint has changed: it fails now and then, or"
            )
            say(
                "depends on something that tests/helpers/passed.py does not know. All entries of the kind were dropped."
            )
