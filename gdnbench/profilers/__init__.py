"""Profilers around one kernel at one workload: what runs inside is a worker that launches it and nothing else."""
