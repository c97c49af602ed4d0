"""Restarts of failed ranks: torchrun's agent with our worker."""
