"""Screens that show a run: live, saved, or as a picture."""
