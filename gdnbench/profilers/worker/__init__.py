"""The process that a profiler watches: it binds one kernel, warms it, and does what its task says."""
