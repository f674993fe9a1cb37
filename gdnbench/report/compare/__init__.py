"""Prints stored runs, published figures and files of other tools side by side."""
