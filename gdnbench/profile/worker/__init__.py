"""The process that a profiler watches: it binds one kernel, warms it up, and runs its task."""
