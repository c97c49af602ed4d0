"""What collectives cost on this machine: the measurement, its file and its page."""
