"""Runs on disk: one folder a run, written whole or not at all, read with every doubt spelled out."""
