"""Runs as one self-contained HTML file: tables, charts and provenance."""
