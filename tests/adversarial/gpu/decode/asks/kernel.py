"""Wrong: `.item()` waits for the GPU."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        if tensors.a[0, 0, 0].item() > 1e9:
            raise ValueError("that is a large gate")
        return run()

    return call
