"""The rules of `gdnbench lint`, one a module."""

from __future__ import annotations

from gdnbench.lint.finding import LintRule
from gdnbench.lint.rules.autotune_in_place import AUTOTUNE_IN_PLACE
from gdnbench.lint.rules.autotune_key import AUTOTUNE_KEY
from gdnbench.lint.rules.cuda_launch import CUDA_LAUNCH
from gdnbench.lint.rules.cuda_offset import CUDA_OFFSET
from gdnbench.lint.rules.divergent_barrier import DIVERGENT_BARRIER
from gdnbench.lint.rules.dot_inner_size import DOT_INNER_SIZE
from gdnbench.lint.rules.dot_tf32 import DOT_TF32
from gdnbench.lint.rules.forced_spills import FORCED_SPILLS
from gdnbench.lint.rules.lane_count import LANE_COUNT
from gdnbench.lint.rules.moved_load import MOVED_LOAD
from gdnbench.lint.rules.narrow_loads import NARROW_LOADS
from gdnbench.lint.rules.narrow_sum import NARROW_SUM
from gdnbench.lint.rules.plain_pointer import PLAIN_POINTER
from gdnbench.lint.rules.triton_launch import TRITON_LAUNCH
from gdnbench.lint.rules.triton_offset import TRITON_OFFSET
from gdnbench.lint.rules.unmasked_access import UNMASKED_ACCESS
from gdnbench.lint.rules.unwritten_shared import UNWRITTEN_SHARED

RULES: tuple[LintRule, ...] = (
    UNMASKED_ACCESS,
    DOT_INNER_SIZE,
    DOT_TF32,
    TRITON_OFFSET,
    NARROW_SUM,
    AUTOTUNE_KEY,
    AUTOTUNE_IN_PLACE,
    LANE_COUNT,
    TRITON_LAUNCH,
    MOVED_LOAD,
    NARROW_LOADS,
    DIVERGENT_BARRIER,
    UNWRITTEN_SHARED,
    PLAIN_POINTER,
    CUDA_OFFSET,
    FORCED_SPILLS,
    CUDA_LAUNCH,
)
