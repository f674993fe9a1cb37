"""Stored runs, published figures and files of other tools side by side."""
