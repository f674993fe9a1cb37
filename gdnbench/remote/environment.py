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
from gdnbench.catalog.catalog import default_roots
from gdnbench.errors import MachineError, UsageError
from gdnbench.process.events import NoteMade, Observer, StepChanged
from gdnbench.remote.archive import files_under, hash_of, pack
from gdnbench.remote.host import Host, LocalHost, SshHost, last_line, run_there, shell
from gdnbench.remote.sandbox import ModalHost, Packages
from gdnbench.remote.targets import ModalTarget, NamedTarget

FOLDER = "sources"
WHOLE = ".whole"
"""The file that says that a tree there is whole."""

_PACKAGE = "gdnbench"

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


@dataclass(frozen=True)
class SourceTree:
    """A tree of sources.

    Attributes:
        folder: where it lies here.
        files: by their path there.
        hash: of its content.
    """

    folder: Path
    files: Mapping[str, Path]
    hash: str


def package_tree() -> SourceTree:
    """This very gdnbench, without its kernels."""
    folder = Path(gdnbench.__file__).resolve().parent
    files = {f"{_PACKAGE}/{name}": path for name, path in files_under(folder).items() if _is_ours(name)}
    return SourceTree(folder, files, hash_of(files))


def _is_ours(name: str) -> bool:
    return not name.startswith("_kernels/")


def kernel_trees() -> list[SourceTree]:
    """The bundled kernels and the user's, in their order.

    Raises:
        UsageError: if a folder is not there, or is too large to send.
    """
    trees = []
    for root in default_roots():
        if not root.is_dir():
            raise UsageError(f"{root} is no folder of kernels", "correct GDNBENCH_KERNELS")
        files = files_under(root)
        trees.append(SourceTree(root, files, hash_of(files)))
    return trees


def put_trees(host: Host, workdir: str, trees: Sequence[SourceTree], there: frozenset[str]) -> None:
    """Sends what is not there yet.

    Args:
        host: where to.
        workdir: the target's, as the host has it.
        trees: what is needed.
        there: hashes of trees that the host has.

    Raises:
        MachineError: if one does not arrive.
    """
    for tree in trees:
        if tree.hash not in there:
            put_files(host, f"{workdir}/{FOLDER}", tree.hash, tree.files)


def put_files(host: Host, folder: str, name: str, files: Mapping[str, Path]) -> None:
    """Sends files into a folder of their own, whole or not at all.

    Raises:
        MachineError: if they do not arrive.
    """
    with tempfile.TemporaryFile() as stream:
        pack(files, stream)
        stream.seek(0)
        done = run_there(host, shell(_PUT, folder, name, str(len(files))), stream)
    if done.returncode:
        raise MachineError(
            f"{name} could not be sent to {host.name}: {last_line(done.errors)}", f"look at {folder} there"
        )


EXTRAS = ("cupti", "fla", "plot")
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
class Prepared:
    """A target that is ready for a job.

    Attributes:
        host: where it is.
        workdir: its folder there, absolute.
        python: the interpreter there.
        package: the folder there that holds gdnbench.
        roots: the folders of kernels there.
    """

    host: Host
    workdir: str
    python: str
    package: str
    roots: tuple[str, ...]


def open_host(named: NamedTarget) -> Host:
    """The host that a target is reached through; the caller closes it.

    Raises:
        MachineError: if there is no `ssh` here, or no client of Modal's.
    """
    target = named.target
    if isinstance(target, ModalTarget):
        wanted = Requirements("", "") if target.python else requirements()
        return ModalHost(target, Packages(wanted.packages.splitlines(), wanted.constraints))
    return SshHost(named.ssh_host) if named.ssh_host else LocalHost()


def prepare(named: NamedTarget, host: Host, observer: Observer) -> Prepared:
    """Connects, and sends and makes what is not there yet.

    Raises:
        MachineError: if the target cannot be reached or made ready.
        UsageError: if a folder of kernels is not there, or is too large to send.
    """
    if isinstance(named.target, ModalTarget):
        observer(NoteMade("starting a sandbox; Modal makes its image once: torch and its libraries, some gigabytes"))
    observer(StepChanged(f"connecting to {host.name}"))
    package, kernels = package_tree(), kernel_trees()
    trees = [package, *kernels]
    wanted = requirements()
    workdir, has_environment, there = _probe(named, host, wanted.hash, trees)
    observer(StepChanged(f"sending sources to {host.name}"))
    put_trees(host, workdir, trees, there)
    python = named.target.python or host.python
    if not python:
        python = f"{workdir}/env/{wanted.hash}/bin/python"
        if not has_environment:
            _make(named, host, workdir, wanted, observer)
    roots = tuple(f"{workdir}/{FOLDER}/{tree.hash}" for tree in kernels)
    return Prepared(host, workdir, python, f"{workdir}/{FOLDER}/{package.hash}", roots)


def _probe(
    named: NamedTarget, host: Host, environment: str, trees: Sequence[SourceTree]
) -> tuple[str, bool, frozenset[str]]:
    """Its folder, whether it has the environment, and the sources that it has."""
    hashes = dict.fromkeys(tree.hash for tree in trees)
    done = host.connect(shell(_PROBE, named.target.workdir, environment, *hashes))
    # A login shell may print a greeting first.
    lines = [line.partition(" ") for line in done.output.splitlines()]
    workdirs = [value for key, _, value in lines if key == "workdir"]
    if done.returncode or not workdirs:
        raise MachineError(
            f"{named.name} has no folder {named.target.workdir}: {last_line(done.errors)}",
            f"correct `workdir` in {named.file}",
        )
    has_environment = any(key == "env" for key, _, _ in lines)
    return workdirs[-1], has_environment, frozenset(value for key, _, value in lines if key == "has")


@dataclass(frozen=True)
class Requirements:
    """What an environment there is made of.

    Attributes:
        packages: a requirement a line, as pip takes it.
        constraints: pins, likewise.
    """

    packages: str
    constraints: str

    @property
    def hash(self) -> str:
        """Of both, shortened."""
        return hashlib.sha256(f"{self.packages}\0{self.constraints}".encode()).hexdigest()[:24]


def requirements() -> Requirements:
    """What this gdnbench needs, by its checkout's `pyproject.toml` and `constraints.txt`, else as it was installed."""
    checkout = Path(gdnbench.__file__).resolve().parents[1]
    project = checkout / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        chosen = [table["dependencies"], *(table["optional-dependencies"][extra] for extra in EXTRAS)]
        constraints = checkout / "constraints.txt"
        pins = constraints.read_text(encoding="utf-8") if constraints.is_file() else ""
        return Requirements("".join(f"{line}\n" for lines in chosen for line in lines), pins)
    return Requirements("".join(f"{line}\n" for line in _installed()), "")


def _installed() -> list[str]:
    try:
        declared = requires("gdnbench") or []
    except PackageNotFoundError as error:
        raise MachineError("gdnbench is not installed: its requirements are not known", "name `python`") from error
    extra = re.compile(r"""\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]\s*\Z""")
    kept = []
    for line in declared:
        found = extra.search(line)
        if not found or found["extra"] in EXTRAS:
            kept.append(extra.sub("", line))
    return kept


def _make(named: NamedTarget, host: Host, workdir: str, wanted: Requirements, observer: Observer) -> None:
    observer(NoteMade(f"making an environment on {named.name}, once: torch and its libraries, some gigabytes"))
    observer(StepChanged(f"making an environment on {host.name}"))
    done = run_there(host, shell(_MAKE, workdir, wanted.hash, wanted.packages, wanted.constraints))
    if done.returncode:
        raise MachineError(
            f"no environment could be made on {named.name}: {last_line(done.errors or done.output)}",
            f"name an interpreter that has gdnbench's requirements: python = in {named.file}",
        )
