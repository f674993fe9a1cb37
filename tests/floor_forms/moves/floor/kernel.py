import os
import time


def bind(tensors, workload, params):
    def does(what):
        return str(params.FORM) in os.environ.get(f"MOVES_{what}", "").split(",")

    is_slow, is_wrong, raises = does("SLOW"), does("WRONG"), does("RAISES")

    def run():
        if raises:
            raise RuntimeError("this form does not run here")
        if is_slow:
            time.sleep(0.001)
        tensors.y.copy_(tensors.x)
        if is_wrong:
            tensors.y[0] += 1
        return (tensors.y,)

    return run
