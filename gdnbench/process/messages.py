"""What a worker and its parent send each other: dataclasses as lines of JSON, and the worker's ends of the pipes.

A message is one line, an object whose `kind` is the name of its dataclass. It goes through a pipe of its own, so that
nothing that a kernel or a library prints gets in between.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar

from gdnbench.codec import SchemaError, convert

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Message = TypeVar("Message", bound="DataclassInstance")

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def encode(message: DataclassInstance) -> str:
    """A message as a line of JSON, without its line feed."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}, separators=(",", ":"))


def decode(line: str | bytes, kinds: Sequence[type[Message]]) -> Message:
    """The inverse of `encode`.

    Args:
        line: the line.
        kinds: the dataclasses that it may be; their annotations are its schema.

    Raises:
        ValueError: for a line that is no such message, such as one cut off by a dying worker.
    """
    try:
        fields: dict[str, Any] = json.loads(line)
        kind = {each.__name__: each for each in kinds}[fields.pop("kind")]
        return convert(fields, kind)
    except (SchemaError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a message: {line[:80]!r}") from error


class Channel(Generic[Message]):
    """The worker's end of the pipe to its parent.

    Args:
        descriptor: of the pipe, which the parent gives as the worker's last argument.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Message) -> None:
        """Writes the message whole."""
        line = (encode(message) + "\n").encode()
        while line:
            line = line[os.write(self._descriptor, line) :]


def take_requests() -> TextIO:
    """The lines of stdin, moved to a descriptor that no kernel's source and no library reads; they find stdin empty."""
    requests = os.fdopen(os.dup(0))
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent ends.

    A parent that is killed cannot stop its worker, and a GPU kernel that hangs would keep the GPU for ever.
    """
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
