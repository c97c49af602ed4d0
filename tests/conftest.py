"""What every test shares: the server of ranks is warm for the whole session and ends with it."""

import pytest

from ddpquiz.ranks import launch


@pytest.fixture(autouse=True, scope="session")
def _end_of_server():
    yield
    launch.close()
