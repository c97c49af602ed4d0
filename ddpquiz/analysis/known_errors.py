"""What common exceptions of a distributed script mean, and what to do about them."""

import re

from ddpquiz.analysis.formatting import format_bytes

UNUSED = "Parameters without a gradient: "  # a rank adds this line to DDP's message, with their names
OUT_OF_MEMORY = "The {ranks} ranks share this machine's memory. Use a smaller model or batch, or fewer ranks (--nproc)."
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
    r".*you tried to allocate (?P<bytes>\d{1,30}) bytes": (
        "Rank {rank} ran out of memory at {where}: it asked for {size} at once.",
        OUT_OF_MEMORY,
    ),
    r".*CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)": (
        "Rank {rank} ran out of GPU memory at {where}: it asked for {size} more.",
        "Use a smaller model or batch, or shard the model (FSDP). `nvidia-smi` shows what else uses the GPU.",
    ),
    r"MemoryError": ("Rank {rank} ran out of memory at {where}.", OUT_OF_MEMORY),
    r".*(Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|_cuda_setDevice|"
    r"requires CUDA support|no CUDA-capable device|CUDA error: invalid device ordinal|"
    r"on a CUDA device but torch\.cuda\.is_available\(\) is False|Cannot access accelerator device)|"
    r"IndexError: list index out of range\n[^\n]*(device|cuda|gpu)": (  # an empty list of GPUs
        "Rank {rank} needs a GPU at {where}, but this run has none for it: {reason}.",
        'Choose the device: torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu").',
    ),
    r"ModuleNotFoundError: No module named '(?P<module>[^']+)'": (
        "Rank {rank} imports {module} at {where}, but no such module is installed.",
        "Install it in the environment of ddpquiz. Modules in the script's folder are found, as under torchrun.",
    ),
    r"torch\.multiprocessing\.spawn\.Process\w+Exception: .*?-- Process (?P<process>\d+) terminated": (
        "Process {process} of those that rank {rank} started at {where} failed; its traceback is above.",
        "Let `ddpquiz run` start the ranks instead of the script, so that each of them is watched.",
    ),
    r"EOFError: EOF when reading a line": (
        "Rank {rank} waits for keyboard input at {where}, but ranks have no keyboard.",
        "Pass the value to the script as an argument.",
    ),
    rf"RuntimeError: Expected to have finished reduction in the prior iteration.*{UNUSED}(?P<names>[^\n]+)": (
        "No gradient in the step before for {names}, so DDP raised at {where} on rank {rank}.",
        "Use all parameters in the loss, or pass find_unused_parameters=True.",
    ),
    r"RuntimeError: Expected to have finished reduction in the prior iteration.*did not receive grad for rank \d+: "
    r"(?P<indices>[\d ]+\d)": (
        "Parameters {indices} (by index) got no gradient in the step before, so DDP raised at {where} on rank {rank}.",
        "Use all parameters in the loss, or pass find_unused_parameters=True. TORCH_DISTRIBUTED_DEBUG=INFO names them.",
    ),
    r".*op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs\.? (?P<room>\d+)": (
        "Rank {rank} received {got} bytes in {op} at {where}, but its tensor has room for only {room}.",
        "Shapes, dtypes and split sizes must agree on all ranks. Print them before that line to see which differ.",
    ),
}


def explain(text: str, facts: dict[str, object]) -> tuple[str, str] | None:
    """Return what the text of an exception means and what to do, or None if it is not known.

    `facts` are rank, ranks, where, reason (why this run uses this device) and op (the rank's last operation).
    """
    for pattern, (why, mend) in _MEANINGS.items():
        if found := re.match(pattern, text, re.DOTALL):
            known = found.groupdict()
            size = {"size": format_bytes(int(known["bytes"]))} if "bytes" in known else {}
            named = facts | known | size
            return why.format(**named), mend.format(**named)
    return None
