"""The mathematics in torch operations, vectorised over batch and heads; states and rings are gathered and scattered."""

from gdnbench import TorchKernel

IN_PLACE = {f"new_{name}": name for name in ("pool", "k_cache", "u_cache", "g_cache")}
kernel = TorchKernel(name="decode-ucache-reference", in_place=IN_PLACE)
