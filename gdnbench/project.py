"""The project that a command is typed in: its own kernels, and its `gdnbench.toml`.

Kernels are those of the nearest folder, from the working folder upwards to the root of its repository, that says where
they are, or that has some in `kernels/`:

```toml
[kernels]
paths = ["kernels", "../shared"]      # relative to this file
```

Their declarations are code that runs, so a folder above the working folder that everybody may write is passed over.
"""

from __future__ import annotations

import os
import stat
import tomllib
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gdnbench.codec import SchemaError, convert
from gdnbench.errors import LeftOutWarning, MachineError, UsageError
from gdnbench.origin import SOURCE_HASHES, bundled_kernels, command_origin, is_file

CONFIG = "gdnbench.toml"
MOST_BYTES = 1 << 20
_KERNELS = "kernels"  # the table in the file, and the folder where no file says another
_TABLES = ("targets", _KERNELS)


class _Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    paths: list[Annotated[str, msgspec.Meta(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*\Z")]]


@dataclass(frozen=True)
class Project:
    """The folders of kernels of a project, `roots`, and what names them: a key of a file, or nothing."""

    roots: tuple[Path, ...]
    named_by: str = ""


def find_project() -> Project | None:
    """Returns the project of the working folder; None without one, and for a job, whose kernels came with it.

    The bundled kernels are no project's. Raises UsageError, with file and key, for a `[kernels]` that does not fit, and
    as `read_config`.
    """
    if command_origin():
        return None
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return None
    for folder in (here, *here.parents):
        if (folder == here or not _is_everybodys(folder)) and (project := _project_in(folder)):
            return project if project.roots else None
        if os.path.lexists(folder / ".git"):
            break
    return None


def _project_in(folder: Path) -> Project | None:
    config, kernels = folder / CONFIG, folder / _KERNELS
    if is_file(config) and _KERNELS in (document := read_config(config)):
        try:
            paths = convert(document[_KERNELS], _Kernels).paths
        except SchemaError as error:
            raise UsageError(f"{config}: {_KERNELS}: {error}", 'write paths = ["kernels"] below [kernels]') from error
        roots = dict.fromkeys(Path(os.path.realpath(folder / path)) for path in paths)  # `resolve` fails for loops
        own = tuple(root for root in roots if root != bundled_kernels())
        return Project(own, f"paths of [{_KERNELS}] in {config}")
    if not _holds_kernels(kernels):
        return None
    if not is_file(kernels / SOURCE_HASHES):
        return Project((kernels.resolve(),))
    if kernels.resolve() != bundled_kernels():
        warnings.warn(f"{kernels} is of another gdnbench than this one, and is left out", LeftOutWarning, stacklevel=2)
    return Project(())


def _holds_kernels(folder: Path) -> bool:
    with suppress(OSError):
        return any(any(folder.glob(pattern)) for pattern in ("*/op.py", "*/*/variant.py"))
    return False


def _is_everybodys(folder: Path) -> bool:
    with suppress(OSError):
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    return True


def read_config(path: Path) -> dict[str, Any]:
    """Reads a `gdnbench.toml`; empty without the file.

    Raises UsageError, with the file, if it is no TOML or has an unknown key; MachineError if it cannot be read.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror or error}", "check its owner") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}", "mend the file") from error
    if unknown := document.keys() - set(_TABLES):
        raise UsageError(f"{path}: {min(unknown)}: there is no such key", f"there are {' and '.join(_TABLES)}")
    return document
