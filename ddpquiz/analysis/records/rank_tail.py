"""The tail of a rank's file: the lines that a process had not written to its file when it ended, in a mapped file.

`rank-N.tail` has two halves of `HALF` bytes, which are used in turn. Each begins with `HEADER`, a serial number and the
length of the lines that follow; a length of 0 means that they are in `rank-N.jsonl` by now.
"""

import struct
from pathlib import Path

HALF = 1 << 17  # bytes
HEADER = struct.Struct("<QQ")


def read_tail(path: Path) -> list[bytes]:
    """Return the complete lines of a tail, without newlines; nothing if there is no such file or it is not a tail.

    Lines may be in the rank's file as well: its process may have ended between writing them there and clearing them.
    """
    try:
        with path.open("rb") as file:
            data = file.read(2 * HALF + 1)
    except OSError:
        return []
    if len(data) != 2 * HALF:
        return []
    halves = [(*HEADER.unpack_from(data, begin), begin + HEADER.size) for begin in (0, HALF)]
    text = b"".join(data[begin : begin + length] for _, length, begin in sorted(halves) if length <= HALF - HEADER.size)
    return [line for line in text.split(b"\n")[:-1] if line]
