"""The cost model: memory, traffic and time of a training step on any number of GPUs. Numbers go in and come out."""
