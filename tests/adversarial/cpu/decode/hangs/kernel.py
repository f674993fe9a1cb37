"""Wrong: loops for ever, holding the interpreter lock, from the second call on."""

from itertools import count

import honest

_calls = count(1)


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        if next(_calls) >= 2:
            print("hanging", flush=True)
            while True:
                pass
        return run()

    return call
