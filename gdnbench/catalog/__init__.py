"""Finds `kernels/` and loads its declarations; imports no torch."""

from gdnbench.catalog.catalog import KERNELS_VARIABLE, Catalog, default_roots, load_catalog
from gdnbench.catalog.dispatch import Dispatch, Pick
from gdnbench.catalog.entry import Broken, Entry
from gdnbench.catalog.grid import Axes, choose_bases, grid_axes, grid_points, parse_params
from gdnbench.catalog.select import find_variant, select_variants

__all__ = [
    "KERNELS_VARIABLE",
    "Axes",
    "Broken",
    "Catalog",
    "Dispatch",
    "Entry",
    "Pick",
    "choose_bases",
    "default_roots",
    "find_variant",
    "grid_axes",
    "grid_points",
    "load_catalog",
    "parse_params",
    "select_variants",
]
