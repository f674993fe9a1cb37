"""Processes that gdnbench starts: workers, which report to it, and tools, which only run."""
