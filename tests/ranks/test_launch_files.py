"""Job files for other launchers: a command line for torchrun, a file for Slurm, a manifest for Kubernetes."""

import base64
import contextlib
import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from places import ROOT

from ddpquiz.ranks import launch_files
from ddpquiz.ranks.launch_files import JobFile


def free_port():
    """Return a port that nobody has; the kernel gives those of a range of its own, also to other tests, until it is used."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 49152
    for port in random.SystemRandom().sample(range(10000, max(first, 20000)), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


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
    line = launch_files.torchrun(job(ranks=2))
    done = subprocess.run(["bash", "-c", line], env=torchrun_at_hand(), capture_output=True, text=True, timeout=100)
    assert ranks_said(done) == SAID, done.stderr


GOLDEN = {
    "torchrun": """\
# Run this on each of the 2 machines. HEAD is the name or address of one of them.
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes 2 --nproc-per-node 3 --max-restarts 1 \
--rdzv-backend c10d --rdzv-id ddpquiz --rdzv-endpoint "$HEAD:29400" {script} --text 'it'"'"'s $HOME' '$(id)'
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
    wanted = job(ranks=3, nodes=2, restarts=1, gpus=True)
    assert launch_files.KINDS[kind](wanted) == GOLDEN[kind].format(script=f"'{wanted.script}'")


def test_the_file_for_slurm_runs_where_its_commands_are(job, tmp_path):
    """A stage for it: one node, whose name is that of loopback, and an srun that starts the one task."""
    for name, does in {"scontrol": "echo 127.0.0.1", "srun": 'shift; exec "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    text = launch_files.slurm(job(ranks=2)).replace(":29400", f":{free_port()}")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    env = torchrun_at_hand()
    env |= {"PATH": f"{tmp_path}:{env['PATH']}", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash"], input=text, env=env, capture_output=True, text=True, timeout=100)
    assert ranks_said(done) == SAID, done.stderr


def test_the_manifest_for_kubernetes_is_a_pytorchjob_that_brings_its_script(job):
    import yaml

    wanted = job(ranks=3, nodes=2, restarts=1, gpus=True)
    files, manifest = yaml.safe_load_all(launch_files.kubernetes(wanted))
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
    files, manifest = yaml.safe_load_all(launch_files.kubernetes(JobFile(tmp_path / name)))
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", manifest["metadata"]["name"])  # that of a service, too
    (key,) = files["data"]
    assert re.fullmatch(r"[-._a-zA-Z0-9]+", key)


def test_a_script_in_another_encoding_comes_to_kubernetes_as_it_is(tmp_path):
    import yaml

    (tmp_path / "latin.py").write_bytes("# coding: latin-1\nprint('é')\n".encode("latin-1"))
    files, _ = yaml.safe_load_all(launch_files.kubernetes(JobFile(tmp_path / "latin.py")))
    assert base64.b64decode(files["binaryData"]["latin.py"]) == (tmp_path / "latin.py").read_bytes()


def test_a_module_is_run_as_one_and_brings_no_file():
    import yaml

    wanted = JobFile(Path("pkg/train.py"), (), module="pkg.train")
    assert launch_files.torchrun(wanted) == snapshot("torchrun --nproc-per-node 4 -m pkg.train\n")
    (manifest,) = yaml.safe_load_all(launch_files.kubernetes(wanted))
    (container,) = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["-m", "pkg.train"]


def test_a_recorded_job_runs_the_recorder_in_front_of_the_script(job):
    wanted = job(ranks=2, recorded=True)
    *comments, line = launch_files.torchrun(wanted).splitlines()
    assert "#   ddpquiz diagnose record-my-train" in comments
    assert line.startswith("torchrun --nproc-per-node 2 -m ddpquiz.record --to record-my-train '")
    module = JobFile(Path("pkg/train.py"), ("--lr", "1"), module="pkg.train", recorded=True)
    assert module.command().endswith("-m ddpquiz.record --to record-pkg-train -m pkg.train --lr 1")
    assert "      - ddpquiz.record\n" in launch_files.kubernetes(module)
    assert "-m ddpquiz.record --to record-my-train" in launch_files.slurm(wanted)


COMMANDS = {
    ("demo", "allreduce", "--emit", "torchrun", "--nproc", "2", "--", "--size", "4"): (
        0,
        "-m ddpquiz.record --to record-allreduce",
    ),
    ("demo", "allreduce", "--emit", "kubernetes"): (0, "kind: PyTorchJob"),
    ("run", "--emit", "slurm", "--nnodes", "3", "demos/ddp.py"): (0, "#SBATCH --nodes=3"),
    ("run", "--emit", "slurm", "missing.py"): (1, "There is no script"),
    ("run", "--emit", "slurm", "--nproc", "0", "demos/ddp.py"): (2, "0 is not a number of ranks"),
    ("run", "--timeout", "0", "demos/ddp.py"): (2, "0 is not a positive number of seconds."),
    ("demo", "ddp", "--emit", "slurm", "--device", "gpu"): (2, "'gpu' is not one of auto, cpu, cuda."),
    ("run", "--emit", "lsf", "demos/ddp.py"): (2, "'lsf' is not one of torchrun, slurm, kubernetes."),
    ("run", "--nnodes", "2", "demos/ddp.py"): (2, "ddpquiz starts ranks on this machine only."),
    ("run", "--max-restarts", "-1", "demos/ddp.py"): (2, "-1 is not a number of restarts."),
    ("run", "--emit", "torchrun", "--nnodes", "0", "demos/ddp.py"): (2, "0 is not a number of machines."),
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_command_line_prints_jobs_and_refuses_what_cannot_be_meant(words):
    status, text = COMMANDS[words]
    done = subprocess.run([sys.executable, "-m", "ddpquiz", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status
    assert text in (done.stderr if status else done.stdout)
