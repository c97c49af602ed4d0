"""Pages to read: items, lessons, lists, statistics. Pages of labs, plans and bench lie in those folders."""
