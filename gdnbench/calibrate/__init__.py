"""Tests how often verdicts are right on this machine, by many runs of equal kernels and planted slowdowns."""
