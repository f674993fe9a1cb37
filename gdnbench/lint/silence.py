"""Comments that silence a rule on their line: `# gdnbench: ignore[T1] why`, `// gdnbench: ignore[C2, C3] why`."""

from __future__ import annotations

import re
from dataclasses import replace

from gdnbench.lint.finding import LintFinding

_COMMENT = re.compile(r"(?:#|//)\s*gdnbench:\s*ignore\[\s*([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)\s*\][ \t]*(.*)")


def apply_comments(text: str, findings: list[LintFinding]) -> tuple[list[LintFinding], int]:
    """Returns the findings of a file that no comment silences, and the number silenced; a comment needs a reason."""
    lines = text.splitlines()
    kept: list[LintFinding] = []
    for finding in findings:
        found = _COMMENT.search(lines[finding.place.line - 1])
        if found is None or finding.code not in re.split(r"\s*,\s*", found[1]):
            kept.append(finding)
        elif not re.search(r"\w", found[2]):
            kept.append(replace(finding, remedy=f"say why behind ignore[{found[1]}]: without a reason it does nothing"))
    return kept, len(findings) - len(kept)
