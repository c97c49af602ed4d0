"""Several machines, or restarts: torchrun's own agent with our worker, and job files for schedulers."""
