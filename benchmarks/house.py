"""Is the house within its budgets: lines, files, imports, names? `make lint` runs this and fails where one is exceeded.

Raising a budget takes a reason in the commit that does it.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gdnbench"
LONG_LINES, SHORT_LINES = 400, 60


@dataclass(frozen=True)
class Budget:
    """One number of the house and the most that it may be."""

    what: str
    most: float
    actual: float
    where: str = ""


def main() -> int:
    """Prints a line a budget; returns 1 if one is exceeded, 0 otherwise."""
    budgets = measure()
    width = max(len(each.what) for each in budgets)
    for each in budgets:
        over = each.actual > each.most
        note = f"  OVER: {each.where or 'take something out, or raise the budget and say why'}" if over else ""
        print(f"{each.what:{width}}  {each.actual:8,.6g} of {each.most:,.6g}{note}")
    return int(any(each.actual > each.most for each in budgets))


def measure() -> tuple[Budget, ...]:
    """Reads the tree and returns every number with its budget."""
    lines = {path: path.read_text().count("\n") for path in PACKAGE.rglob("*.py")}
    tests = sum(path.read_text().count("\n") for path in (ROOT / "tests").rglob("*.py"))
    long = sorted(str(path.relative_to(ROOT)) for path, count in lines.items() if count > LONG_LINES)
    short = sum(
        count < SHORT_LINES and path.name not in {"__init__.py", "__main__.py"} for path, count in lines.items()
    )
    twice = sorted(name for name, count in Counter(_public_classes(lines)).items() if count > 1)
    chain = longest_chain({module: _imports(path) for module, path in _modules().items()})
    return (
        Budget("lines of Python in gdnbench/", 65_895, sum(lines.values())),
        Budget("files in gdnbench/", 323, len(lines)),
        Budget("lines of Python in tests/", 51_540, tests),
        Budget(f"files over {LONG_LINES} lines", 0, len(long), ", ".join(long)),
        Budget(f"per cent of files under {SHORT_LINES} lines", 10, round(100 * short / len(lines), 1)),
        Budget("modules in the longest chain of imports", 15, len(chain), " -> ".join(chain)),
        Budget("public class names that stand twice", 0, len(twice), ", ".join(twice)),
    )


def _public_classes(paths: Mapping[Path, int]) -> Iterator[str]:
    for path in paths:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name


@cache
def _modules() -> dict[str, Path]:
    """Every module of the package, by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }


def _imports(path: Path) -> set[str]:
    """The modules that one imports as it loads: not those within functions or for types alone."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in _modules() else node.module)
    return found & _modules().keys()


def longest_chain(imports: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Returns the longest chain of modules that each import the next; raises CycleError if imports are circular."""
    chains: dict[str, tuple[str, ...]] = {}
    for module in TopologicalSorter(imports).static_order():
        below = (chains[each] for each in sorted(imports[module]))
        chains[module] = (module, *max(below, key=len, default=()))
    return max(chains.values(), key=len)


if __name__ == "__main__":
    sys.exit(main())
