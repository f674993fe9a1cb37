"""Runs on disk: one folder for each run, written whole or not at all, and checked field by field when read."""
