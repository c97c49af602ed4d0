"""Screens on which a learner learns: home, lessons, study, test, explain, predictions, and the runs they start."""
