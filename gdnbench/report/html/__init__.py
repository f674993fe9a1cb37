"""Runs as one HTML file that needs nothing else: tables, charts and where the numbers come from."""
