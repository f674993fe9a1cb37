"""What a worker sends its parent: messages on a socket, in a form that no other code in its process writes by chance.

A message is one line: a keyed hash (BLAKE2b, RFC 7693) of the rest, its number, and an object in JSON whose `kind` is
the name of its dataclass. The key is random, for one worker alone, and the first that the worker reads from the socket:
no file and no variable of the environment holds it.

So a kernel that runs in the worker and writes to each descriptor that it finds is noticed, as is one that takes a
message away. What this cannot do is keep the key from code in the same process that looks for it, in the process's
memory or among Python's objects, or that has gdnbench's own channel send what it likes.
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

_KEY_BYTES = 32
_HASH_BYTES = 16


def make_key() -> bytes:
    """A key for one worker, random."""
    return os.urandom(_KEY_BYTES)


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


class ForgedMessageError(ValueError):
    """Something else than gdnbench wrote to a worker's channel."""

    def __init__(self) -> None:
        super().__init__("something else than gdnbench wrote to the channel of results")


class Seal:
    """Numbers the lines of one worker and hashes them with its key; its two ends count alike.

    Args:
        key: of the worker.
    """

    def __init__(self, key: bytes) -> None:
        self._keyed = blake2b(key=key, digest_size=_HASH_BYTES)
        self._next = 0

    def add(self, content: bytes) -> bytes:
        """The next line, without its line feed."""
        numbered = b"%d %b" % (self._next, content)
        self._next += 1
        keyed = self._keyed.copy()
        keyed.update(numbered)
        return b"%b %b" % (keyed.hexdigest().encode(), numbered)

    def remove(self, line: bytes) -> bytes:
        """The content of the next line.

        Raises:
            ForgedMessageError: if its hash is not the key's, or its number not the next.
        """
        content = line[2 * _HASH_BYTES + 1 :].partition(b" ")[2]
        if not hmac.compare_digest(line, self.add(content)):
            raise ForgedMessageError
        return content


class Channel(Generic[Message]):
    """The worker's end of the socket to its parent: the one there is, for its first act is to take the key.

    Args:
        descriptor: of the socket, which the parent gives as the worker's last argument.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seal = Seal(os.read(descriptor, _KEY_BYTES))

    def send(self, message: Message) -> None:
        """Writes the message whole."""
        line = self._seal.add(encode(message).encode()) + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]
