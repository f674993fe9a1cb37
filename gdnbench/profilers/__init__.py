"""Profilers around one kernel at one shape: what runs inside is a worker that launches it and nothing else."""
