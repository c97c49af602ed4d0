"""Learn distributed training in the terminal: recall cards, quizzes, and demos that run real ranks."""

__version__ = "0.1.0"
