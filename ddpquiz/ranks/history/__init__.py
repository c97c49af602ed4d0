"""What happened in a run, put together from its events: pure, so it serves a live run and a saved one alike."""
