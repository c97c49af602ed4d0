"""`ddpquiz` with the two concepts of the sample instead of the shipped content; actions only say that they ran."""

import sys

from sample import DDP, RING

from ddpquiz.cli import app
from ddpquiz.curriculum import catalog, loading
from ddpquiz.curriculum.catalog import Source, Track
from ddpquiz.terminal.sittings.rank_runner import DemoOutcome, RankRunner

TRACK = Track("collectives", "Collectives", ("ring", "ddp"))
SAMPLE = catalog.Catalog((TRACK,), (RING, DDP), {"dist": Source("dist", "PyTorch docs")})


def demo(self, link, how=None):
    print("the demo", link.run, "runs")
    input("enter goes back")
    return DemoOutcome("", was_predicted=False, ended_well=True)


def prove(self, posed):
    print("the proof of", posed.question.key, "runs")
    input("enter goes back")


loading.load = lambda: SAMPLE
if "--real" in sys.argv:
    sys.argv.remove("--real")
else:
    RankRunner.warm, RankRunner.demo, RankRunner.prove = lambda _: None, demo, prove
if __name__ == "__main__":
    app.main()
