"""Whichever kernel was the fastest at the shape on this GPU, by the table in `dispatch.toml`."""

from gdnbench import DispatchKernel

kernel = DispatchKernel(name="decode-auto", source="dispatch.toml")
