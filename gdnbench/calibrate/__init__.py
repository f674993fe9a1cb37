"""What verdicts hold on this machine: equal kernels and planted slowdowns, over many runs."""
