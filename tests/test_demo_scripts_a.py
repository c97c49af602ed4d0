"""Breaks of four demos: for each claim, one change of the script that must make that claim fail."""

import ast

import pytest

from ddpquiz.shipped import demos_dir

# demo, text in its source, what replaces it, the claim that fails then, ranks, arguments
BREAKS: list[tuple[str, str, str, str, int, tuple[str, ...]]] = [
    ("allreduce", "chunks[incoming].add_(pass_on(outgoing, incoming))", "chunks[incoming].copy_(pass_on(outgoing, incoming))", "after the ring every rank holds the sum of all ranks' tensors", 4, ()),
    ("allreduce", "x += theirs", "x = theirs", "the way through a root gives every rank the same sum", 3, ()),
    ("allreduce", "dist.all_reduce(theirs)", "dist.broadcast(theirs, src=0)", "dist.all_reduce gives every rank the same sum", 2, ()),
    ("allreduce", "sent += chunks[outgoing].nbytes", "sent += x.nbytes", "each rank of the ring sent 2(N-1)/N of its tensor", 4, ()),
    ("allreduce", "sent += x.nbytes", "sent = x.nbytes", "the root sent its tensor N-1 times", 3, ()),
    ("allreduce", "return x.nbytes", "return 0", "added up over the ranks, both sent 2(N-1) tensors", 4, ("--size", "6")),
    ("allreduce", "dist.all_reduce(x)", "dist.barrier()", "each of the timed all-reduces made the sum", 2, ("--sweep",)),
    ("collectives", "dist.broadcast(x, src=root)", "dist.barrier()", "broadcast: every rank holds the root's numbers", 2, ()),
    ("collectives", "dist.scatter(x, list(parts)", "dist.scatter(x, list(parts)[::-1]", "scatter: rank r holds part r of the root's numbers", 2, ()),
    ("collectives", "dist.gather(parts[0],", "dist.gather(parts[rank],", "gather: the root holds one number of each rank", 2, ()),
    ("collectives", "dist.all_gather(collected, parts[0])", "dist.all_gather(collected, parts[rank])", "all-gather: every rank holds one number of each rank", 2, ()),
    ("collectives", "dist.reduce(x, dst=root, op=op)", "dist.reduce(x, dst=root, op=dist.ReduceOp.MAX)", "reduce: the root holds the sum (or maximum) over all ranks", 4, ("--root", "1")),
    ("collectives", "dist.all_reduce(x, op=op)", "dist.all_reduce(x.clone(), op=op)", "all-reduce: every rank holds the sum (or maximum) over all ranks", 2, ()),
    ("collectives", "reduce_scatter(x, mine, op=op)", "reduce_scatter(x, mine.flip(0), op=op)", "reduce-scatter: rank r holds part r of the sum (or maximum)", 2, ("--reduce", "max")),
    ("collectives", "dist.all_gather(collected, x)", "dist.all_gather(collected, parts[rank])", "reduce-scatter, then all-gather, equals all-reduce", 3, ("--op", "reduce-scatter")),
    ("collectives", "dist.all_to_all_single(x, mine)", "dist.all_to_all_single(x, mine.flip(0))", "all-to-all: rank r holds part r of every rank's numbers", 4, ("--op", "all-to-all")),
    ("parameter_server", "sorted(gradients)) / workers", "sorted(gradients))", "without old gradients the weights are those of one process with all the samples", 4, ()),
    ("parameter_server", "gradient_of_loss(weights, x, y)\n", "gradient_of_loss(0 * weights, x, y)\n", "without old gradients the weights are those of one process with all the samples", 2, ("--mode", "async")),
    ("parameter_server", "[PUSH, version[server]]", "[PUSH, 0]", "sync: no gradient is older than the weights that it meets", 3, ("--servers", "2")),
    ("parameter_server", "ages.append(version - pulled_version)", "ages.append(0)", "async: the oldest gradient is m-1 updates late, or more", 3, ("--mode", "async")),
    ("parameter_server", "version += 1", "version += workers", "sync makes a version a step, async one a gradient", 3, ()),
    ("parameter_server", "if len(gradients) == workers or not sync:", "if len(gradients) == workers:", "sync makes a version a step, async one a gradient", 4, ("--mode", "async")),
    ("parameter_server", 'moved["received"] += tensor.nbytes', 'moved["received"] = tensor.nbytes', "servers move m models each way a step, workers one", 2, ()),
    ("launch", "torch.tensor([rank, node,", "torch.tensor([0, node,", "the ranks are 0 to N-1, each exactly once", 2, ()),
    ("launch", "os.getpid(), len(mine)", "os.getppid(), len(mine)", "each rank is a process of its own", 2, ()),
    ("launch", "node, local_rank, os.getpid()", "node, 0, os.getpid()", "on a node the local ranks are 0, 1, 2, ...: a GPU for each", 3, ()),
    ("launch", "mine.append(rank)", "mine.extend(range(rank + 1))", "a variable belongs to one process: nobody sees what the others append", 2, ()),
    ("launch", 'dist.init_process_group("gloo",', 'dist.init_process_group("gloo", rank=1 - int(os.environ["RANK"]), world_size=2,', "the group takes rank and size from RANK, WORLD_SIZE", 2, ()),
    ("launch", "time.sleep(LATE)", "pass", "every rank on time waited for the late one", 3, ("--late", "1")),
    ("launch", "round(waited * 1000)", "round(waited * 1000) + 5000 * (rank == args.late)", "the late rank itself waited least", 2, ("--late", "1")),
    ("launch", "if rank not in others:", "if False:", "without one of its ranks the group is not made", 2, ("--missing", "1")),
    ("launch", "timeout=timedelta(seconds=seconds))", "timeout=timedelta(seconds=seconds / 4))", "the others waited for the missing rank until their time was over", 2, ("--missing", "0")),
    ("launch", 'store.set(f"joining/{rank}", "now")', 'store.set(f"joining/{rank + 1}", "now")', "the store tells which rank never came", 3, ("--missing", "1", "--timeout", "1")),
    ("launch", "del os.environ[args.omit]", "pass", "joining fails and names the variable not set", 2, ("--omit", "WORLD_SIZE")),
]  # fmt: skip


@pytest.mark.parametrize(("demo", "old", "new", "claim", "ranks", "args"), BREAKS)
def test_a_break_changes_one_place_of_its_demo(demo, old, new, claim, ranks, args):
    source = (demos_dir() / f"{demo}.py").read_text()

    assert source.count(old) == 1
    ast.parse(source.replace(old, new))


@pytest.mark.parametrize("demo", ["allreduce", "collectives", "parameter_server", "launch"])
def test_every_claim_of_a_demo_can_be_broken(demo):
    tree = ast.parse((demos_dir() / f"{demo}.py").read_text())
    claims = {node.msg.value for node in ast.walk(tree) if isinstance(node, ast.Assert)}

    assert claims == {row[3] for row in BREAKS if row[0] == demo}
