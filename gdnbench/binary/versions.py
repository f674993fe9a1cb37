"""Versions of installed packages, without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The installed version of each package; `absent` where there is none."""
    return {package: _version(package) for package in packages}


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
