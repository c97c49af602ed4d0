"""The server that starts ranks: it may die or print a lot."""

import select
import subprocess
import sys
import time

import passed
import pytest
from real_run import end, run

from ddpquiz.errors import UserError
from ddpquiz.ranks import server_connection
from ddpquiz.ranks.messages import Preload, QueryMachine

pytestmark = passed.ENGINE


def test_a_server_that_died_is_replaced(script):
    assert end(run(script("pass"))).ok
    process = server_connection.server().process  # once it has died, `server` starts another one
    process.kill()
    process.wait()
    assert end(run(script("pass"))).ok


def test_a_server_that_logs_a_lot_does_not_stand_still(monkeypatch, tmp_path):
    """As it and the store do with TORCH_CPP_LOG_LEVEL=INFO: after some dozens of runs a pipe would be full."""
    (tmp_path / "talkative.py").write_text("import sys\nprint('log\\n' * 100_000, file=sys.stderr)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server_connection.close()
    serving = server_connection.server()
    assert serving.machine
    serving.send(Preload(("talkative",)))
    time.sleep(0.5)  # it does so while it has nothing else to do
    serving.send(QueryMachine())
    answers, _, _ = select.select([serving.channel], [], [], 10)
    server_connection.close()  # its search path holds this folder
    assert answers


def test_a_server_that_dies_leaves_its_last_words():
    serving = server_connection.server()
    assert serving.machine
    serving.log.write(b"first\nlast words\n")
    serving.log.flush()
    serving.process.kill()
    with pytest.raises(UserError, match=r"has died \(last words\)"):
        serving.receive()


def test_the_launcher_does_not_import_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('here')\n")
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from ddpquiz.ranks.request import Request\nfrom ddpquiz.ranks.elastic_run import begin\n"
        f"print([*begin(Request(Path({str(script)!r}), ranks=1, device='cpu')).events()][-1].ok, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True False\n", done.stderr
