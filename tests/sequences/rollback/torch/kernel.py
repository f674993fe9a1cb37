"""verify-reference, whose states go to a slot for each token."""

from gdnbench.launch.numerics import load_file
from gdnbench.origin import bundled_kernels

REFERENCE = load_file(bundled_kernels() / "verify" / "reference" / "kernel.py")


def bind(tensors, workload, params):
    del params
    return lambda: drafts(tensors, workload, tensors.accepted)


def drafts(t, workload, accepted):
    """The op as written; `accepted` as it is taken."""
    slots, sizes = t.slots.long(), (workload.HQ, workload.HV, workload.V, workload.K)
    slot = slots.gather(1, accepted[:, None].long() - 1)[:, 0]
    inputs = (t.mixed_qkv, t.a, t.b, t.A_log, t.dt_bias, t.new_pool, slot)
    output, states = REFERENCE.verify(*inputs, t.scale, t.beta_limit, sizes, slice(None))
    live = slots[:, 0] > 0
    t.new_pool[slots[live]] = states[live]
    return output, t.new_pool
