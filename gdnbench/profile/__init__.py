"""Profilers of one kernel at one workload; each runs a worker process that only launches that kernel."""
