"""How ranks join each other in init_process_group, and leave."""

import passed
from inline_snapshot import snapshot
from real_run import HEAD, KEEPS_GROUPS, end, of, run

from ddpquiz.events.event import Hung, Joining, Note, Output
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.request import Request

pytestmark = passed.ENGINE

SLOW_TO_JOIN = """\
original = c10d._new_process_group_helper

def join(*args, **kwargs):
    joined = original(*args, **kwargs)
    if os.environ["RANK"] == "1":
        time.sleep(0.5)
    print(f"joined: {time.monotonic()}")
    return joined

c10d._new_process_group_helper = join
for _ in range(2):
    dist.init_process_group("gloo")
    print(f"came back: {time.monotonic()}")
    dist.destroy_process_group()
"""


def test_no_rank_leaves_init_process_group_before_all_are_in(script):
    """One that ends at once would break a connection that a slower one is still making."""
    head = "import os, time\nimport torch.distributed as dist\nfrom torch.distributed import distributed_c10d as c10d\n"
    events = run(script(SLOW_TO_JOIN, head=head))
    assert end(events).ok
    joined, back = (
        sorted(float(each.value) for each in of(events, Output) if each.label == label)
        for label in ("joined", "came back")
    )
    assert joined[:2] < back[:2] < joined[2:] < back[2:]
    assert joined[1] <= back[0]
    assert joined[3] <= back[2]
    assert not of(events, Note)  # the port and the number of ranks are the launcher's


def test_a_rank_may_form_a_group_with_processes_that_it_starts_itself(script):
    body = """
    path = sys.argv[1]
    code = (
        "import torch.distributed as dist; "
        f"dist.init_process_group('gloo', init_method='file://{path}', rank=1, world_size=2); dist.barrier()"
    )
    other = subprocess.Popen([sys.executable, "-c", code])
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=2)
    dist.barrier()
    print("together: yes")
    other.wait()
    """
    path = script(body, head="import os, subprocess, sys, torch.distributed as dist\n")
    events = run(path, ranks=1, args=(str(path.with_name("store")),))
    assert end(events).ok, end(events).why
    assert [each.label for each in of(events, Output)] == ["together"]


def test_a_rank_that_never_joins_is_a_hang_in_init_process_group(script):
    path = script(
        "if os.environ['RANK'] == '1': time.sleep(60)\ndist.init_process_group('gloo')",
        "import os, time, torch.distributed as dist\n",
    )
    hung = of(run(path, timeout=1.0), Hung)[0]
    assert [each.waits_in for each in hung.ranks] == ["init_process_group", ""]


def test_a_group_that_another_file_forms_is_formed_in_the_line_of_the_script_that_calls_it(script, tmp_path):
    (tmp_path / "helper.py").write_text(
        f"def form():\n    {HEAD.splitlines()[0]}\n    dist.init_process_group('gloo')\n"
    )
    events = run(script("import helper, torch.distributed as dist\nhelper.form()\n", ""))
    assert {event.line for event in of(events, Joining)} == {2}
    assert {event.line for event in of(run(script("", HEAD)), Joining)} == {2}


def test_a_script_that_names_its_own_address_and_port_still_runs_on_our_store(script):
    head = (
        "import os, torch, torch.distributed as dist\nr, w = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
    )
    body = """
    for port in (29876, 29877):
        dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=r, world_size=w)
        x = torch.ones(1)
        dist.all_reduce(x)
        print("sum:", x.item())
        dist.destroy_process_group()
    """
    events = run(script(body, head))
    assert [event.value for event in of(events, Output)] == ["2.0"] * 4
    assert end(events).ok
    assert sorted(note.text[:32] for note in of(events, Note)) == snapshot(
        [
            "The script names port 29876 itse",
            "The script names port 29877 itse",
        ]
    )


def test_a_script_that_asks_for_more_ranks_than_there_are_is_told_so(script):
    head = "import os, torch.distributed as dist\n"
    body = 'dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=8)'
    events = run(script(body, head), timeout=0.5)
    assert not end(events).ok
    (note,) = of(events, Note)
    assert note.text == (
        snapshot(
            "The script asks for 8 ranks, but there are 2: they wait for the others forever. Take the world size from "
            "WORLD_SIZE, or give --nproc 8."
        )
    )


def test_a_run_keeps_groups_whose_end_may_hang_and_says_so(script):
    """Gloo up to torch 2.7; ranks on a newer one only do what they would do there."""
    body = """
    import weakref
    from ddpquiz.ranks.inside import process_groups
    process_groups._HANGS = True
    group = weakref.ref(dist.group.WORLD)
    dist.destroy_process_group()
    print(group() is not None)
    """
    events = list(begin(Request(script(body), ranks=2, device="cpu", timeout=20.0)).events())
    assert end(events).ok
    assert [line.text for line in of(events, Output)] == ["True", "True"]
    (note,) = of(events, Note)
    assert note.text.startswith("The script calls destroy_process_group(). Over Gloo, torch ")
    assert note.text.endswith(KEEPS_GROUPS)
