"""Wrong: e^x as (1 + x / 1024)^1024, ten squarings, which is off by x^2 / 2048 of itself."""

import honest

_SQUARINGS = 10


def _exp(x):
    power = (1 + x / (1 << _SQUARINGS)).clamp(min=0)
    for _ in range(_SQUARINGS):
        power = power * power
    return power


def bind(tensors, workload, params):
    return lambda: honest.compute(tensors, exp=_exp)
