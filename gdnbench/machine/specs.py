"""What a GPU's maker says of it, for GPUs that are not at hand: `gpus.toml`, each value with its source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("gpus.toml")


@dataclass(frozen=True, kw_only=True)
class GpuSpec:
    """A GPU model on paper; nothing here is measured.

    Attributes:
        slug: the model's short name, as `gdnbench.model.gpu_slug` makes it: `b200`.
        name: the model and the board whose values these are.
        bandwidth_gbs: peak bandwidth of the device memory, GB/s (1e9 bytes a second).
        boost_mhz: the highest SM clock that the maker rates it for, MHz.
        sms: streaming multiprocessors.
        l2_bytes: L2 cache in bytes.
        sources: where each value stands, by the attribute's name.
    """

    slug: str
    name: str
    bandwidth_gbs: float
    boost_mhz: float
    sms: int
    l2_bytes: int
    sources: Mapping[str, str] = field(hash=False)


def spec_of(slug: str) -> GpuSpec | None:
    """A model by its short name, `h200`; None where the table lacks it."""
    values = _table().get(slug)
    return None if values is None else GpuSpec(slug=slug, **values)


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))
