"""Screens on which a learner studies, answers, explains and predicts."""
