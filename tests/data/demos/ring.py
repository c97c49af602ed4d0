"""A ring of ranks, and what each rank sends.

Look at the row "bytes sent": every rank sends the same.
"""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=1200, help="bytes in the tensor")
parser.add_argument("-v", "--verbose", action="store_true")
size = parser.parse_args().size

world_size = int(os.environ["WORLD_SIZE"])
print(f"bytes sent: {2 * (world_size - 1) * size // world_size}")
