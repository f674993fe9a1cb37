"""Reads arrays out of an `.npz` file, each as large as the file says it is, and none of them pickled.

`numpy.load` believes a header: one that declares a terabyte allocates it.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdnbench.profilers import files

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_arrays(content: bytes, names: Sequence[str]) -> list[npt.NDArray[Any]]:
    """The arrays of these names.

    Raises:
        ValueError: naming the array that is missing, damaged, pickled or of another size than it declares.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [_member(archive, name) for name in names]
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is no .npz, or damaged: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError as error:
        raise ValueError(f"it lacks {name}") from error
    if member.file_size > files.MOST_BYTES:
        raise ValueError(f"{name} declares {member.file_size} bytes")
    try:
        return _array(archive.read(member))
    except Exception as error:  # whatever zipfile and NumPy make of a damaged member, and a pickled one
        raise ValueError(f"{name}: {error}") from error


def _array(content: bytes) -> npt.NDArray[Any]:
    stream = io.BytesIO(content)
    shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
    held = len(content) - stream.tell()
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != held:
        raise ValueError(f"it declares {shape} of {dtype}, and holds {held} bytes")
    stream.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array
