"""Files of the FlashInfer contest (flashinfer-bench): ops, kernels, workloads and runs out, ops and kernels in."""
