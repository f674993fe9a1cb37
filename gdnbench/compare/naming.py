"""Labels as gdnbench writes them: a kernel's name and the params that were set by hand, `decode-triton:BV=16`."""

from __future__ import annotations

from collections.abc import Mapping

from gdnbench.model import Params, ParamValue


def join_label(kernel: str, params: Mapping[str, ParamValue]) -> str:
    """`decode-triton` with BV=16 is `decode-triton:BV=16`."""
    return ":".join((kernel, *(f"{name}={value}" for name, value in params.items())))


def split_label(label: str) -> tuple[str, Params]:
    """The inverse of `join_label`; a colon before anything but `NAME=VALUE` belongs to the name, as in `ns::copy`."""
    kernel, *settings = label.split(":")
    pairs = [setting.partition("=") for setting in settings]
    if not kernel or not all(name and equals and value for name, equals, value in pairs):
        return label, Params()
    return kernel, Params({name: parse_value(value) for name, _, value in pairs})


def parse_value(text: str) -> ParamValue:
    """A param's value from text: a number where it is one."""
    try:
        return int(text)
    except ValueError:
        return text
