"""Files of the FlashInfer contest (flashinfer-bench): exports ops, kernels and runs, imports ops and kernels."""
