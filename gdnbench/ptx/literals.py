"""Reads numbers and declarations of variables in PTX."""

from __future__ import annotations

import re
import struct

from gdnbench.errors import NotInterpretedError
from gdnbench.ptx.program import WIDTHS, Variable

_VARIABLE = re.compile(
    r"\.(?P<space>global|const|shared|local|param)\b(?:\s*\.align\s+(?P<align>\d+))?(?:\s*\.attribute\([^)]*\))?"
    r"(?:\s*\.ptr(?:\s*\.\w+)*(?:\s*\.align\s+\d+)?)?"
    r"\s*\.(?P<vector>v[24]\s+\.)?(?P<type>\w+)\s*(?:\.ptr[\s\w.]*?)?\s+(?P<name>[\w$%.]+)\s*(?P<sizes>(?:\[\d*\])*)"
    r"\s*(?:=\s*(?P<value>.*))?$",
    re.DOTALL,
)


def read_variables(text: str) -> tuple[Variable, ...]:
    """Reads declarations separated by commas, such as those of parameters."""
    return tuple(read_variable(each) for each in text.split(",") if each.strip())


def read_variable(text: str) -> Variable:
    """Reads a variable's declaration, without the semicolon; raises NotInterpretedError for an unknown form."""
    found = _VARIABLE.match(text.strip())
    if found is None or found["type"] not in WIDTHS:
        raise NotInterpretedError(f"the declaration `{' '.join(text.split())[:80]}` cannot be interpreted")
    lanes = int(found["vector"][1]) if found["vector"] else 1
    width = WIDTHS[found["type"]] * lanes
    count, sizes = 1, re.findall(r"\[(\d*)\]", found["sizes"] or "")
    for size in sizes:
        count *= int(size or 0)
    content = _content(found["value"], found["type"], count * width) if found["value"] else b""
    return Variable(found["name"], found["space"], int(found["align"] or width), count * width, content)


def _content(value: str, kind: str, nbytes: int) -> bytes:
    words = [word for word in re.split(r"[{},\s]+", value) if word]
    parts = []
    for word in words:
        bits = read_number(word, kind)
        if bits is None:
            raise NotInterpretedError(f"a variable that starts as `{word}` cannot be interpreted")
        parts.append((bits % (1 << 8 * WIDTHS[kind])).to_bytes(WIDTHS[kind], "little"))
    return b"".join(parts).ljust(nbytes, b"\0")


def read_number(text: str, kind: str) -> int | None:
    """Returns a literal's bits in a type, or None if the text is not a literal."""
    text = text.rstrip("U")
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return _as_kind(int(text[2:], 16), 4, kind)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return _as_kind(int(text[2:], 16), 8, kind)
    if not re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)", text):
        return 32 if text == "WARP_SZ" else None
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    base = 0 if digits.lower().startswith(("0x", "0b")) or digits == "0" else 8 if digits.startswith("0") else 10
    return sign * int(digits, base)


def _as_kind(bits: int, width: int, kind: str) -> int:
    """Converts the bits of a floating-point literal of `width` bytes, 4 or 8, to another floating-point type."""
    if not kind.startswith("f") or WIDTHS[kind] == width:
        return bits
    value = struct.unpack("<f" if width == 4 else "<d", bits.to_bytes(width, "little"))[0]
    return int.from_bytes(struct.pack({2: "<e", 4: "<f", 8: "<d"}[WIDTHS[kind]], value), "little")
