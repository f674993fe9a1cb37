"""Wrong: waits for ever, holding the interpreter lock, from the second call on."""

import ctypes
from itertools import count

import honest

_calls = count(1)


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        if next(_calls) >= 2:
            print("hanging", flush=True)
            while True:
                ctypes.PyDLL(None).pause()  # which keeps the lock, as a call of `CDLL` would not
        return run()

    return call
