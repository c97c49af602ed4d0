"""Events of ranks, and what is computed from them: the only contract between a run and those who show it."""
