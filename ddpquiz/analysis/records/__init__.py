"""What the ranks of a job left behind, whoever recorded it, read into one run."""
