"""The reference, and a wait; DELAY=1 gives wrong numbers, and DELAY=99 cannot be bound."""

import time

import honest


def bind(tensors, workload, params):
    del workload
    if params.DELAY == 99:
        raise MemoryError("99 is more than there is")
    run = honest.bind(tensors)

    def call():
        output, new_state = run()
        end = time.perf_counter() + params.DELAY * 2e-4
        while time.perf_counter() < end:
            pass
        return (output + 1 if params.DELAY == 1 else output), new_state

    return call
