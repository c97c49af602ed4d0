"""What Flight Recorder dumps do not say, in sentences."""

from collections.abc import Collection, Mapping

from ddpquiz.analysis.formatting import format_ranks, plural
from ddpquiz.analysis.records.dump_alignment import DumpedGroup
from ddpquiz.analysis.records.dump_entry import Dump


def notes_on(dumps: Mapping[int, Dump], groups: Collection[DumpedGroup], left_out: int) -> tuple[str, ...]:
    """Return what is not known of a job; `left_out` counts the entries that could not be aligned."""
    entries = [entry for dump in dumps.values() for entry in dump.entries]
    if not entries:
        return ("The dumps hold no operations. Set TORCH_FR_BUFFER_SIZE=2000 in the environment of the job.",)
    notes = ["Flight Recorder does not record roots or reduce operators, so they are not compared."]
    if not any(entry.call.line for entry in entries):
        notes.append("The dumps hold no stack traces, so the lines that issued the operations are not known.")
    if len(dumps) > 1:
        notes.append("Each rank's times come from the clock of its own machine, and the clocks may differ.")
    if dropped := [rank for rank, dump in dumps.items() if not dump.is_whole]:
        lost = f"The dumps of {format_ranks(dropped)} do not hold all operations"
        if left_out:
            lost += f"; {plural(left_out, 'entry', 'entries')} without a counterpart on another rank were left out"
        notes.append(f"{lost}.")
        if any(entry.point_to_point for entry in entries):
            notes.append("Sends and receives are therefore matched from the last one that ended on both ranks.")
    if any(entry.call.backend == "gloo" for entry in entries):
        notes += _gloo_notes(dumps, groups)
    return tuple(notes)


def _gloo_notes(dumps: Mapping[int, Dump], groups: Collection[DumpedGroup]) -> list[str]:
    notes = ["Gloo does not record when operations end: each is shown to end when the last rank has issued it."]
    if any(group.is_inferred for group in groups):
        notes.append("Gloo does not record who is in a group: a group is taken to be the ranks that used it.")
    unrecorded = {
        rank
        for rank, dump in dumps.items()
        if any(entry.call.backend == "gloo" and entry.logical > entry.sequence for entry in dump.entries)
    }
    called = f"; {format_ranks(unrecorded)} called some" if unrecorded else ""
    notes.append(f"Gloo does not record sends or receives{called}. A rank that seems late may wait in one.")
    return notes
