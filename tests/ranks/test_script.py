"""Scripts and modules before they run: what cannot be run is refused in a sentence."""

import pytest

from ddpquiz.errors import UserError
from ddpquiz.ranks import script
from ddpquiz.ranks.script import of_module, read

# Files that cannot be run, and the messages.
UNREADABLE = {
    "missing.py": (None, "There is no script {path}."),
    "train": (None, "There is no script {path}; did you mean {path}.py?"),
    "broken.py": (b"x = 1\ndef def\n", "{path}:2: invalid syntax; Python cannot read this script."),
    "latin.py": (
        b"name = '\xe9'\n",
        "{path} is not UTF-8; save it as UTF-8, or name its encoding in the first line: # coding: latin-1",
    ),
    "null.py": (
        b"x = '\0'\n",
        "{path}:1: source code string cannot contain null bytes; Python cannot read this script.",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_run_is_refused_in_a_sentence(tmp_path, name):
    path, (data, said) = tmp_path / name, UNREADABLE[name]
    tmp_path.joinpath("train.py").touch()
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UserError) as refused:
        script.read(path)
    assert str(refused.value).replace(":None:", ":1:").replace(":0:", ":1:") == said.format(path=path)


@pytest.mark.parametrize("name", ["nope", "pkg.nope", "pkg"])
def test_a_module_that_is_not_there_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    missing = "pkg.__main__" if name == "pkg" else name
    with pytest.raises(UserError) as refused:
        of_module(name)
    assert (
        str(refused.value) == f"There is no module {missing}; -m searches where `python -m` does, first in {tmp_path}."
    )


SETTINGS = {
    "import os\nos.environ['TORCH_LOGS'] = '+ddp'\nimport torch\n": ["TORCH_LOGS"],
    "import os\nos.environ.setdefault('OMP_NUM_THREADS', '4')\nfrom torch import nn\n": ["OMP_NUM_THREADS"],
    "import os\nos.environ.update({'MKL_NUM_THREADS': '4', 'HOME': '/'})\nimport torch\n": ["MKL_NUM_THREADS"],
    "import os\nos.environ['TORCH_DISTRIBUTED_DEBUG'] = 'DETAIL'\nimport torch\n": [],  # applied late
    "import os, torch\nos.environ['TORCH_LOGS'] = '+ddp'\n": [],  # too late anywhere
    "import os\nprint(os.environ['OMP_NUM_THREADS'])\nimport torch\n": [],
}


@pytest.mark.parametrize("source", SETTINGS)
def test_what_a_script_sets_for_the_import_of_torch_is_noted(tmp_path, source):
    path = tmp_path / "train.py"
    path.write_text(source)
    assert [note.partition(",")[0].removeprefix("The script sets ") for note in read(path).notes] == SETTINGS[source]
