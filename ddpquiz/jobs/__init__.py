"""What a job left behind: the files of recorded ranks, and the dumps of Flight Recorder."""
