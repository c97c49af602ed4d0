"""Known errors: what common exceptions of a distributed script mean, and what to do about them.

A new one is an entry of `_MEANINGS`.
"""

import re
from collections import defaultdict

from ddpquiz.diagnosis.diagnosis import ADVICE, SMALLER, Diagnosis
from ddpquiz.events.event import UNUSED
from ddpquiz.events.formatting import format_bytes, format_ranks
from ddpquiz.events.run_state import RunState
from ddpquiz.plural import plural

DIFFERENT_MODELS = re.compile(
    r"DDP expects same model across all ranks, but Rank (\d{1,6}) has (\d{1,12}) params, "
    r"while rank (\d{1,6}) has inconsistent (\d{1,12}) params"
)


def explain_different_models(state: RunState, where: str) -> Diagnosis:
    """Which ranks have models of other sizes, by the messages of all ranks: each names the sizes of two of them."""
    counts: dict[int, int] = {}
    for _, raised in sorted(state.raised.items()):
        for rank, size, other, other_size in DIFFERENT_MODELS.findall(raised.message):
            counts.update({int(rank): int(size), int(other): int(other_size)})
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for rank in sorted(counts):
        groups[counts[rank]].append(rank)
    usual = max(groups, key=lambda count: len(groups[count]))
    odd = [rank for rank, count in counts.items() if count != usual]
    parts = [
        f"{format_ranks(members)} {'has' if len(members) == 1 else 'have'} {plural(count, 'parameter')}"
        for count, members in sorted(groups.items(), key=lambda group: len(group[1]))
    ]
    if len(counts) == state.ranks and len(parts) == 2 and len(groups[usual]) > len(odd):
        parts[-1] = f"the {'others' if len(groups[usual]) > 1 else 'other'} {usual:,}"
    culprits = odd if len(groups[usual]) > 1 else counts
    return Diagnosis(
        "signature", tuple(sorted(culprits)), f"The models differ at {where}: {', '.join(parts)}.",
        advice="DDP needs the same model on every rank. Find out what makes it depend on the rank there.",
    )  # fmt: skip


OUT_OF_MEMORY = "The {ranks} ranks share this machine's memory. " + SMALLER + ", or fewer ranks (--nproc)."
# How an exception begins (its type, its message, then the line of code that raised it): what it means, and what to do.
# {rank} raised it at {where}.
_MEANINGS = {
    r"ValueError: Default process group has not been initialized": (
        "Rank {rank} uses torch.distributed at {where}, but no process group exists there.",
        "Call dist.init_process_group() before that line, and dist.destroy_process_group() only at the end.",
    ),
    r"ValueError: trying to initialize the default process group twice": (
        "Rank {rank} calls init_process_group at {where}, but a process group exists already.",
        "Call it once, or call dist.destroy_process_group() in between.",
    ),
    r".*\bport: (?P<port>\d{1,5})\b.*\bEADDRINUSE\b": (
        "Rank {rank} cannot listen at port {port} for the other ranks at {where}: another process listens there.",
        "`ss -ltnp` shows which one. End it, or use a port that is free; torchrun --standalone finds one itself.",
    ),
    r".*you tried to allocate (?P<bytes>\d{1,30}) bytes": (
        "Rank {rank} ran out of memory at {where}: it asked for {size} at once.",
        OUT_OF_MEMORY,
    ),
    r".*CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)": (
        "Rank {rank} ran out of GPU memory at {where}: it asked for {size} more.",
        f"{SMALLER}, or shard the model (FSDP). `nvidia-smi` shows what else uses the GPU.",
    ),
    r"MemoryError": ("Rank {rank} ran out of memory at {where}.", OUT_OF_MEMORY),
    r".*CUDA error: device-side assert triggered": (
        "A kernel of rank {rank} failed an assertion on the GPU; it was noticed at {where}.",
        "Look at the line with `Assertion ... failed`: often an index is out of range, or a label is invalid.",
    ),
    r".*CUDA error: invalid device ordinal": (
        "Rank {rank} asks at {where} for a GPU with a number that this machine does not have.",
        "Number GPUs by LOCAL_RANK, from 0 on each machine; ranks that share: LOCAL_RANK % torch.cuda.device_count().",
    ),
    r".*Duplicate GPU detected": (
        "Rank {rank} uses the same GPU as another rank at {where}, which NCCL refuses.",
        'Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the first collective.',
    ),
    r".*NCCL error in: .*?Last error:\n(?P<last>[^\n]+)": (
        "NCCL failed on rank {rank} at {where}: {last}.",
        "NCCL_DEBUG=WARN makes NCCL write more; NCCL_DEBUG=INFO also shows which network and GPUs it uses.",
    ),
    r".*(Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|_cuda_setDevice|"
    r"requires CUDA support|no CUDA-capable device|"
    r"on a CUDA device but torch\.cuda\.is_available\(\) is False|Cannot access accelerator device)|"
    r"IndexError: list index out of range\n[^\n]*(device|cuda|gpu)": (  # an empty list of GPUs
        "Rank {rank} needs a GPU at {where}, but this run has none for it: {reason}.",
        'Choose the device: torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu").',
    ),
    r"ValueError: Global rank (?P<root>\d+) is not part of group": (
        "Rank {rank} names rank {root} as the root at {where}, but that rank is not a member of the group.",
        "src and dst are ranks of the whole job, also in a group: use dist.get_global_rank(group, 0), or group_src=0.",
    ),
    r"ModuleNotFoundError: No module named '(?P<module>[^']+)'": (
        "Rank {rank} imports {module} at {where}, but no such module is installed.",
        "Install it where the script runs. Modules in the script's folder are found, as under torchrun.",
    ),
    r"torch\.multiprocessing\.spawn\.Process\w+Exception: .*?-- Process (?P<process>\d+) terminated": (
        "Process {process} of those that rank {rank} started at {where} failed; its traceback is above.",
        "To see what each did, put the body of their function inside `with ddpquiz.record.start(FOLDER):`.",
    ),
    r"RuntimeError: DataLoader worker \(pid[^)]*\) is killed by signal: Killed": (
        "A DataLoader worker of rank {rank} was killed by SIGKILL, which the rank noticed at {where}.",
        "That is often the kernel, when memory has run out: look in `dmesg`. Use fewer workers, or load less in each.",
    ),
    r"RuntimeError: DataLoader worker \(pid[^)]*\) is killed by signal: Bus error": (
        "A DataLoader worker of rank {rank} was killed by SIGBUS, which the rank noticed at {where}.",
        "Mostly /dev/shm is full: make it larger (docker: --shm-size or --ipc=host), or use fewer workers.",
    ),
    r"RuntimeError: DataLoader worker \(pid[^)]*\) is killed by signal: (?!Terminated)(?P<signal>[^.\n]+)": (
        "A DataLoader worker of rank {rank} was killed by a signal ({signal}), which the rank noticed at {where}.",
        "Native code that loads data may have crashed. With num_workers=0 it runs in the rank, where its line is seen.",
    ),
    r"RuntimeError: DataLoader worker \(pid(\(s\))? [\d, ]+\) exited unexpectedly(?! with exit code)": (
        "A DataLoader worker of rank {rank} ended, which the rank noticed at {where}. How it ended is not known.",
        "Look for out-of-memory kills in the kernel's log (`dmesg`). With num_workers=0 the rank loads the data.",
    ),
    r"RuntimeError: DataLoader worker \(pid(\(s\))? [\d, ]+\) exited unexpectedly with exit code": (
        "A DataLoader worker of rank {rank} ended by itself, which the rank noticed at {where}.",
        "Look for os._exit() or sys.exit() in what loads the data. With num_workers=0 it runs in the rank itself.",
    ),
    r"EOFError: EOF when reading a line": (
        "Rank {rank} waits for keyboard input at {where}, but ranks have no keyboard.",
        "Pass the value to the script as an argument.",
    ),
    rf"RuntimeError: Expected to have finished reduction in the prior iteration.*{UNUSED}(?P<names>[^\n]+)": (
        "No gradient in the step before for {names}, so DDP raised at {where} on rank {rank}.",
        "Use all parameters in the loss, or pass find_unused_parameters=True. Freeze parameters before DDP() only.",
    ),
    r"RuntimeError: Expected to have finished reduction in the prior iteration.*did not receive grad for rank \d+: "
    r"(?P<indices>\d(?:[\d ]*\d)?)": (
        "Parameters {indices} (by index) got no gradient in the step before, so DDP raised at {where} on rank {rank}.",
        "Use all parameters in the loss, or pass find_unused_parameters=True. TORCH_DISTRIBUTED_DEBUG=INFO names them.",
    ),
    r"RuntimeError: Expected to mark a variable ready only once.*?(?:with name (?P<names>\S+) has been|$)": (
        "DDP got the gradient of a parameter twice in one backward pass{of}, and raised at {where} on rank {rank}.",
        "Pass use_reentrant=False to checkpoint(), if it checkpoints a module twice. Else static_graph=True may help.",
    ),
    r".*op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs\.? (?P<room>\d+)": (
        "Rank {rank} received {got} bytes in {op} at {where}, but its tensor has room for only {room}.",
        "Shapes, dtypes and split sizes must agree on all ranks. Print them before that line to see which differ.",
    ),
}

_NO_FILE = re.compile(
    r"FileNotFoundError\b|\w+Error: .*\[Errno 2\]|RuntimeError: Parent directory .* does not exist|NotADirectoryError\b"
)

_BROKEN_FILE = re.compile(
    r"(_?pickle\.)?UnpicklingError\b|EOFError: Ran out of input|(zipfile\.)?BadZipFile\b|"
    r"RuntimeError: PytorchStreamReader failed|[\w.]*JSONDecodeError\b|\w*Error: .*unexpected (EOF|end of file)",
    re.IGNORECASE,
)


def advise_raised(text: str) -> str:
    """What to do about an exception that says nothing of distributed training; `text` is its type and message."""
    if _NO_FILE.match(text):
        return (
            "That path must exist where this rank runs. If another rank makes it, a barrier must come in between; a "
            "relative path begins in the folder in which the job was started."
        )
    if _BROKEN_FILE.match(text):
        return (
            "That file is not whole, or has another format. If another rank writes it, a barrier must come between "
            "the save and the load; a file that is written under another name and then renamed is never seen in part."
        )
    return ADVICE["raised"]


def explain_text(text: str, rank: int | None, where: str, state: RunState) -> tuple[str, str] | None:
    """What the text of an exception means and what to do, or None if it is not known; `rank` is None if that is not."""
    last = None if rank is None else state.last_call.get(rank)
    facts: dict[str, object] = {
        "rank": rank, "ranks": state.ranks, "where": where, "op": last.operation.op if last else "a communication",
        "reason": state.began.reason.rpartition("· ")[2] if state.began else "",  # why this run uses this device
    }  # fmt: skip
    for pattern, (sentence, advice) in _MEANINGS.items():
        if match := re.match(pattern, text, re.DOTALL):
            named = match.groupdict()
            size = {"size": format_bytes(int(named["bytes"]))} if "bytes" in named else {}
            facts |= named | size | {"of": f" ({named['names']})" if named.get("names") else ""}
            template = sentence
            if rank is None:
                template = sentence.replace("Rank {rank}", "A rank").replace("rank {rank}", "a rank")
            return template.format(**facts), advice.format(**facts)
    return None
