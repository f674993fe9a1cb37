"""The code of worker processes, where torch and CUDA are loaded and kernels may misbehave.

The parent starts `python -m gdnbench.measure.worker` and imports nothing from here.
"""
