"""Which line is named for a call that comes through torch and other packages."""

import sys

import pytest

from ddpquiz.ranks.inside.source_location import find_place

CALLERS = {
    "/opt/base/lib/python3.11/site-packages/torch/nn/modules/module.py": ("train.py", 7),
    "/usr/local/lib/python3.12/dist-packages/torch/distributed/distributed_c10d.py": ("train.py", 7),
    "/opt/base/lib/python3.11/site-packages/trainer/loop.py": ("train.py", 7),
    "/home/user/project/loop.py": ("/home/user/project/loop.py", 1),
}


@pytest.mark.parametrize("file", CALLERS)
def test_packages_of_another_environment_are_no_files_of_the_learner(file):
    inner, outer = {}, {}
    exec(compile("def call(): return find_place(sys._getframe())", file, "exec"), inner)
    inner.update(find_place=find_place, sys=sys)
    outer.update(call=inner["call"])
    exec(compile("\n" * 6 + "found = call()", "train.py", "exec"), outer)
    assert outer["found"] == CALLERS[file]
