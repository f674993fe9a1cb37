"""Counters of Nsight Compute for a language model to read, under a budget of tokens."""
