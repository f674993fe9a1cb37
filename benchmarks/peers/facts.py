"""What a record was measured on, and with: a JSON file beside the CSV, which a run that goes on must agree with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gdnbench.wording import plural

from .pilot import Planted


@dataclass(frozen=True)
class Facts:
    """The provenance of a record.

    Attributes:
        began: when its first part began, UTC.
        machine: host, GPU with its driver, and versions, as gdnbench's runs keep them.
        git: commit of the checkout, and whether it was changed.
        planted: what the pilot found.
        peers: who is tried.
        names: that each kernel has in a run of gdnbench.
        missing: peers that could not be tried, with why.
    """

    began: str
    machine: dict[str, Any]
    git: dict[str, Any]
    planted: tuple[Planted, ...]
    peers: tuple[str, ...]
    names: int
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def gpu(self) -> str:
        """The UUID of the GPU."""
        return str((self.machine.get("gpu") or {}).get("uuid", ""))

    def write(self, path: Path) -> None:
        """Writes them."""
        path.write_text(json.dumps(asdict(self), indent=1, default=str) + "\n", encoding="utf-8")


def facts_path(record: Path) -> Path:
    """Where the facts of a record are."""
    return record.with_suffix(".json")


def read_facts(path: Path) -> Facts:
    """Reads them.

    Raises:
        OSError: if there are none.
        ValueError: if they are not this benchmark's.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        planted = tuple(Planted(**each) for each in document.pop("planted"))
        return Facts(planted=planted, peers=tuple(document.pop("peers")), **document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} was not written by this benchmark: {error}") from error


def disagreement(facts: Facts, gpu: str, workloads: Sequence[str], peers: Sequence[str], names: int) -> str:
    """Why a run cannot go on with what is there; empty if it can.

    Args:
        facts: what is there.
        gpu: UUID of the GPU at hand.
        workloads: what is to be measured.
        peers: who is to be tried: those of a group share the trials of a record.
        names: that each kernel is to have in a run of gdnbench.
    """
    if facts.gpu != gpu:
        return f"it is of the GPU {facts.gpu}, and this is {gpu}"
    known = list(dict.fromkeys(each.workload for each in facts.planted))
    if known != list(workloads):
        return f"it is of {', '.join(known)}"
    if set(facts.peers) != set(peers):
        return f"it tries {', '.join(facts.peers)}"
    return "" if facts.names == names else f"its runs of gdnbench have each kernel under {plural(facts.names, 'name')}"
