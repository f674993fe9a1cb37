"""Scopes that name the phases of Triton kernels for `gdnbench proton`.

A kernel imports the module, because functions that Triton compiles can reach no other Python name:

    from gdnbench import trace

    @triton.jit
    def kernel(...):
        with trace.scope("load_state"):
            s = tl.load(state + tile)

A scope marks the enclosed code while Proton instruments the kernel. Otherwise it changes nothing: the compiled code is
the same to the instruction. Unlike Proton's own `scope` it also works in Triton's interpreter, and a kernel's file need
not import the profiler.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class scope:  # noqa: N801  # reads as the statement that it is
    """Marks a phase, `load_state`, of a Triton kernel; Triton's compiler gives `_semantic`, its interpreter none."""

    def __init__(self, name: str, _semantic: Any = None) -> None:
        self._name = name
        self._semantic = _semantic

    def __enter__(self) -> None:
        self._record("enter_scope")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._record("exit_scope")

    def _record(self, function: str) -> None:
        # Proton's language is imported if anything instruments; it checks by itself whether instrumentation is on.
        language = sys.modules.get("triton.profiler.language")
        if language is not None and self._semantic is not None:
            getattr(language, function)(self._name, _semantic=self._semantic)
