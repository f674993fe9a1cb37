"""Shapes as parts of ids."""

from __future__ import annotations

from gdnbench.model import Shape


def shape_slug(shape: Shape) -> str:
    """A shape as part of an id: `b1-qk4-v8`; head sizes where they are not the usual."""
    return str(shape).lower().replace("=", "").replace("_", "-").replace(" ", "-")
