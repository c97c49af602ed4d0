"""Many processes, started, watched and stopped."""
