"""Measures an inference engine's cost of one token: a chain of layers, by every way of launching it."""
