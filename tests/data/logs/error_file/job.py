import os

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    if os.environ["RANK"] == "1":
        raise KeyError("tokenizer.json")
    import time
    time.sleep(20)


main()
