"""The packages that ours imports are those that pyproject.toml declares."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from places import ROOT

import ddpquiz

PACKAGE = Path(ddpquiz.__file__).parent
PROJECT = ROOT / "pyproject.toml"


def imported():
    """Return the packages that our modules import, ours and those of the standard library aside."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found |= {name.partition(".")[0] for name in names}
    return found - {"ddpquiz", *sys.stdlib_module_names}


def test_every_package_that_is_imported_is_declared():
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    declared = {re.match(r"[\w-]+", each)[0].lower() for each in wanted}
    distributions = {name: {each.lower() for each in of} for name, of in metadata.packages_distributions().items()}
    assert {name for name in imported() if not distributions.get(name, {name}) & declared} == set()
