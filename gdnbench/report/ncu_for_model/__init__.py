"""Counters of Nsight Compute for a language model, within a budget of tokens."""
