"""Verifies a kernel's numbers against the float64 oracle."""

from gdnbench.verify.check import Oracle, check_copy, check_outputs, compare_launches, consult_oracle, verify_launcher

__all__ = ["Oracle", "check_copy", "check_outputs", "compare_launches", "consult_oracle", "verify_launcher"]
