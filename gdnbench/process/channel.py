"""Sends a worker's messages to its parent on a socket, in a form that other code in its process cannot write by chance.

A message is one line: a keyed hash (BLAKE2b, RFC 7693) of the rest, its number, and a JSON object whose `kind` is the
name of its dataclass. The key is random, one per worker, and the first that the worker reads from the socket: no file
and no environment variable holds it.

This detects a kernel in the worker that writes to each descriptor that it finds, or takes a message away. It cannot
keep the key from code in the same process that searches its memory or Python's objects, or that sends messages through
gdnbench's own channel.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gdnbench.codec import SchemaError, convert

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Message = TypeVar("Message", bound="DataclassInstance")

KEY_BYTES = 32
_HASH_BYTES = 16


def encode(message: DataclassInstance) -> str:
    """Encodes a message as a line of JSON, without its line feed."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}, separators=(",", ":"))


def decode(line: str | bytes, kinds: Sequence[type[Message]]) -> Message:
    """Decodes a line of `encode` as one of `kinds`; raises ValueError for others, such as a dying worker's last."""
    try:
        fields: dict[str, Any] = json.loads(line)
        kind = {each.__name__: each for each in kinds}[fields.pop("kind")]
        return convert(fields, kind)
    except (SchemaError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a message: {line[:80]!r}") from error


class ForgedMessageError(ValueError):
    """Something other than gdnbench wrote to a worker's channel."""

    def __init__(self) -> None:
        super().__init__("something else than gdnbench wrote to the channel of results")


class Seal:
    """Numbers the lines of one worker and hashes them with its key; both ends of the channel count alike."""

    def __init__(self, key: bytes) -> None:
        self._keyed = blake2b(key=key, digest_size=_HASH_BYTES)
        self._next = 0

    def add(self, content: bytes) -> bytes:
        """Returns the next line, without its line feed."""
        numbered = b"%d %b" % (self._next, content)
        self._next += 1
        keyed = self._keyed.copy()
        keyed.update(numbered)
        return b"%b %b" % (keyed.hexdigest().encode(), numbered)

    def remove(self, line: bytes) -> bytes:
        """Returns the content of the next line; raises ForgedMessageError if its hash or its number is wrong."""
        content = line[2 * _HASH_BYTES + 1 :].partition(b" ")[2]
        if not hmac.compare_digest(line, self.add(content)):
            raise ForgedMessageError
        return content


class Channel(Generic[Message]):
    """The worker's end of the socket to its parent.

    There is only one, because it first reads the key from the socket. The parent passes the descriptor as the worker's
    last argument.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seal = Seal(os.read(descriptor, KEY_BYTES))

    def send(self, message: Message) -> None:
        """Writes the whole message."""
        line = self._seal.add(encode(message).encode()) + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]

    def receive_line(self) -> str:
        """Waits for a line from the parent, and returns it without its line feed; EOFError if the parent is gone."""
        line = b""
        while not line.endswith(b"\n"):
            if not (byte := os.read(self._descriptor, 1)):
                raise EOFError
            line += byte
        return line[:-1].decode()
