"""What a learner does: study, quiz, and the log of both."""
