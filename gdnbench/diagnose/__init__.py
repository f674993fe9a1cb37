"""Explains a kernel's time: gathers the evidence, applies rules to it, and suggests the next experiment."""
