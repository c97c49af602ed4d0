"""The kernels in front of torch's collectives: the server registers them for its ranks, and an unwatched rank has none."""

import passed
import pytest
import recorded_calls
from real_run import end, of, run

from ddpquiz.events.event import Alive, Issued, Output

pytestmark = passed.ENGINE

LISTED = """\
names = [name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::")]
has = torch._C._dispatch_has_kernel_for_dispatch_key
print("kernels:", sum(has(f"c10d::{name}", "BackendSelect") for name in names))
dist.all_reduce(x)
print("sum:", x.tolist())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_rank_has_kernels_only_if_it_is_watched(script, is_watched):
    events = run(script(LISTED), ranks=2, is_watched=is_watched)
    printed = {(each.label, each.value) for each in of(events, Output)}
    [kernels] = {int(value) for label, value in printed if label == "kernels"}
    assert bool(kernels) == is_watched
    assert ("sum", "[3.0, 3.0]") in printed
    assert len(of(events, Issued)) == 2 * is_watched
    assert end(events).ok


def test_a_rank_forked_after_an_unwatched_one_is_watched_again(script):
    path = script(LISTED)
    counts = [len(of(run(path, ranks=1, is_watched=watched), Issued)) for watched in (False, True, False, True)]
    assert counts == [0, 1, 0, 1]


WAITING = """\
if rank == 0:
    time.sleep(0.6)
{}
"""


@pytest.mark.parametrize(
    "wait",
    [
        "dist.all_reduce(x)",
        "dist.monitored_barrier()",
        "dist.new_group([0, 1], use_local_synchronization=True)",
        "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))",
    ],
)
def test_a_rank_is_not_seen_to_compute_while_it_waits_in_our_code(watch, wait):
    events = watch(WAITING.format(wait), ranks=2)
    waited = recorded_calls.LINE + 2
    seen = [(event.rank, event.line) for event in of(events, Alive)]
    assert (0, waited - 1) in seen  # while it slept
    assert seen.count((1, waited)) <= 3  # on the way into the call and out of it
