"""Draws screens and reads keys; knows no SQL and no torch.

The screens and pages of labs, of `plan` and of `bench` are in the folders of these names.
"""
