"""Prints stored runs of several cards as one answer: tables, JSON and CSV."""
