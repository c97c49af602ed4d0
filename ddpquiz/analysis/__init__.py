"""What happened in a run, computed from its events: the same for a live run and a saved one."""
