"""Wrong: fails while it is measured, and does not take its process down."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        if honest.is_timed("late-raise"):  # the timer warms up with more than 80 calls
            raise ValueError("tired of being measured")
        return run()

    return call
