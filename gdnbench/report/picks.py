"""Whether what a dispatcher picks is still the code that was found the best."""

from __future__ import annotations

from pathlib import Path

from gdnbench.catalog import Catalog, Pick
from gdnbench.errors import RunFormatError
from gdnbench.model import CodeState
from gdnbench.store import read_info


def codes_of_picks(catalog: Catalog, results: Path) -> dict[Pick, CodeState]:
    """For each row of each dispatcher's table, whether the run that it names timed the kernel's code as it is now.

    Args:
        catalog: what there is.
        results: where runs are; the code of a run that is not there is not known.
    """
    picks = [pick for entry in catalog.entries.values() if entry.dispatch for pick in entry.dispatch.rows]
    timed = {source: _sources(results / source) for source in {pick.source for pick in picks}}
    return {pick: catalog.code_state(pick.kernel, timed[pick.source].get(pick.kernel, "")) for pick in picks}


def _sources(folder: Path) -> dict[str, str]:
    try:
        return read_info(folder).sources
    except RunFormatError:
        return {}
