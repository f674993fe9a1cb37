"""The timers, in worker processes, where torch and CUDA are loaded and kernels may misbehave."""
