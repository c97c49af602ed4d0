"""What tests share: a warm server of ranks that ends with the session, data folders that are nobody's own, and logs."""

import os
import tempfile

import pytest
from hypothesis import settings

from ddpquiz.learning.progress import Progress
from ddpquiz.ranks import launch

_HOME = tempfile.TemporaryDirectory(prefix="ddpquiz-tests-")
os.environ["DDPQUIZ_HOME"] = _HOME.name  # here, since test modules copy the environment while they are being imported

for name in ("COLUMNS", "LINES"):  # pytest's workers have them, and a pseudo-terminal has a size of its own
    os.environ.pop(name, None)


settings.register_profile("same", derandomize=True)  # a change is not to fail for what was there before it
settings.load_profile("same")


@pytest.fixture(autouse=True, scope="session")
def _end_of_server():
    yield
    launch.close()


@pytest.fixture
def progress(tmp_path):
    """The log of a learner who has done nothing yet."""
    with Progress(tmp_path) as opened:
        yield opened


@pytest.fixture
def home(tmp_path):
    """The data folder of a learner; it is not there yet."""
    return tmp_path / "home"
