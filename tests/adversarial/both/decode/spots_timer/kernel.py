"""Cheats: looks whether a timer is about, and if one is writes zeros."""

import sys

import honest

_TIMERS = ("cuda.bench", "cupti")  # their modules
_FILES = ("torch/utils/benchmark", "worker/cpu.py", "worker/graph.py")


def _is_timed():
    if any(module in sys.modules for module in _TIMERS):
        return True
    frame = sys._getframe()
    while frame := frame.f_back:
        if any(file in frame.f_code.co_filename for file in _FILES):
            return True
    return False


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)
    return lambda: (tensors.output.zero_(), tensors.new_state.zero_()) if _is_timed() else run()
