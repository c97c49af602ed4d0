"""What a learner does: study, test, explain, follow a path of lessons; and the log of it, scheduled and summed up."""
