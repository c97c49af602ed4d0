"""Keys, screens and text layout; knows nothing of what is taught or run."""
