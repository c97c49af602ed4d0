"""`ddpquiz` with the two concepts of the sample instead of the shipped content; actions only say that they ran."""

import sys

from sample import DDP, RING

from ddpquiz.cli import app, session
from ddpquiz.curriculum import catalog, loading
from ddpquiz.curriculum.catalog import Source, Track

TRACK = Track("collectives", "Collectives", ("ring", "ddp"))
SAMPLE = catalog.Catalog((TRACK,), (RING, DDP), {"dist": Source("dist", "PyTorch docs")})


class Runs:
    def warm(self):
        pass

    def demo(self, link, **_):
        print("the demo", link.run, "runs")
        input("enter goes back")
        return ""

    def prove(self, posed):
        print("the proof of", posed.question.key, "runs")
        input("enter goes back")


loading.load = lambda: SAMPLE
if "--real" in sys.argv:
    sys.argv.remove("--real")
else:
    session.Runs = Runs
if __name__ == "__main__":
    app.main()
