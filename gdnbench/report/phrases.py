"""Commands and words that several reports share: what to run next, how a run is named, changed code, what bounds."""

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
"""Takes a label and a hash of sources; says whether that is the label's code as it is now: `Catalog.code_state`."""

OTHER_CODE = "of other code"


def flops_bind(rows: Iterable[Measurement]) -> bool:
    """Whether the op's FLOPs at the GPU's peak, rather than copying, bound a workload of these rows."""
    return any(row.timing and row.timing.bound == "flops" for row in rows)


def settling_notes(versus: Versus | None) -> list[str]:
    """How many rounds would decide an UNCLEAR comparison, or that none would; after one round neither is known."""
    if versus is None or versus.verdict != "unclear" or not math.isfinite(versus.high):
        return []
    more = versus.more_rounds
    return [f"{plural(more, 'more round')} would settle it" if more else "more rounds would not settle it"]


def other_code(label: str) -> str:
    """A line that says that a stored result of a label was measured with other sources than the kernel has now."""
    return f"{OTHER_CODE}: {label.partition(':')[0]}'s sources have changed since"


def params_text(params: Params, names: Iterable[str]) -> str:
    """The values of some params: `BV=8 WARPS=4`."""
    return " ".join(f"{name}={params[name]}" for name in names)


def short_id(row: HistoryRow) -> str:
    """The start of the id of a run in a history, which names it."""
    return row.run.name[:RUN_ID_START]


def next_words(info: RunInfo, folder: Path, option: str) -> list[str]:
    """The command that shows a run in another form; one that was stopped is resumed instead.

    Args:
        info: the run.
        folder: where it is stored.
        option: the form, `--csv`.
    """
    hidden = PARTIAL.fullmatch(folder.name)
    named = [hidden["run_id"] if hidden else folder.name, *out_option(folder.parent)]
    return ["gdnbench", "show", *named, option] if info.complete else ["gdnbench", "run", "--resume", *named]
