"""Draws screens and reads keys; knows no SQL and no torch."""
