"""Cheats: once it is timed, a thread does the work after the call has returned."""

import threading
import time

import torch

import honest

LATER_S = 0.002


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)
    stream = torch.cuda.current_stream() if tensors.state.is_cuda else None

    def later():
        time.sleep(LATER_S)
        with torch.cuda.stream(stream):
            run()

    def call():
        if not honest.is_timed("late-thread"):
            return run()
        threading.Thread(target=later, daemon=True).start()
        return tensors.output, tensors.new_state

    return call
