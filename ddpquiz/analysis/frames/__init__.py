"""What a frame of a run says, before anything is known about where it is drawn: a terminal or a page."""
