"""What there is to learn: concepts, cards and questions, read from content/."""
