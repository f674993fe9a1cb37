"""Prints a score: as JSON that fits a model's context, and as a few lines for a person."""
