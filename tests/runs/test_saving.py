"""A run becomes another file: JSON, a trace, or a picture that loads nothing from a network."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from trace_format import complaints

from ddpquiz.errors import UserError
from ddpquiz.events import saved_run
from ddpquiz.paths import recordings_dir


def ddpquiz(*args, **more):
    return subprocess.run(
        [sys.executable, "-m", "ddpquiz", *map(str, args)], capture_output=True, text=True, timeout=60, **more
    )


class Links(HTMLParser):
    """Notes every attribute that could fetch something, and every tag that could run something."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found += [tag] if tag in ("script", "link", "img", "iframe") else []
        self.found += [value for name, value in attributes if name in ("src", "href", "srcset")]


@pytest.mark.parametrize("end", [".json", ".trace.json", ".svg", ".html"])
def test_a_saved_run_becomes_another_file_without_torch(tmp_path, end):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    path = tmp_path / f"run{end}"
    made = ddpquiz("demo", "--replay", "allreduce", "--save", path, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert (made.returncode, made.stdout, made.stderr) == (0, "", f"Saved {path}.\n")
    text = path.read_text(encoding="utf-8")
    match end:
        case ".json":
            assert saved_run.read(path) == saved_run.read(recordings_dir() / "allreduce.json")
        case ".trace.json":
            assert complaints(json.loads(text)) == []
        case ".svg":
            assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
            assert "bytes&#160;sent&#160;(ring)" in text
            assert text.count("every rank brings") + text.count("every&#160;rank&#160;brings") == 2  # as name and text
            assert "<circle" not in text, "no window around it"
            assert not re.search(r"url\((?!#)|@import|@font-face|href=\"(?!#)|<script", text)
        case ".html":
            assert "bytes sent (ring)" in text
            assert Links(text).found == ["script", "script"]  # the data and our own
            assert not re.search(r"url\(|@import|@font-face", text)


@pytest.mark.parametrize("end", [".json", ".trace.json", ".svg", ".html"])
def test_a_live_run_is_saved_by_the_end_of_its_name(tmp_path, end):
    script, path = tmp_path / "two.py", tmp_path / f"run{end}"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nx = torch.ones(2)\ndist.all_reduce(x)\nprint(f'sum: {x.tolist()}')\n"
    )
    ran = ddpquiz("run", "--nproc", "2", "--plain", "--save", path, script)
    assert (ran.returncode, ran.stderr) == (0, f"Saved {path}.\n")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(["two.py", path.name])
    text = path.read_text(encoding="utf-8")
    assert "[2.0, 2.0]" in text.replace("&#160;", " ")
    if end == ".json":
        assert saved_run.read(path)[-1].ok
    elif end == ".trace.json":
        assert complaints(json.loads(text)) == []


def test_text_of_a_script_does_not_become_part_of_a_picture(tmp_path):
    script = tmp_path / "evil.py"
    script.write_text('"""A {title} <b>bold</b>."""\nprint("state: <script>alert(1)</script>")\n')
    for end in (".svg", ".html"):
        path = tmp_path / f"run{end}"
        assert ddpquiz("run", "--nproc", "1", "--plain", "--save", path, script).returncode == 0
        text = path.read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert "<b>" not in text
        assert "{title}" in text.replace("&#160;", " ")


def test_a_file_of_another_kind_is_refused_before_anything_runs(tmp_path):
    ran = ddpquiz("demo", "allreduce", "--save", tmp_path / "run.png")
    assert ran.returncode == 2
    said = re.sub(r"\s+", " ", ran.stderr)
    assert "run.png must end with .html (page), .json (events), .trace.json (for Perfetto) or .svg (picture)." in said


def test_a_missing_folder_is_reported_before_anything_runs(tmp_path):
    ran = ddpquiz("demo", "allreduce", "--plain", "--save", tmp_path / "none" / "run.json")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"The folder {tmp_path / 'none'} does not exist, so the run cannot be saved in it.\n"


def test_what_could_not_be_written_leaves_nothing_behind(tmp_path):
    def breaks(file):
        file.write("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device"):
        saved_run.write(tmp_path / "run.json", breaks)
    assert list(tmp_path.iterdir()) == []
