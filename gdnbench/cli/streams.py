"""Standard streams as people have them: closed, full, or unable to show a µ."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import unicodedata

_HANDLER = "gdnbench"
_PLAIN = {"µ": "u", "±": "~", "\u00d7": "x", "…": ".", "—": "-", "\u2013": "-", "●": "*", "ᵀ": "T", "≤": "<", "≥": ">"}


def prepare_streams() -> None:
    """Makes every character printable, in as many columns as it had, whatever the terminal's encoding.

    A stream that was closed swallows what is written to it.
    """
    codecs.register_error(_HANDLER, _plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for the process's life
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)


def abandon_output() -> None:
    """Lets what is still to be written to standard output vanish where nobody takes it."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _discard_output()


def _discard_output() -> None:
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_plain, error.object[error.start : error.end])), error.end


def _plain(character: str) -> str:
    if character in _PLAIN:
        return _PLAIN[character]
    bare = unicodedata.normalize("NFKD", character)[0]
    return bare if bare.isascii() else "?"
