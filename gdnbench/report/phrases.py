"""Commands and texts that several reports share: next commands, run names, changed code, and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.model.code import CodeState
from gdnbench.model.measurement import Measurement, Versus
from gdnbench.model.params import Params
from gdnbench.places import out_option
from gdnbench.store.folder import PARTIAL
from gdnbench.store.info import RunInfo
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.compare.history import HistoryRow

RUN_ID_START = 15  # characters, `20260102-030405`: enough to name a run on the command line

CodeOf = Callable[[str, str], CodeState]
"""Takes a label and a hash of sources; returns whether that is the label's current code: `Catalog.code_state`."""

OTHER_CODE = "of other code"


def flops_bind(rows: Iterable[Measurement]) -> bool:
    """Whether the op's FLOPs at the GPU's peak, rather than copying, bound a workload of these rows."""
    return any(row.timing and row.timing.bound == "flops" for row in rows)


def settling_notes(versus: Versus | None) -> list[str]:
    """Returns how many rounds would decide an UNCLEAR comparison, or that none would; empty after one round."""
    if versus is None or versus.verdict != "unclear" or not math.isfinite(versus.high):
        return []
    more = versus.more_rounds
    return [f"{plural(more, 'more round')} would settle it" if more else "more rounds would not settle it"]


def other_code(label: str) -> str:
    """Returns a line that says that a stored result was measured with other sources than the kernel has now."""
    return f"{OTHER_CODE}: {label.partition(':')[0]}'s sources have changed since"


def params_text(params: Params, names: Iterable[str]) -> str:
    """Formats the values of some params: `BV=8 WARPS=4`."""
    return " ".join(f"{name}={params[name]}" for name in names)


def short_id(row: HistoryRow) -> str:
    """Returns the start of a run's id, which names it."""
    return row.run.name[:RUN_ID_START]


def next_words(info: RunInfo, folder: Path, option: str) -> list[str]:
    """Returns the command that shows a run in another form, `--csv`, or resumes it if it was stopped."""
    hidden = PARTIAL.fullmatch(folder.name)
    named = [hidden["run_id"] if hidden else folder.name, *out_option(folder.parent)]
    return ["gdnbench", "show", *named, option] if info.complete else ["gdnbench", "run", "--resume", *named]
