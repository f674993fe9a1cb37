"""Says where and why Triton rejected a kernel: its own messages count lines from the function's first."""

from __future__ import annotations

import re
from pathlib import Path


def explain(source: Path, error: BaseException) -> str:
    """The reason, as `file:line: error: reason` and the line itself where Triton knows it.

    Args:
        source: the kernel's file.
        error: what `triton.compile` raised.
    """
    from triton.compiler.errors import CompilationError

    chain = [link for link in _chain(error) if isinstance(link, CompilationError)]
    if chain:
        return _at_line(source, chain[-1])  # the innermost: in the function called, not at the call
    return f"{source}: error: {_ptxas_log(str(error)) or type(error).__name__}"


def _chain(error: BaseException | None) -> list[BaseException]:
    links = []
    while error is not None:
        links.append(error)
        error = error.__cause__
    return links


def _at_line(source: Path, error: BaseException) -> str:
    function = getattr(error, "src", None) or ""
    node = getattr(error, "node", None)
    reason = getattr(error, "error_message", None) or str(error)
    line = getattr(node, "lineno", 0)
    before, found, _after = source.read_text().partition(function)
    if not (function and found and line):
        return f"{source}: error: {error}"
    column = getattr(node, "col_offset", 0)
    excerpt = f"{function.splitlines()[line - 1]}\n{' ' * column}^"
    return f"{source}:{before.count(chr(10)) + line}: error: {reason}\n{excerpt}"


def _ptxas_log(text: str) -> str:
    """What ptxas said, without Triton's command line and the names of temporary files."""
    log = text.partition("`ptxas` stderr:\n")[2].partition("\n\nRepro command:")[0] or text
    return re.sub(r"^ptxas \S+\.ptx, ", "ptxas: PTX ", log, flags=re.MULTILINE).strip()
