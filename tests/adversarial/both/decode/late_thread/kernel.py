"""Cheats: once it is timed, a thread does the work after the call has returned."""

import threading
import time
from itertools import count

import torch

import honest

HONEST_CALLS = 60  # more than the preflight makes
LATER_S = 0.002

_calls = count(1)


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)
    stream = torch.cuda.current_stream() if tensors.state.is_cuda else None

    def later():
        time.sleep(LATER_S)
        with torch.cuda.stream(stream):
            run()

    def call():
        if next(_calls) <= HONEST_CALLS:
            return run()
        threading.Thread(target=later, daemon=True).start()
        return tensors.output, tensors.new_state

    return call
