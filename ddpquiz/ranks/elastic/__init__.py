"""Several machines, or restarts: torchrun's agent with our worker, and job files for schedulers."""
