"""The rules of `gdnbench lint`."""

from __future__ import annotations

from gdnbench.lint.finding import LintRule
from gdnbench.lint.rules.autotune import autotune_in_place, autotune_key
from gdnbench.lint.rules.moved_load import moved_load
from gdnbench.lint.rules.offset import cuda_offset, triton_offset
from gdnbench.lint.rules.plain_pointer import plain_pointer
from gdnbench.lint.rules.precision import dot_tf32, narrow_sum
from gdnbench.lint.rules.refused_launch import cuda_launch, triton_launch
from gdnbench.lint.rules.unmasked_access import unmasked_access

RULES: tuple[LintRule, ...] = (
    *(unmasked_access, dot_tf32, triton_offset, narrow_sum, autotune_key, autotune_in_place, triton_launch, moved_load),
    *(plain_pointer, cuda_offset, cuda_launch),
)
"""Triton's, then CUDA's, by their codes."""
