"""One module a command; wires the rooms together."""
