"""Two dumps of one rank as one, such as JSON from the time when it hung and a pickle with stacks from its time-out.

An operation that the rank still waited for in the earlier dump, and after which it has issued nothing in the later one,
has not succeeded, although Gloo calls it retired once it has given it up.
"""

from ddpquiz.analysis.records.dump_entry import Dump, DumpEntry

Key = tuple[str, int, bool, int, int]


def merge(first: Dump, second: Dump) -> Dump:
    """Return what two dumps of a rank hold together; only the later one if they have no operation in common."""
    earlier, later = sorted((first, second), key=_progress)
    known = {_key(entry): entry for entry in earlier.entries}
    common = [entry for entry in later.entries if _key(entry) in known]
    if not common:
        return later
    for entry in common:
        if not entry.call.line:
            entry.call = known[_key(entry)].call
    last, was = later.entries[-1], earlier.entries[-1]
    if _key(last) == _key(was) and last.completed is None and not was.has_ended:
        last.given_up = last.has_ended
    held = {_key(entry) for entry in later.entries}
    older = [entry for entry in earlier.entries if _key(entry) not in held and entry.created < later.entries[0].created]
    later.entries[:0] = older
    later.is_whole = later.is_whole or (earlier.is_whole and _key(earlier.entries[-1]) in held)
    later.groups = earlier.groups | later.groups
    later.script, later.ranks = later.script or earlier.script, max(earlier.ranks, later.ranks)
    return later


def _progress(dump: Dump) -> tuple[int, int, int]:
    """Return what grows from one dump of a rank to the next."""
    ended = sum(entry.has_ended for entry in dump.entries)
    return dump.entries[-1].created if dump.entries else 0, ended, sum(entry.call.line > 0 for entry in dump.entries)


def _key(entry: DumpEntry) -> Key:
    return entry.group, entry.sequence, entry.point_to_point, entry.logical, entry.created
