"""Readers of what a job has written: files of recorded ranks, dumps of Flight Recorder, logs, stacks, RAS reports."""
