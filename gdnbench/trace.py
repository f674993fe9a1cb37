"""Scopes that Triton kernels name their phases by, for `gdnbench proton`.

A kernel imports the module, for the functions that Triton compiles may reach no other name of Python's:

    from gdnbench import trace

    @triton.jit
    def kernel(...):
        with trace.scope("load_state"):
            s = tl.load(state + tile)

A scope marks what it encloses while Proton instruments the kernel. At any other time it is nothing: the code is the
same, to the instruction, as without it. Unlike Proton's own `scope` it may also stand in a kernel that Triton's
interpreter runs, and costs a kernel's file no import of the profiler.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class scope:  # noqa: N801  # reads as the statement that it is
    """Marks the phase of a Triton kernel that a `with` encloses.

    Args:
        name: what the phase is called, `load_state`.
        _semantic: given by Triton's compiler; its interpreter gives none.
    """

    def __init__(self, name: str, _semantic: Any = None) -> None:
        self._name = name
        self._semantic = _semantic

    def __enter__(self) -> None:
        self._record("enter_scope")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._record("exit_scope")

    def _record(self, function: str) -> None:
        # Who instruments has imported Proton's language; it checks by itself whether instrumentation is on.
        language = sys.modules.get("triton.profiler.language")
        if language is not None and self._semantic is not None:
            getattr(language, function)(self._name, _semantic=self._semantic)
