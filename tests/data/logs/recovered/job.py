import os
import time

if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    raise RuntimeError("the disk is full")
time.sleep(3)
print("rank", os.environ["RANK"], "done", flush=True)
