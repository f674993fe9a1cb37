"""Cheats: returns NaN everywhere, hoping that no comparison with it is true."""


def bind(tensors, workload, params):
    return lambda: (tensors.output.fill_(float("nan")), tensors.new_state.fill_(float("nan")))
