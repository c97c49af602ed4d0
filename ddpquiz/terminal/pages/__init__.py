"""Pages to read: items, lessons, lists, statistics."""
