"""What a target needs before its first job: folders, an interpreter, and the sources by their hash."""

from __future__ import annotations

import hashlib
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import gdnbench
from gdnbench.catalog.catalog import default_roots, place_named
from gdnbench.errors import MachineError, UsageError
from gdnbench.process.events import NoteMade, Observer, StepChanged
from gdnbench.remote.host import Host, SshHost, last_line, shell
from gdnbench.remote.targets import NamedTarget
from gdnbench.remote.transfer import files_under, hash_of, pack

FOLDER = "sources"
WHOLE = ".whole"
"""The file that says that a tree there is whole."""

_PUT = f"""
set -eu
cd "$1"
new="$2.new.$$"
trap 'rm -rf "$new"' EXIT
mkdir "$new"
tar -xzf - -C "$new"
arrived="$(find "$new" -type f -print0 | tr -dc '\\000' | wc -c)"
if test "$arrived" -ne "$3"; then echo 'not every file arrived' >&2; exit 1; fi
touch "$new/{WHOLE}"
mv -T "$new" "$2" 2>/dev/null || test -e "$2/{WHOLE}"
"""
"""Puts a tree from stdin into folder $1 under the name $2, in one step; of two that do so at once one does."""


def _trees(roots: Sequence[Path]) -> list[dict[str, Path]]:
    """The files of gdnbench, without a wheel's kernels, then of each folder of kernels; UsageError if missing."""
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder of kernels", f"correct {place_named(root)}")
    files = files_under(Path(gdnbench.__file__).resolve().parent)
    own = {f"gdnbench/{name}": path for name, path in files.items() if not name.startswith("_kernels/")}
    return [own, *map(files_under, roots)]


def put_files(host: Host, folder: str, name: str, files: Mapping[str, Path]) -> None:
    """Sends files into a folder of their own, whole or not at all; raises MachineError if they do not arrive."""
    with tempfile.TemporaryFile() as stream:
        pack(files, stream)
        stream.seek(0)
        done = host.run(shell(_PUT, folder, name, str(len(files))), stream)
    if done.returncode:
        message = f"{name} could not be sent to {host.name}: {last_line(done.errors)}"
        raise MachineError(message, f"look at {folder} there")


EXTRAS = ("fla",)
"""What an environment there has beside gdnbench's own requirements."""

_PROBE = f"""
set -eu
case "$1" in '~/'*) workdir="$HOME/${{1#??}}";; *) workdir="$1";; esac
mkdir -p "$workdir/{FOLDER}" "$workdir/env" "$workdir/jobs"
cd "$workdir"
printf 'workdir %s\\n' "$(pwd -P)"
shift
if test -e "env/$1/{WHOLE}"; then printf 'env %s\\n' "$1"; fi
shift
for hash in "$@"; do
  if test -e "{FOLDER}/$hash/{WHOLE}"; then printf 'has %s\\n' "$hash"; touch "{FOLDER}/$hash/{WHOLE}"; fi
done
"""
"""Makes the folders; prints where they are, and which sources and environment are there."""

_MAKE = f"""
set -eu
cd "$1/env"
PATH="$PATH:$HOME/.local/bin:$HOME/.cargo/bin"
if ! command -v flock >/dev/null; then
  echo 'there is no flock (util-linux): name an interpreter by python = in gdnbench.toml' >&2; exit 1
fi
exec 9>"$2.lock"
flock 9
if test -e "$2/{WHOLE}"; then exit 0; fi
rm -rf "$2"
printf '%s' "$3" > "$2.requirements"
printf '%s' "$4" > "$2.constraints"
if command -v uv >/dev/null; then
  uv venv --quiet --python '>=3.11' "$2"
  uv pip install --quiet --python "$2/bin/python" -r "$2.requirements" -c "$2.constraints"
else
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo 'neither uv nor Python 3.11 is there: install uv, or name an interpreter by python =' >&2; exit 1
  fi
  python3 -m venv "$2"
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check -r "$2.requirements" -c "$2.constraints"
fi
touch "$2/{WHOLE}"
"""
"""Makes environment $2 in folder $1 from requirements $3 and constraints $4; of several at once one does."""


@dataclass(frozen=True)
class Requirements:
    """What an environment is made of, as pip takes it: requirements, and the text of a file of pins."""

    packages: tuple[str, ...] = ()
    constraints: str = ""


@dataclass(frozen=True)
class Prepared:
    """A target that is ready for a job: its host, and there its folder, interpreter, gdnbench and roots of kernels."""

    host: Host
    workdir: str
    python: str
    package: str
    roots: tuple[str, ...]


def open_host(named: NamedTarget) -> Host:
    """Returns a target's host, which the caller closes; MachineError without `ssh`."""
    return SshHost(named.ssh_host) if named.ssh_host else Host()


def prepare(named: NamedTarget, host: Host, observer: Observer, roots: Sequence[Path] = ()) -> Prepared:
    """Connects, and makes what does not exist there; MachineError, or UsageError for a folder that is unfit.

    `roots` are the folders of kernels to send, by default those that commands here find.
    """
    observer(StepChanged(f"connecting to {host.name}"))
    trees = {hash_of(files): files for files in _trees(roots or default_roots())}
    wanted = requirements()
    environment = hashlib.sha256(repr(wanted).encode()).hexdigest()[:24]
    done = host.connect(shell(_PROBE, named.target.workdir, environment, *trees))
    # A login shell may print a greeting first.
    words = [line.partition(" ")[::2] for line in done.output.splitlines()]
    workdirs = [value for key, value in words if key == "workdir"]
    if done.returncode or not workdirs:
        message = f"{named.name} has no folder {named.target.workdir}: {last_line(done.errors)}"
        raise MachineError(message, f"correct `workdir` in {named.file}")
    workdir = workdirs[-1]
    observer(StepChanged(f"sending sources to {host.name}"))
    for name, files in trees.items():
        if ("has", name) not in words:
            put_files(host, f"{workdir}/{FOLDER}", name, files)
    python = named.target.python or host.python
    if not python:
        python = f"{workdir}/env/{environment}/bin/python"
        if ("env", environment) not in words:
            _make(named, host, workdir, environment, wanted, observer)
    package, *sent = (f"{workdir}/{FOLDER}/{name}" for name in trees)
    return Prepared(host, workdir, python, package, tuple(sent))


def requirements() -> Requirements:
    """Returns what this gdnbench needs, by its checkout's `pyproject.toml` and `constraints.txt`, else as installed."""
    checkout = Path(gdnbench.__file__).resolve().parents[1]
    project = checkout / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        chosen = [table["dependencies"], *(table["optional-dependencies"][extra] for extra in EXTRAS)]
        constraints = checkout / "constraints.txt"
        pins = constraints.read_text(encoding="utf-8") if constraints.is_file() else ""
        return Requirements(tuple(line for lines in chosen for line in lines), pins)
    return Requirements(tuple(_installed()))


def _installed() -> list[str]:
    try:
        declared = requires("gdnbench") or []
    except PackageNotFoundError as error:
        raise MachineError("gdnbench is not installed: its requirements are not known", "name `python`") from error
    extra = re.compile(r"""\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]\s*\Z""")
    extras = [(line, extra.search(line)) for line in declared]
    return [extra.sub("", line) for line, match in extras if not match or match["extra"] in EXTRAS]


def _make(named: NamedTarget, host: Host, workdir: str, name: str, wanted: Requirements, observer: Observer) -> None:
    observer(NoteMade(f"making an environment on {named.name}, once: torch and its libraries, some gigabytes"))
    observer(StepChanged(f"making an environment on {host.name}"))
    packages = "".join(f"{line}\n" for line in wanted.packages)
    done = host.run(shell(_MAKE, workdir, name, packages, wanted.constraints))
    if done.returncode:
        message = f"no environment could be made on {named.name}: {last_line(done.errors or done.output)}"
        raise MachineError(message, f"name an interpreter that has gdnbench's requirements: python = in {named.file}")
