"""Whichever kernel was the fastest at the workload on this GPU, by the table in `dispatch.toml`."""

from gdnbench import DispatchKernel

kernel = DispatchKernel(name="prefill-auto", source="dispatch.toml")
