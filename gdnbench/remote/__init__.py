"""Runs a command on another machine: a job is a file, a target is a table in `gdnbench.toml`."""
