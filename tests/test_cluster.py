"""Several machines and restarts: torchrun's agent under our watch, on two hosts made of network namespaces."""

import base64
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ddpquiz.analysis.event_codec import decode
from ddpquiz.analysis.events import Claimed, End, Exited, Nodes, Output, Started
from ddpquiz.ranks.launch import server
from ddpquiz.ranks.machines import jobs
from ddpquiz.ranks.machines.cluster import AGENT, Cluster, complaint
from ddpquiz.ranks.machines.elastic import ElasticRun
from ddpquiz.ranks.machines.jobs import JobFile
from ddpquiz.ranks.request import Request

pytestmark = pytest.mark.xdist_group("hosts")  # their names and addresses are fixed
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ROOT = Path(__file__).parents[1]
HEAD = """\
import os, sys, time, torch, torch.distributed as dist
life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2)
"""


@pytest.fixture
def script(tmp_path):
    def write(body, head=HEAD):
        path = tmp_path / "script.py"
        path.write_text(head + textwrap.dedent(body))
        return path

    return write


def run(path, cluster, ranks=2, **request):
    return list(ElasticRun(Request(path, ranks=ranks, device="cpu", timeout=20.0, cluster=cluster, **request)).events())


def until_ready(script):
    """Start two ranks under the agent, and wait until both are past a barrier; they stay there."""
    path = script("dist.barrier()\nprint('ready: yes')\ntime.sleep(60)")
    running = ElasticRun(Request(path, ranks=2, device="cpu", cluster=Cluster(restarts=1)))
    while len(running.seen.rows.get("ready", {})) < 2:
        assert not running.over, running.seen.end.why
        running.read(0.1)
    return running


def test_an_agent_that_is_killed_is_a_failure(script):
    running = until_ready(script)
    os.kill(running._processes.pids[AGENT], signal.SIGKILL)
    last = end(list(running.events()))
    assert (last.ok, last.why) == (False, "torchrun's agent has failed: signal 9")


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def end(events):
    assert isinstance(events[-1], End)
    return events[-1]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def all_gone(pids, seconds=60):
    until = time.monotonic() + seconds
    while not all(map(gone, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return all(map(gone, pids))


def descendants(pid):
    """Return a process and all that stem from it."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            parents[int(entry.name)] = parent_of(entry.name)
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def listening(pids):
    """Return the addresses, as the kernel writes them, on which these processes listen."""
    sockets = {str(fd.readlink()) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    found = set()
    for pid in pids:
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    found.add(fields[1].split(":")[0])
    return found


class Node:
    """`ddpquiz run --json` on one of several nodes, which may be a network namespace of its own."""

    def __init__(self, words, inside=()):
        self.events = []
        command, *rest = map(str, words)
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-m", "ddpquiz", command, "--json", *rest],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def until(self, enough):
        """Read events until `enough(events)`."""
        while not enough(self.events):
            line = self.process.stdout.readline()
            assert line, self.events[-1]
            self.events.append(decode(line))
        return self.events

    def finish(self):
        """Read to the end, and return what happened."""
        self.events += map(decode, self.process.stdout)
        self.process.wait(60)
        return self.events


def free_port():
    """Return a port that nobody has; the kernel gives those of a range of its own, also to other tests, until it is used."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 49152
    for port in random.SystemRandom().sample(range(10000, max(first, 20000)), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


def claimed(events):
    return {(event.rank, event.line) for event in of(events, Claimed) if event.held}


# Restarts, on one machine.


def test_a_rank_that_dies_once_is_started_again_with_all_others(script):
    body = """
    dist.all_reduce(x)
    print(f"life: {life}")
    if rank == 1 and life == 0:
        raise ValueError("once")
    dist.barrier()
    assert x[0] == world, "the sum is right"
    dist.destroy_process_group()
    """
    events = run(script(body), Cluster(restarts=1))
    started = [(event.rank, event.restart) for event in of(events, Started)]
    assert sorted(started) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len({event.pid for event in of(events, Started)}) == 4
    assert sorted((event.rank, event.value) for event in of(events, Output) if event.label == "life") == [
        (0, "0"),
        (0, "1"),
        (1, "0"),
        (1, "1"),
    ]
    assert sorted((event.rank, event.status) for event in of(events, Exited)[-2:]) == [(0, 0), (1, 0)]
    assert (end(events).ok, end(events).proven, end(events).why) == (True, 1, "")


def test_half_a_line_of_the_first_life_is_not_joined_with_the_second(script):
    body = """
    import sys
    sys.stdout.write("loss: 5\\n" if life else "half a line")
    sys.stdout.flush()
    dist.barrier()
    if life == 0:
        os._exit(1)
    """
    said = [event for event in of(run(script(body), Cluster(restarts=1)), Output) if event.stream == "stdout"]
    assert sorted(event.text for event in said) == ["half a line"] * 2 + ["loss: 5"] * 2
    assert [event.value for event in said] == [None] * 2 + ["5"] * 2


def test_a_claim_that_the_first_life_broke_does_not_count_against_the_second(script):
    events = run(script('assert life == 1, "it is the second life"\ndist.barrier()\n'), Cluster(restarts=1))
    assert (end(events).why, end(events).proven) == ("", 1)


def test_a_failed_rank_that_takes_its_time_to_end_is_no_hang(script):
    body = """
    import atexit
    if rank == 1 and life == 0:
        atexit.register(time.sleep, 1.5)
        raise ValueError
    dist.barrier()
    """
    events = run(script(body), Cluster(restarts=1))
    assert (end(events).ok, end(events).why) == (True, "")


def test_when_no_restart_is_left_the_reason_of_the_last_failure_is_told(script):
    events = run(
        script("if rank == 1:\n    raise ValueError(f'in life {life}')\ndist.barrier()\n"), Cluster(restarts=1)
    )
    assert (end(events).ok, end(events).rank) == (False, 1)
    assert end(events).why.startswith("Rank 1 raised ValueError at script.py:7: in life 1")


def test_a_killed_rank_is_started_again(script):
    events = run(script("if rank == 0 and life == 0: os.kill(os.getpid(), 9)\ndist.barrier()\n"), Cluster(restarts=1))
    assert end(events).ok
    assert (0, -9) in {(event.rank, event.status) for event in of(events, Exited)}


def test_a_hang_is_noticed_under_the_agent_too(script):
    path = script("if rank == 1:\n    time.sleep(60)\ndist.all_reduce(x)\n")
    request = Request(path, ranks=2, device="cpu", timeout=1.0, cluster=Cluster(restarts=1))
    events = list(ElasticRun(request).events())
    assert not end(events).ok
    assert "rank 0 waits in all_reduce for rank 1" in end(events).why
    assert "script.py:7" in end(events).why


def test_ranks_that_gave_up_waiting_say_for_whom_when_no_restart_is_left(script):
    head = HEAD.replace('init_process_group("gloo")', 'init_process_group("gloo", timeout=timedelta(seconds=1))')
    body = "if rank == 1:\n    time.sleep(60)\ndist.all_reduce(x)\n"
    events = run(script(body, "from datetime import timedelta\n" + head), Cluster(restarts=1))
    found = "The process group timed out after 1 s: rank 0 waits in all_reduce for rank 1, which is at script.py:8."
    assert end(events).why == found


def test_a_failed_rank_that_never_ends_is_a_hang_for_the_others(script):
    body = """
    import atexit
    if rank == 1:
        atexit.register(time.sleep, 60)
        raise ValueError
    dist.barrier()
    """
    request = Request(script(body), ranks=2, device="cpu", timeout=1.0, cluster=Cluster(restarts=1))
    events = list(ElasticRun(request).events())
    assert end(events).why.startswith("Nothing moved for ")
    assert end(events).why.endswith("rank 0 waits in barrier for rank 1, which raised ValueError but has not exited.")


def test_a_script_may_handle_the_signal_with_which_torchrun_ends_ranks(script):
    body = """
    import signal
    def bye(*_):
        print("checkpoint: written", flush=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, bye)
    dist.barrier()
    if rank == 1:
        raise ValueError
    time.sleep(60)
    """
    events = run(script(body), Cluster(restarts=1))
    assert [event.rank for event in of(events, Output) if event.label == "checkpoint"] == [0, 0]


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_agent_ranks_and_their_children_when_the_parent_goes(script, number):
    body = """
    import subprocess
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    print("pid:", child.pid)
    time.sleep(60)
    """
    node = Node(["run", "--nproc", 2, "--max-restarts", 1, "--device", "cpu", script(body)])
    node.until(lambda events: len(of(events, Output)) == 2)
    family = descendants(node.process.pid) - {node.process.pid}
    assert {int(event.value) for event in of(node.events, Output)} < family
    assert {event.pid for event in of(node.events, Started)} < family
    node.process.send_signal(number)
    node.finish()
    assert node.process.returncode == (130 if number == signal.SIGINT else -number)
    assert all_gone(family)


def test_a_rank_that_the_agent_ends_is_not_the_cause(script):
    body = """
    dist.barrier()
    if rank == 0:
        raise RuntimeError("Connection closed by peer")  # reads as if another rank had failed before
    time.sleep(60)
    """
    events = run(script(body), Cluster(restarts=1))
    assert (end(events).rank, end(events).why) == (
        0,
        "Rank 0 raised RuntimeError at script.py:9: Connection closed by peer",
    )
    assert [event.stopped for event in of(events, Exited) if event.rank == 1] == [True, True]


@linux
def test_what_forks_ranks_has_no_other_thread(script):
    """What another thread has locked at that moment would stay locked in the rank: one in hundreds hung for ever."""
    running = until_ready(script)
    ranks = set(running.seen.pids.values())
    family = descendants(server().process.pid)
    forked = {parent for child in family for parent in [parent_of(child)] if parent in family}
    threads = {pid: len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in forked}
    running.stop("enough")
    list(running.events())
    assert len(threads) == 4  # the server, the agent, and who stands for each rank
    assert not forked & ranks
    assert set(threads.values()) == {1}


@linux
def test_with_one_node_only_loopback_is_listened_on(script):
    running = until_ready(script)
    found = listening(descendants(server().process.pid))
    running.stop("seen enough")
    list(running.events())
    assert found == {"0100007F"}  # 127.0.0.1


# What keeps nodes from meeting.


def test_a_node_that_does_not_come_is_waited_for_and_counted(script):
    cluster = Cluster(2, 0, f"127.0.0.1:{free_port()}", patience=1)
    events = run(script("pass"), cluster, ranks=1)
    assert (of(events, Nodes)[0].joined, of(events, Nodes)[0].needed) == (1, 2)
    assert end(events).why == "Only 1 of 2 nodes joined in 1 s; start the others with the same command line."


def test_an_endpoint_that_nobody_listens_on_is_named(script):
    port = free_port()
    events = run(script("pass"), Cluster(2, 1, f"127.0.0.1:{port}", patience=1), ranks=1)
    assert end(events).why == (
        f"Nobody listened on 127.0.0.1:{port} for 1 s (Connection refused); "
        "start --node-rank 0 there, and see that its port can be reached from here."
    )


def test_a_port_that_is_taken_is_named(script):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        events = run(script("pass"), Cluster(2, 0, f"127.0.0.1:{port}"), ranks=1)
    assert (
        end(events).why
        == f"Port {port} of 127.0.0.1 is taken; end what listens there, or give another one on every node."
    )


def test_node_0_must_run_where_the_endpoint_is(script):
    events = run(script("pass"), Cluster(2, 0, "192.0.2.1:29400"), ranks=1)
    assert end(events).why == (
        "192.0.2.1 is not an address of this machine; --rdzv-endpoint must name the machine of --node-rank 0."
    )


@pytest.mark.parametrize("node", [0, 1])
def test_a_name_without_an_address_is_said_to_be_one(script, node):
    events = run(script("pass"), Cluster(2, node, "no-such-host.invalid:29400"), ranks=1)
    assert end(events).why == (
        "This machine knows no address of no-such-host.invalid; write it in numbers in --rdzv-endpoint."
    )


UNLIKE = {
    ("--nproc", "2"): "All nodes must have the same --nproc: node {} has {}, this one {}.",
    ("--max-restarts", "2"): "All nodes must have the same --max-restarts: node {} has {}, this one {}.",
}


@pytest.mark.parametrize("option", UNLIKE, ids=" ".join)
def test_nodes_that_do_not_fit_together_say_so_on_both_sides(script, option):
    name, theirs = option
    path, port = script("pass"), free_port()
    words = ["run", "--device", "cpu", "--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{port}"]
    ours = {"--nproc": "1", "--max-restarts": "1"}
    nodes = []
    for rank, given in enumerate([ours, ours | {name: theirs}]):
        nodes.append(Node([*words, "--node-rank", rank, *(word for pair in given.items() for word in pair), path]))
    whys = [end(node.finish()).why for node in nodes]
    assert whys == [UNLIKE[option].format(1, theirs, ours[name]), UNLIKE[option].format(0, ours[name], theirs)]


WRONG = {
    Cluster(0): "--nnodes",
    Cluster(2, 0): "--rdzv-endpoint",
    Cluster(2, 2, "a:1"): "--node-rank",
    Cluster(2, -1, "a:1"): "--node-rank",
    Cluster(2, 0, "a:b"): "--rdzv-endpoint",
    Cluster(2, 0, ":29400"): "--rdzv-endpoint",
    Cluster(2, 0, "a:99999"): "--rdzv-endpoint",
    Cluster(restarts=-1): "--max-restarts",
    Cluster(2, 0, "a"): None,
    Cluster(2, 0, "[::1]:29400"): None,
    Cluster(restarts=3): None,
}


@pytest.mark.parametrize("cluster", WRONG, ids=str)
def test_options_that_cannot_be_meant_are_refused_by_name(cluster):
    wrong = complaint(cluster)
    assert (wrong[0] if wrong else None) == WRONG[cluster]


# Two hosts.


@pytest.fixture(scope="module")
def hosts():
    """Two network namespaces with a cable between them, as words that run a command inside."""
    names = [f"ddpquiz{os.getpid()}{end}" for end in "ab"]
    cable = [f"dq{os.getpid()}{end}" for end in "ab"]

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=True)

    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for number, (name, link) in enumerate(zip(names, cable, strict=True), 1):
            ip("link", "set", link, "netns", name)
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as wrong:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        pytest.skip(f"network namespaces need root, iproute2 and Linux: {wrong}")
    yield [["ip", "netns", "exec", name] for name in names]
    for name in names:
        ip("netns", "del", name)


def start(hosts, command, *words):
    shared = ["--nproc", 2, "--device", "cpu", "--nnodes", 2, "--rdzv-endpoint", "10.77.0.1"]
    return [Node([command, *shared, "--node-rank", rank, *words], inside) for rank, inside in enumerate(hosts)]


@pytest.mark.parametrize("demo", ["allreduce", "ddp"])
def test_a_demo_runs_on_two_hosts_and_proves_its_claims_on_both(hosts, demo):
    nodes = start(hosts, "demo", demo)
    for number, node in enumerate(nodes):
        events = node.finish()
        assert (node.process.returncode, end(events).why) == (0, "")
        here = {2 * number, 2 * number + 1}
        began = events[0]
        assert (set(began.here), began.ranks) == (here, 4)
        assert {event.rank for event in of(events, Started)} == here
        assert of(events, Nodes)[-1].joined == 2
        on_both = [claim.line for claim in began.claims if {(rank, claim.line) for rank in here} <= claimed(events)]
        assert len(on_both) >= 3
    assert "node 0 of 2 listens on 10.77.0.1:29400" in nodes[0].events[0].reason
    assert "node 1 of 2 meets node 0 at 10.77.0.1:29400" in nodes[1].events[0].reason


@pytest.mark.parametrize("victim", [0, 1])
def test_when_a_host_is_killed_the_other_ends_and_says_why(hosts, script, victim):
    path = script("while True:\n    dist.all_reduce(x.clone())\n    print('alive: yes')\n    time.sleep(0.05)\n")
    nodes = start(hosts, "run", path)
    for node in nodes:
        node.until(lambda events: len({event.rank for event in of(events, Output)}) == 2)
    families = [descendants(node.process.pid) for node in nodes]
    addresses = [listening(family) for family in families]
    nodes[victim].process.kill()
    other = nodes[1 - victim]
    events = other.finish()
    assert other.process.returncode == 1
    why, rank = end(events).why, end(events).rank
    if victim == 0 and rank is None:  # the agent missed node 0's store before a rank missed a peer
        assert why.startswith("Node 0 at 10.77.0.1 is gone")
    else:
        assert why.startswith(f"Rank {rank} lost another node: its ranks have failed, or it is gone")
        assert rank in events[0].here
    nodes[victim].process.communicate()
    assert all_gone(set.union(*families))
    assert addresses == [{"01004D0A"}, {"02004D0A"}]  # 10.77.0.1 and 10.77.0.2: no other address, not even at first


def test_a_rank_that_fails_is_started_again_on_both_hosts(hosts, script):
    body = """
    dist.all_reduce(x)
    if rank == 3 and life == 0:
        raise ValueError("once")
    dist.barrier()
    assert x[0] == 4, "the sum is that of four ranks"
    """
    nodes = start(hosts, "run", "--max-restarts", 2, script(body))
    for node in nodes:
        events = node.finish()
        assert (end(events).ok, end(events).why, end(events).proven) == (True, "", 1)
        assert max(event.restart for event in of(events, Started)) >= 1


# What others run.


@pytest.fixture
def job(tmp_path):
    def make(**fields):
        path = tmp_path / "my train.py"
        path.write_text("import os, sys\nsys.stdout.write(f'rank {os.environ[\"RANK\"]} {sys.argv[1:]}\\n')\n")
        return JobFile(path, ("--text", "it's $HOME", "$(id)"), **fields)

    return make


def torchrun_at_hand():
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def ranks_said(done):
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))


SAID = [f"rank {rank} ['--text', \"it's $HOME\", '$(id)']" for rank in (0, 1)]


def test_the_line_for_torchrun_runs(job):
    line = jobs.torchrun(job(ranks=2))
    done = subprocess.run(["bash", "-c", line], env=torchrun_at_hand(), capture_output=True, text=True, timeout=100)
    assert ranks_said(done) == SAID, done.stderr


GOLDEN = {
    "torchrun": """\
# The same on each of the 2 machines.
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes 2 --nproc-per-node 3 --max-restarts 1 \
--rdzv-backend c10d --rdzv-id ddpquiz --rdzv-endpoint gpu1:29400 {script} --text 'it'"'"'s $HOME' '$(id)'
""",
    "slurm": """\
#!/bin/bash
# sbatch my-train.sbatch; the environment of python must be the same on each node.
#SBATCH --job-name=my-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=3
#SBATCH --gpus-per-node=3
#SBATCH --time=00:10:00
#SBATCH --output=%x-%j.out
set -euo pipefail

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
srun --kill-on-bad-exit=1 torchrun --nnodes 2 --nproc-per-node 3 --max-restarts 1 \
--rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$head:29400" {script} \
--text 'it'"'"'s $HOME' '$(id)'
""",
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_what_is_printed_for_others(job, kind):
    wanted = job(ranks=3, nodes=2, endpoint="gpu1", restarts=1, gpus=True)
    assert jobs.KINDS[kind](wanted) == GOLDEN[kind].format(script=f"'{wanted.script}'")


def test_the_file_for_slurm_runs_where_its_commands_are(job, tmp_path):
    """A stage for it: one node, whose name is that of loopback, and an srun that starts the one task."""
    for name, does in {"scontrol": "echo 127.0.0.1", "srun": 'shift; exec "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    text = jobs.slurm(job(ranks=2)).replace(":29400", f":{free_port()}")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    env = torchrun_at_hand()
    env |= {"PATH": f"{tmp_path}:{env['PATH']}", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash"], input=text, env=env, capture_output=True, text=True, timeout=100)
    assert ranks_said(done) == SAID, done.stderr


def test_the_manifest_for_kubernetes_is_a_pytorchjob_that_brings_its_script(job):
    import yaml

    wanted = job(ranks=3, nodes=2, restarts=1, gpus=True)
    files, manifest = yaml.safe_load_all(jobs.kubernetes(wanted))
    assert (files["kind"], files["data"]) == ("ConfigMap", {"my-train.py": wanted.script.read_text()})
    assert (manifest["apiVersion"], manifest["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert manifest["metadata"]["name"] == files["metadata"]["name"] == "my-train"
    spec = manifest["spec"]
    assert spec["nprocPerNode"] == "3"
    assert spec["elasticPolicy"] == {"rdzvBackend": "c10d", "minReplicas": 2, "maxReplicas": 2, "maxRestarts": 1}
    worker = spec["pytorchReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (2, "Never")
    pod = worker["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == [
        "torchrun", "--nproc-per-node", "3", "--max-restarts", "1",
        "/ddpquiz/my-train.py", "--text", "it's $HOME", "$$(id)",
    ]  # fmt: skip
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 3}}
    assert pod["volumes"][0]["configMap"]["name"] == "my-train"
    assert container["volumeMounts"][0]["mountPath"] == "/ddpquiz"


@pytest.mark.parametrize("name", ["train.py", "1_train.py", "my train.py", "_.py", "naïve.py", f"{'9' * 60}.py"])
def test_a_manifest_names_things_as_kubernetes_does(tmp_path, name):
    import yaml

    (tmp_path / name).touch()
    files, manifest = yaml.safe_load_all(jobs.kubernetes(JobFile(tmp_path / name)))
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", manifest["metadata"]["name"])  # that of a service, too
    (key,) = files["data"]
    assert re.fullmatch(r"[-._a-zA-Z0-9]+", key)


def test_a_script_in_another_encoding_comes_to_kubernetes_as_it_is(tmp_path):
    import yaml

    (tmp_path / "latin.py").write_bytes("# coding: latin-1\nprint('é')\n".encode("latin-1"))
    files, _ = yaml.safe_load_all(jobs.kubernetes(JobFile(tmp_path / "latin.py")))
    assert base64.b64decode(files["binaryData"]["latin.py"]) == (tmp_path / "latin.py").read_bytes()


def test_a_module_is_run_as_one_and_brings_no_file():
    import yaml

    wanted = JobFile(Path("pkg/train.py"), (), module="pkg.train")
    assert jobs.torchrun(wanted) == "torchrun --nproc-per-node 4 -m pkg.train\n"
    (manifest,) = yaml.safe_load_all(jobs.kubernetes(wanted))
    (container,) = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["-m", "pkg.train"]


COMMANDS = {
    ("demo", "allreduce", "--emit", "torchrun", "--nproc", "2", "--", "--size", "4"): (
        0,
        "demos/allreduce.py --size 4",
    ),
    ("demo", "allreduce", "--emit", "kubernetes"): (0, "kind: PyTorchJob"),
    ("run", "--emit", "slurm", "--nnodes", "3", "demos/ddp.py"): (0, "#SBATCH --nodes=3"),
    ("run", "--emit", "slurm", "missing.py"): (1, "There is no script"),
    ("run", "--emit", "slurm", "--nproc", "0", "demos/ddp.py"): (2, "0 is not a number of ranks"),
    ("run", "--timeout", "0", "demos/ddp.py"): (2, "0 is not a positive number of seconds."),
    ("demo", "ddp", "--emit", "slurm", "--device", "gpu"): (2, "'gpu' is not one of auto, cpu, cuda."),
    ("run", "--emit", "lsf", "demos/ddp.py"): (2, "'lsf' is not one of torchrun, slurm, kubernetes."),
    ("run", "--nnodes", "2", "demos/ddp.py"): (2, "it says which of the 2 nodes this is: 0 to 1."),
    ("run", "--nnodes", "2", "--node-rank", "0", "demos/ddp.py"): (2, "several nodes need HOST:PORT of node 0"),
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_command_line_prints_jobs_and_refuses_what_cannot_be_meant(words):
    status, text = COMMANDS[words]
    done = subprocess.run([sys.executable, "-m", "ddpquiz", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status
    assert text in (done.stderr if status else done.stdout)


def test_the_events_of_a_node_are_lines_of_json(script):
    done = subprocess.run(
        [sys.executable, "-m", "ddpquiz", "run", "--nproc", "1", "--max-restarts", "1", "--json", script("pass")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("run", "end")
