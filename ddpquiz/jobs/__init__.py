"""What a job left behind, read: files of recorded ranks, dumps of Flight Recorder, logs, stacks, reports of RAS."""
