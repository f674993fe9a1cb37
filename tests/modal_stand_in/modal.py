"""A stand-in for Modal's client: a sandbox is a folder, and its programs are processes here."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace


def _place():
    return Path(os.environ["MODAL_STAND_IN"])


class App:
    @staticmethod
    def lookup(name, *, create_if_missing):
        return f"{name} {create_if_missing}"


class Image:
    """Keeps how it is made; a file is read only when a sandbox is, as the client does."""

    def __init__(self, *steps):
        self.steps = steps

    debian_slim = staticmethod(lambda **given: Image(["debian_slim", given]))
    from_registry = staticmethod(lambda tag, **given: Image(["from_registry", tag, given]))

    def pip_install(self, *packages, **given):
        return Image(*self.steps, ["pip_install", packages, given])

    def add_local_file(self, path, there, **given):
        return Image(*self.steps, lambda: ["add_local_file", path.read_text(), there, given])


class Sandbox:
    def __init__(self, folder):
        self.object_id = str(folder)
        self._folder = Path(folder)

    @staticmethod
    def create(*, app, image, **given):
        if (_place() / "refuse").exists():
            raise ConnectionError("no token\nsecond line")
        folder = Path(tempfile.mkdtemp(prefix="sb-", dir=_place()))
        steps = [step() if callable(step) else step for step in image.steps]
        (folder / "made").write_text(json.dumps({"app": app, "image": steps, **given}))
        return Sandbox(folder)

    @staticmethod
    def from_id(sandbox):
        return Sandbox(sandbox)

    def exec(self, *argv, text):
        assert not text
        process = subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        )
        with (self._folder / "pids").open("a") as file:
            print(process.pid, file=file)
        waiting = bytearray()

        def drain():
            process.stdin.write(bytes(waiting))
            waiting.clear()
            if stdin.is_at_end:
                process.stdin.close()

        stdin = SimpleNamespace(write=waiting.extend, drain=drain, is_at_end=False)
        stdin.write_eof = lambda: setattr(stdin, "is_at_end", True)
        chunks = [iter(lambda pipe=pipe: pipe.read(1 << 16), b"") for pipe in (process.stdout, process.stderr)]
        return SimpleNamespace(stdin=stdin, stdout=chunks[0], stderr=chunks[1], wait=process.wait)

    def terminate(self):
        if (_place() / "keep").exists():
            raise ConnectionError("no network")
        for pid in (self._folder / "pids").read_text().split() if (self._folder / "pids").exists() else ():
            with suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)
        (self._folder / "terminated").touch()
