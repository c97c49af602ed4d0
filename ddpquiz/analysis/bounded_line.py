"""A line of output as it is stored: the start of a very long one."""

from dataclasses import replace

from ddpquiz.analysis.events import Output

LONGEST = 4000  # characters of a line that are stored; a screen shows no more of it


def bounded(line: Output) -> Output:
    """Return a line as it is stored: of a very long one its start, and how much was left out."""
    more = len(line.text) - LONGEST
    if more <= 0:
        return line
    end = f" ... and {more:,} more characters"
    value = line.value if line.value is None else line.value[: LONGEST - len(line.label or "")] + end
    return replace(line, text=line.text[:LONGEST] + end, value=value)
