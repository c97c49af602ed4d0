"""What every test shares: a warm server of ranks that ends with the session, and a data folder that is nobody's own."""

import os
import tempfile

import pytest

from ddpquiz.ranks import launch

_HOME = tempfile.TemporaryDirectory(prefix="ddpquiz-tests-")
os.environ["DDPQUIZ_HOME"] = _HOME.name  # here, since test modules copy the environment while they are being imported

for name in ("COLUMNS", "LINES"):  # pytest's workers have them, and a pseudo-terminal has a size of its own
    os.environ.pop(name, None)


@pytest.fixture(autouse=True, scope="session")
def _end_of_server():
    yield
    launch.close()
