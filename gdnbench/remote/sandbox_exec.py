"""Runs a program in a sandbox of Modal's, as `ssh` runs one on a host: `python -m ... SANDBOX PROGRAM [ARGUMENT]...`.

This process's stdin, stdout and stderr are the program's, and so is its exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread
from typing import Any

FAILED = 255
"""Of the exit codes: the connection failed, not the program."""

_CHUNK = 1 << 20
"""Bytes that are sent at once; the client's buffer holds 2 MiB, and each sending waits for an answer."""

_MOST = 254


def main(sandbox: str, argv: list[str]) -> int:
    """Runs a program in the sandbox of this id; returns its exit code, or `FAILED` with the reason on stderr."""
    import modal

    try:
        process = modal.Sandbox.from_id(sandbox).exec(*argv, text=False)
        Thread(target=_send, args=(process.stdin,), daemon=True).start()
        readers = [Thread(target=_pass_on, args=each) for each in ((process.stdout, 1), (process.stderr, 2))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        code = int(process.wait())
    except Exception as error:  # of Modal's own classes, of gRPC's and of sockets
        return _failed(_reason(error))
    return code if 0 <= code <= _MOST else _failed(f"the program ended with exit code {code}")


def _send(stdin: Any) -> None:
    """Passes on stdin and its end; a program that reads no more has ended, which its exit code shows."""
    with suppress(Exception):
        while content := os.read(0, _CHUNK):
            stdin.write(content)
            stdin.drain()
        stdin.write_eof()
        stdin.drain()


def _pass_on(chunks: Iterable[bytes], descriptor: int) -> None:
    try:
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
    except Exception as error:  # a sandbox that was terminated, or nobody reads any more
        _failed(_reason(error))
        os._exit(FAILED)  # what is missing must not pass for the end of a stream


def _reason(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def _failed(reason: str) -> int:
    with suppress(OSError):
        os.write(2, f"{reason}\n".encode())
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
