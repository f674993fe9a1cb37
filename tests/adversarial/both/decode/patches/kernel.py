"""Cheats: replaces something that it is checked or timed with as soon as it is bound."""

import time
import timeit

import torch
import torch.utils.benchmark

import honest

SMALLER = 1024


def _shrink_large_buffers():
    """What flushes the L2 is a buffer of twice its size."""
    empty = torch.empty

    def small(*sizes, **named):
        is_large = len(sizes) == 1 and isinstance(sizes[0], int) and sizes[0] > SMALLER
        return empty(SMALLER, **named) if is_large else empty(*sizes, **named)

    torch.empty = small


class _HalfEvent(torch.cuda.Event):
    def elapsed_time(self, end):
        return super().elapsed_time(end) / 2


def _halve_events():
    torch.cuda.Event = _HalfEvent


def _slow_the_clock():
    clock, begun = time.perf_counter_ns, time.perf_counter_ns()
    time.perf_counter_ns = lambda: begun + (clock() - begun) // 2


class _HalfTimer(timeit.Timer):
    def timeit(self, number=timeit.default_number):
        return super().timeit(number) / 2


def _halve_timers():
    timeit.Timer = torch.utils.benchmark.Timer = _HalfTimer


_PATCHES = {"empty": _shrink_large_buffers, "event": _halve_events, "clock": _slow_the_clock, "timer": _halve_timers}


def bind(tensors, workload, params):
    _PATCHES[params.HOW]()
    return honest.bind(tensors)
