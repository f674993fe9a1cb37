"""Wrong: passes the preflight, where one call is bound 27 times at most, and fails while it is measured."""

import os
import time

import honest

HONEST_CALLS = 30  # three rounds of 5 samples are 61 calls: each sample has two to warm up


def _raise():
    raise ValueError("tired of being measured")


_FAILURES = {"abort": os.abort, "hang": lambda: time.sleep(1e6), "raise": _raise}


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        if calls > HONEST_CALLS:
            _FAILURES[params.HOW]()
        return run()

    return call
