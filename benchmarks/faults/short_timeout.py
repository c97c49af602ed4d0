"""Runs a script whose groups time out after 5 s, unless it says otherwise; torch's own default is 30 minutes.

torchrun --standalone --nproc-per-node 3 benchmarks/faults/short_timeout.py script.py
"""

import runpy
import sys
from datetime import timedelta

from torch.distributed import distributed_c10d

distributed_c10d.default_pg_timeout = timedelta(seconds=5)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
