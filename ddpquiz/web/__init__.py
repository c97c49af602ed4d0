"""Runs as plain files that a browser shows, without a server and without a network."""
