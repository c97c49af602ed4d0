"""Flight Recorder dumps that somebody may send: no code runs, and whatever is wrong is said in a sentence."""

import contextlib
import json
import pickle
import random
import shutil
import time
import tracemalloc
from copy import deepcopy

import passed
import pytest
from flight_dumps import recorded
from mutated_runs import VALUES
from nccl_dumps import FRAMES, MILLISECOND, WORLD, dump, entry, read, reduced, timeline, write

from ddpquiz.errors import UserError
from ddpquiz.events.event import Issued
from ddpquiz.jobs.dump_file import load
from ddpquiz.jobs.dumped_job import read_dumps
from ddpquiz.jobs.job_reader import read_job

pytestmark = passed.COMMANDS


class Code:
    """A pickle of it would run code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def shared_lists(depth):
    """Return a pickle of a list that needs 2**depth steps to be walked through."""
    return b"\x80\x02]q\0" + b"".join(b"](h%ch%ceq%c" % (at, at, at + 1) for at in range(depth)) + b"."


def shared_tuples(depth):
    """Return a pickle of a key whose hash needs 2**depth steps."""
    return b"\x80\x02}(" + b"".join(b"\x86q%ch%ch%c" % ((at,) * 3) for at in range(depth)) + b"\x86K\x01u."


HOSTILE = {
    "nothing": (b"", "is empty: the rank ended before its dump was written. Leave the file out."),
    "text": (b"hello", "it is neither a pickle nor valid JSON (line 1, column 1)"),
    "list": (b"[]", "is not a Flight Recorder dump."),
    "deep JSON": (b"[" * 100_000, "it is neither a pickle nor valid JSON"),
    "deep dictionary": (b'{"version": "2.10", "pg_config": ' + b"[" * 100_000, "it is neither a pickle nor valid JSON"),
    "number of many digits": (b'{"version": ' + b"9" * 10_000 + b"}", "it is neither a pickle nor valid JSON"),
    "many JSON values": (b"[" + b"0," * 8_000_001, "it holds more than 8,000,000 values"),
    "truncated": (pickle.dumps(dump(reduced([1])), protocol=2)[:-40], "it is an incomplete or damaged pickle"),
    "many values": (b"\x80\x02" + b"N" * 8_000_000 + b".", "it holds more than 8,000,000 values"),
    "huge memo": (b"\x80\x02Nr\xff\xff\xff\xff.", "it is an incomplete or damaged pickle"),
    "huge text": (b"\x80\x02X\xff\xff\xff\xffabc.", "it is an incomplete or damaged pickle"),
    "huge frame": (b"\x80\x04\x95" + b"\xff" * 8 + b"N.", "it is an incomplete or damaged pickle"),
    "large frame": (b"\x80\x04\x95\0\0\0\0\x01\0\0\0N.", "it is an incomplete or damaged pickle"),
    "key that is a number": (b"\x80\x02}(K\x02K\x01u.", "it holds a key that is not a text"),
    "key that is a pair": (b"\x80\x02}(X\x01\0\0\0aq\0h\0\x86K\x01u.", "it holds a key that is not a text"),
    "pair of pairs": (b"\x80\x02X\x01\0\0\0aq\0h\0\x86q\1h\1\x86.", "it holds a tuple that is not a pair of texts"),
    "pair of lists": (b"\x80\x02]]\x86.", "it holds a tuple that is not a pair of texts"),
    "shared tuples": (shared_tuples(60), "it holds a tuple that is not a pair of texts"),
    "deep tuples": (b"\x80\x02}()" + b"\x85" * 1_000_000, "its byte 4 asks for an object that is not a plain value"),
    "deep lists": (b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b".", "its lists are nested more than 100 deep"),
    "shared lists": (shared_lists(60), "it holds the same values again and again"),
    "list in itself": (b"\x80\x02]q\0h\0a.", "it holds a list that contains itself"),
    "deep marks": (b"\x80\x02" + b"(" * 1_000_000 + b".", "it is an incomplete or damaged pickle"),
    "persistent id": (b"\x80\x02K\x01Q.", "its byte 4 asks for an object that is not a plain value"),
    "class": (b"\x80\x02cos\nsystem\n(X\x02\0\0\0ls\x85R.", "its byte 2 asks for an object that is not a plain value"),
    "old class": (b"\x80\x02(ios\nsystem\n.", "its byte 3 asks for an object that is not a plain value"),
    "extension": (b"\x80\x02\x82\x01.", "its byte 2 asks for an object that is not a plain value"),
    "dictionary of a list": (b"\x80\x02](X\x01\0\0\0aK\x01u.", "it is an incomplete or damaged pickle"),
    "odd number of items": (b"\x80\x02}(X\x01\0\0\0au.", "it is an incomplete or damaged pickle"),
    "not text": (b"\x80\x02X\x01\0\0\0\xff.", "it is an incomplete or damaged pickle"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_not_a_dump_is_refused_in_a_sentence(tmp_path, name):
    data, text = HOSTILE[name]
    path = tmp_path / "trace_0"
    path.write_bytes(data)
    with pytest.raises(UserError, match="trace_0") as refused:
        read_dumps([path])
    assert text in str(refused.value)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("protocol", range(6))
def test_no_code_in_a_dump_runs(tmp_path, protocol):
    path, proof = tmp_path / "trace_0", tmp_path / "proof"
    path.write_bytes(pickle.dumps(Code(str(proof)), protocol=protocol))
    with pytest.raises(UserError):
        read_dumps([path])
    assert not proof.exists()
    pickle.loads(path.read_bytes())
    assert proof.exists()  # it does run where it is trusted


def test_a_file_of_more_than_256_mb_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "trace_0"
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(UserError, match=r"is larger than 256 MB\. Record fewer operations with TORCH_FR_BUFFER_SIZE"):
        read_dumps([path])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trace_1024", "is named after rank 1,024; ddpquiz reads jobs of up to 1,024 ranks."),
        ("trace_1", "There is no dump"),
        ("trace", "There is no dump"),
        ("a\0_1", "cannot be read (embedded null byte)."),
    ],
)
def test_a_file_that_does_not_belong_to_a_rank_or_does_not_exist_is_refused(tmp_path, name, text):
    with pytest.raises(UserError) as refused:
        read_dumps([tmp_path / name])
    assert text in str(refused.value)


def test_a_dump_that_does_not_show_its_rank_is_refused(tmp_path):
    path = tmp_path / "trace"
    path.write_text(json.dumps(dump([]) | {"nccl_comm_state": {}}))
    with pytest.raises(
        UserError, match=r"has no rank at the end of its name\. Name each dump after its rank: `trace_0`"
    ):
        read_dumps([path])


NAMED = {  # what shows the rank of a dump whose name does not end in one
    "in the name": ("rank1-dump.json", dump([]) | {"nccl_comm_state": {}}),
    "in NCCL's largest group": ("trace.bin", dump([]) | {"nccl_comm_state": {"0x1": {"rank": "1", "nranks": "2"}}}),
    "in a receive": ("trace.txt", dump([entry("recv 1<-0", 1, record=0, at=0)]) | {"nccl_comm_state": {}}),
}


@pytest.mark.parametrize("where", NAMED)
def test_the_rank_of_a_dump_may_be_elsewhere_than_at_the_end_of_its_name(tmp_path, where):
    name, values = NAMED[where]
    (tmp_path / name).write_text(json.dumps(values))
    assert read_job(tmp_path).present == (1,)


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "trace_0").mkdir()
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\)."):
        read_dumps([tmp_path / "trace_0"])


def test_no_files_are_refused():
    with pytest.raises(UserError, match="There are no Flight Recorder dumps to read"):
        read_dumps([])


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("record_id", -1, "`record_id` must be a whole number from 0 to 2**63 - 1"),
        ("record_id", 1.5, "`record_id` must be a whole number from 0 to 2**63 - 1"),
        ("collective_seq_id", None, "`collective_seq_id` must be a whole number from 0 to 2**63 - 1"),
        ("process_group", "0", "`process_group` must be a name and a description"),
        ("process_group", ("a\nb", "c"), "`group` holds a control character"),
        ("process_group", ("a" * 201, "c"), "`group` must be a text of at most 200 characters"),
        ("time_created_ns", 2**63, "`time_created_ns` must be a whole number from 0 to 2**63 - 1"),
        ("retired", 1, "`retired` must be true or false"),
        ("profiling_name", "all_reduce", "a `profiling_name` is not like `nccl:all_reduce`"),
        ("profiling_name", "nccl:all_reduce\x1b[2J", "a `profiling_name` is not like `nccl:all_reduce`"),
        ("input_sizes", [[-1]], "`input_sizes` must have lengths from 0 to 2**63 - 1"),
        ("input_sizes", [[2**200]], "`input_sizes` must have lengths from 0 to 2**63 - 1"),
        ("input_sizes", [[1] * 65], "`input_sizes` must be a list of lists of whole numbers"),
        ("input_sizes", [[True]], "`input_sizes` must be a list of lists of whole numbers"),
        ("input_sizes", [[2**53] * 3], "`bytes` must be a whole number from 0 to 9,007,199,254,740,992"),
        ("input_dtypes", [["Float"]], "`input_dtypes` must be a list of texts of at most 200 characters"),
        ("input_dtypes", ["\u202e"], "`dtype` holds a control character"),
        ("input_dtypes", ["\ud800"], "a text holds half of a character"),
        ("frames", [{"filename": "a"}], "a frame of `frames` must have a `filename` and a `line`"),
        ("frames", [{"filename": "/a\0", "line": 1}], "`file` must be the path of a file"),
        ("frames", [{"filename": "/a", "line": 10**9}], "a frame of `frames` must have a `filename` and a `line`"),
    ],
)
def test_a_field_with_a_wrong_value_is_named(tmp_path, field, value, text):
    with pytest.raises(UserError) as refused:
        read(tmp_path, {0: dump([entry("all_reduce", 1, record=0, at=0) | {field: value}], {"0": (0,)})})
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": "1.0"}, "its format has version '1.0', but ddpquiz reads version 2"),
        ({"version": None}, "`version` must be a text"),
        ({"entries": {}}, "`entries` must be a list"),
        ({"entries": [1]}, "an entry must be a dictionary"),
        ({"entries": reduced([1]) * 2}, "two of its entries have the same `record_id`"),
        ({"pg_config": []}, "`pg_config` must be a dictionary"),
        ({"pg_config": {"0": 1}}, "each value of `pg_config` must be a dictionary"),
        ({"pg_config": {"0": {"ranks": "__import__('os')"}}}, "the `ranks` of a group are not a list of ranks"),
        ({"pg_config": {"0": {"ranks": "[0, 1024]"}}}, "a group names a rank twice, or a job of more than 1,024 ranks"),
        ({"pg_config": {"0": {"ranks": "[0, 0]"}}}, "a group names a rank twice, or a job of more than 1,024 ranks"),
        ({"pg_status": {"0": {"last_completed_collective": []}}}, "`last_completed_collective` must be a whole number"),
    ],
)
def test_a_dump_with_a_wrong_part_is_refused(tmp_path, change, text):
    with pytest.raises(UserError) as refused:
        read(tmp_path, {0: dump(reduced([1]), WORLD) | change})
    assert text in str(refused.value)


def test_entries_that_share_a_long_list_are_refused_before_it_is_read_for_each_of_them(tmp_path):
    stack, shapes = [{"filename": "/opt/x.cpp", "line": 1}] * 50_000, [[1] * 64 for _ in range(2000)]
    for shared in ({"frames": stack}, {"input_sizes": shapes}):
        entries = [entry("all_reduce", at, record=at, at=at) | shared for at in range(1000)]
        with pytest.raises(UserError, match="it holds the same values again and again"):
            read(tmp_path, {0: dump(entries, WORLD)})


def test_entries_that_share_a_stack_of_a_hundred_frames_are_read(tmp_path):
    entries = [entry("all_reduce", at, record=at, at=at, frames=FRAMES[:3] * 33 + FRAMES) for at in range(1, 1001)]
    for frames in (entries[0]["frames"], None):  # one list for all entries, as Python pickles it, or one for each
        shown = [each | {"frames": frames or [*each["frames"]]} for each in entries]
        job = read(tmp_path, {0: dump(shown, WORLD)})
        assert {event.operation.line for event in job.events if isinstance(event, Issued)} == {40}


CONFIG = {"ranks": str(list(range(1024)))}
LARGE = {
    "members of groups": {"pg_config": dict.fromkeys(map(str, range(20_000)), CONFIG)},
    "name of a type": {"entries": reduced(range(2000), input_dtypes=["x" * 100_000])},
    "groups of all ranks": {
        "pg_config": {"w": {"ranks": "[0, 1023]"}},
        "entries": [entry("all_reduce", 1, record=at, at=at, group=f"group {at}") for at in range(2000)],
    },
}


@pytest.mark.parametrize("part", LARGE)
def test_what_a_small_dump_names_again_and_again_is_in_memory_once(tmp_path, part):
    paths = write(tmp_path, {0: dump(reduced([1]), WORLD) | LARGE[part]})
    assert paths[0].stat().st_size < 1 << 20
    tracemalloc.start()
    with contextlib.suppress(UserError):
        read_dumps(paths)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_too_many_backends_are_refused(tmp_path):
    entries = [entry("all_reduce", at + 1, record=at, at=at, profiling_name=f"{'b' * 36}{at:03}:x") for at in range(9)]
    with pytest.raises(UserError, match="`backend` must be a text of at most 200 characters"):
        read(tmp_path, {0: dump(entries, WORLD)})


def test_dumps_of_different_years_are_refused(tmp_path):
    late = reduced([1])
    late[0]["time_created_ns"] += 10**8 * 1000 * MILLISECOND
    late[0]["time_discovered_completed_ns"] = None
    with pytest.raises(UserError, match="more than three years apart"):
        read(tmp_path, {0: dump(reduced([1]), WORLD), 1: dump(late, WORLD)})


def mutated(values, dice):
    """Return the contents of a dump in which some values, at any depth, are others."""
    values = json.loads(json.dumps(values))
    for _ in range(dice.choice((1, 1, 2, 5))):
        where, name = values, dice.choice([*values])
        while isinstance(where[name], dict | list) and where[name] and dice.random() < 0.9:
            where = where[name]
            name = dice.choice([*where]) if isinstance(where, dict) else dice.randrange(len(where))
        match dice.randrange(6):
            case 0:
                del where[name]
            case 1:
                where[name] = deepcopy(dice.choice(VALUES))
            case 2 if isinstance(where[name], int):
                where[name] += dice.choice((-1, 1, 2, 1000, -(10**15), 10**15))
            case 3 if isinstance(where, list):
                where.insert(dice.randrange(len(where)), where[name])
            case _:
                alike = [value for value in VALUES if type(value) is type(where[name])]
                where[name] = deepcopy(dice.choice(alike or VALUES))
        if not values:
            break
    return values


def attack(folder, seeds):
    """Read mutated dumps; return how often none was left out, and the longest time."""
    groups = {"0": (0, 1, 2), "1": (1, 2)}
    batch = [entry("send 1->2", 1, record=7, at=7), entry("coalesced", 1, record=8, at=7, p2p=True)]
    originals = {rank: load(path) for rank, path in enumerate(recorded("missing"))}
    sources = [originals, {rank: dump([*reduced([1, 2, 3, 4]), *batch], groups) for rank in range(3)}]
    accepted, slowest = 0, 0.0
    for seed in seeds:
        dice = random.Random(seed)
        dumps = dict(dice.choice(sources))
        rank = dice.randrange(3)
        dumps[rank] = mutated(dumps[rank], dice)
        paths = write(folder, dumps, "pickle" if seed % 2 else "json")
        if dice.random() < 0.2:
            data = bytearray(paths[rank].read_bytes())
            for _ in range(dice.randrange(1, 4)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            paths[rank].write_bytes(data[: dice.randrange(len(data)) if dice.random() < 0.3 else None])
        began = time.process_time()
        try:
            job = read_dumps(paths)
            timeline(job)
            accepted += not job.unread
            assert all(note.isprintable() for note in job.notes)
        except UserError as refused:
            assert str(refused).isprintable()  # noqa: PT017
        slowest = max(slowest, time.process_time() - began)
    return accepted, slowest


def test_mutated_dumps_are_read_or_refused_in_a_sentence(tmp_path):
    accepted, slowest = attack(tmp_path, range(500))
    assert 100 < accepted < 450
    assert slowest < 2


def test_a_thousand_dumps_are_read_in_little_time_and_memory(tmp_path):
    paths = []
    for rank in range(1024):
        paths.append(tmp_path / f"trace_{rank}")
        shutil.copyfile(recorded("missing")[2 * (rank % 2)], paths[-1])
    began = time.process_time()
    job = read_dumps(paths)
    assert time.process_time() - began < 10
    assert len(job.present) == 1024
    assert len({id(event.operation) for event in job.events if isinstance(event, Issued)}) == 4
