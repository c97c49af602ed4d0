"""A run as torchrun or a scheduler starts it: a command line, an sbatch file for Slurm, a Kubeflow PyTorchJob."""

import base64
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_AGAIN = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # =1, or torchrun hangs when it starts ranks again (pytorch 135712)
_PORT = 29400  # torchrun's
_IMAGE = "pytorch/pytorch:latest"


@dataclass(frozen=True)
class JobFile:
    """A script, or the module that `python -m` would run, on `nodes` machines with `ranks` ranks each."""

    script: Path
    args: Sequence[str] = ()
    ranks: int = 4
    nodes: int = 1
    restarts: int = 0
    gpus: bool = False  # one for each rank
    module: str = ""
    recorded: bool = False  # with our recorder in front of the script

    @property
    def name(self) -> str:
        """A name for the job that every scheduler accepts."""
        letters = re.sub(r"[^a-z0-9]+", "-", (self.module or self.script.stem).lower()).strip("-")
        begun = letters if letters[:1].isalpha() else f"job-{letters}"  # a PyTorchJob's name begins with a letter
        return begun[:40].strip("-")

    @property
    def folder(self) -> str:
        """The folder of the record."""
        return f"record-{self.name}"

    def target(self, script: str) -> list[str]:
        """What torchrun runs, without the arguments of the script."""
        recorder = ["-m", "ddpquiz.record", "--to", self.folder] if self.recorded else []
        return [*recorder, *(["-m", self.module] if self.module else [script])]

    def command(self, endpoint: str = "", *, run_id: str = "ddpquiz", launcher: str = "torchrun") -> str:
        """Return torchrun's command line; `endpoint`, `run_id` and `launcher` are shell text, already quoted."""
        words = [launcher]
        if self.nodes > 1:
            words += ["--nnodes", str(self.nodes)]
        words += ["--nproc-per-node", str(self.ranks)]
        words += ["--max-restarts", str(self.restarts)] if self.restarts else []
        if endpoint:
            words += ["--rdzv-backend", "c10d", "--rdzv-id", run_id, "--rdzv-endpoint", endpoint]
        return " ".join([*words, *map(shlex.quote, [*self.target(str(self.script)), *self.args])])


def torchrun(job: JobFile) -> str:
    """The command line, which is the same on each machine."""
    if job.nodes == 1:
        return "\n".join([*_on_record(job), job.command()]) + "\n"
    lines = [f"# Run this on each of the {job.nodes} machines. HEAD is the name or address of one of them."]
    again = f"{_AGAIN}=1 " if job.restarts else ""
    return "\n".join([*lines, *_on_record(job), again + job.command(f'"$HEAD:{_PORT}"')]) + "\n"


def _on_record(job: JobFile) -> list[str]:
    """Return comments on what the recorder needs, and where its files lie."""
    if not job.recorded:
        return []
    return [
        f"# Each rank records its communication into a file in {job.folder}/. If the job hangs or fails, run:",
        f"#   ddpquiz diagnose {job.folder}",
        "# ddpquiz must be installed where the ranks run. To run without it, leave out `-m ddpquiz.record --to ...`.",
    ]


def slurm(job: JobFile) -> str:
    """A file for sbatch: one task a node, each of which is a torchrun."""
    gpus = [f"#SBATCH --gpus-per-node={job.ranks}"] if job.gpus else []
    again = [f"export {_AGAIN}=1"] if job.restarts else []
    command = job.command(f'"$head:{_PORT}"', run_id='"$SLURM_JOB_ID"')
    lines = [
        "#!/bin/bash",
        f"# sbatch {job.name}.sbatch; the environment of python must be the same on each node.",
        *_on_record(job),
        f"#SBATCH --job-name={job.name}",
        f"#SBATCH --nodes={job.nodes}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --cpus-per-task={job.ranks}",
        *gpus,
        "#SBATCH --time=00:10:00",
        "#SBATCH --output=%x-%j.out",
        "set -euo pipefail",
        "",
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        *again,
        f"srun --kill-on-bad-exit=1 {command}",
    ]
    return "\n".join(lines) + "\n"


def kubernetes(job: JobFile) -> str:
    """A PyTorchJob for Kubeflow's training operator, and the script as a ConfigMap beside it."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes text of several lines as a block."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    file = re.sub(r"[^-._a-zA-Z0-9]", "-", job.script.name)  # what a ConfigMap accepts as a key
    documents = [] if job.module else [_typed("v1", "ConfigMap", job.name) | _data(file, job.script)]
    policy = {
        "rdzvBackend": "c10d", "minReplicas": job.nodes, "maxReplicas": job.nodes, "maxRestarts": job.restarts,
    }  # fmt: skip
    worker = {"replicas": job.nodes, "restartPolicy": "Never", "template": {"spec": _pod(job, file)}}
    spec = {
        "nprocPerNode": str(job.ranks),
        "elasticPolicy": policy,
        "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 0},
        "pytorchReplicaSpecs": {"Worker": worker},
    }
    documents.append(_typed("kubeflow.org/v1", "PyTorchJob", job.name) | {"spec": spec})
    needs = f"the module {job.module}" if job.module else "what the script imports"
    head = [f"# kubectl create -f FILE; needs Kubeflow's training operator, and an image with torch and {needs}."]
    body = yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return "\n".join([*head, *_on_record(job), body])


def _pod(job: JobFile, file: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "pytorch", "image": _IMAGE, "command": _words(job, f"/ddpquiz/{file}")}
    pod: dict[str, Any] = {"containers": [container]}
    if job.restarts:
        container["env"] = [{"name": _AGAIN, "value": "1"}]
    if job.gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": job.ranks}}
    if not job.module:
        container["volumeMounts"] = [{"name": "script", "mountPath": "/ddpquiz"}]
        pod["volumes"] = [{"name": "script", "configMap": {"name": job.name}}]
    return pod


def _data(file: str, script: Path) -> dict[str, Any]:
    """What a ConfigMap holds: the script as text, or its bytes where its first line names another encoding."""
    try:
        return {"data": {file: script.read_text(encoding="utf-8")}}
    except UnicodeDecodeError:
        return {"binaryData": {file: base64.b64encode(script.read_bytes()).decode()}}


def _words(job: JobFile, path: str) -> list[str]:
    """Return torchrun's words; the operator sets the number of nodes and the endpoint as environment variables."""
    restarts = ["--max-restarts", str(job.restarts)]
    return ["torchrun", "--nproc-per-node", str(job.ranks), *restarts, *job.target(path), *map(_literal, job.args)]


def _literal(word: str) -> str:
    return word.replace("$(", "$$(")  # Kubernetes would put a variable there


def _typed(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


KINDS: dict[str, Callable[[JobFile], str]] = {"torchrun": torchrun, "slurm": slurm, "kubernetes": kubernetes}
