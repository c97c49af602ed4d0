"""Which device a run takes, and the reason that is given."""

import pytest
from inline_snapshot import snapshot

from ddpquiz.errors import UserError
from ddpquiz.ranks.device import Device, choose_device, default_ranks
from ddpquiz.ranks.installed_torch import Machine


def machine(gpus=0, nccl=True, gloo=True):
    return Machine(gpus, nccl, gloo, "2.13.0")


REASONS = [
    ("auto", 4, machine(), "cpu", "4 ranks on CPU over Gloo · no GPU found"),
    ("auto", 1, machine(), "cpu", "1 rank on CPU over Gloo · no GPU found"),
    ("auto", 4, machine(1), "cpu", "4 ranks on CPU over Gloo · 1 GPU found, NCCL needs one per rank"),
    ("auto", 4, machine(2), "cpu", "4 ranks on CPU over Gloo · 2 GPUs found, NCCL needs one per rank"),
    ("auto", 4, machine(4), "cuda", "4 ranks on GPU over NCCL · 4 GPUs found, one for each rank"),
    ("auto", 1, machine(1), "cuda", "1 rank on GPU over NCCL · 1 GPU found, one for each rank"),
    ("cuda", 2, machine(2), "cuda", "2 ranks on GPU over NCCL · 2 GPUs found, one for each rank"),
    ("cpu", 2, machine(2), "cpu", "2 ranks on CPU over Gloo · as --device cpu asks"),
    ("auto", 2, machine(2, nccl=False), "cpu", "2 ranks on CPU over Gloo · 2 GPUs found, but this torch has no NCCL"),
]


@pytest.mark.parametrize(("wanted", "ranks", "found", "kind", "reason"), REASONS)
def test_nccl_is_taken_when_there_is_a_gpu_for_each_rank(wanted, ranks, found, kind, reason):
    chosen = choose_device(wanted, ranks, found)
    assert (chosen.kind, chosen.reason) == (kind, reason)
    assert chosen.backend == {"cpu": "gloo", "cuda": "nccl"}[kind]


def test_gpus_that_are_not_there_are_refused():
    with pytest.raises(UserError) as refused:
        choose_device("cuda", 2, machine(1))
    assert str(refused.value) == (
        snapshot(
            "2 ranks on GPUs need 2 GPUs and NCCL, but 1 GPU found; leave out --device cuda to run on CPU, or lower --nproc."
        )
    )


def test_ranks_of_a_script_of_your_own_share_gpus_when_you_ask_for_them():
    assert choose_device("cuda", 3, machine(1), may_share=True) == Device(
        "cuda", "nccl", "3 ranks on GPU over NCCL · 1 GPU found, which the ranks share", is_shared=True
    )
    assert not choose_device("cuda", 2, machine(2), may_share=True).is_shared
    assert choose_device("auto", 3, machine(1), may_share=True).kind == "cpu"
    for without in (machine(0), machine(1, nccl=False)):
        with pytest.raises(UserError, match="3 ranks on GPUs need 3 GPUs"):
            choose_device("cuda", 3, without, may_share=True)


def test_a_torch_without_gloo_is_refused_on_cpu():
    with pytest.raises(UserError, match="built without Gloo"):
        choose_device("auto", 2, machine(gloo=False))


@pytest.mark.parametrize(("gpus", "ranks"), [(0, 4), (1, 4), (2, 2), (8, 8)])
def test_the_number_of_ranks_is_that_of_several_gpus_or_four(gpus, ranks):
    assert default_ranks(machine(gpus)) == ranks


def test_gpus_that_are_asked_for_and_are_too_few_are_refused():
    with pytest.raises(UserError) as refused:
        choose_device("cuda", 4, Machine(1, True, True, "2.13.0"))
    assert str(refused.value) == (
        snapshot(
            "4 ranks on GPUs need 4 GPUs and NCCL, but 1 GPU found; leave out --device cuda to run on CPU, or lower --nproc."
        )
    )
