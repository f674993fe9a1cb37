"""A chart as a picture file: refused before the work begins, or written whole."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.errors import MachineError
from gdnbench.report.output_file import check_output_file, write_output_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
DPI = 160


def check_picture(path: Path, option: str = "--plot") -> None:
    """Refuses what could not be drawn, before anything is measured for it.

    Args:
        path: where to draw.
        option: what the file was named with.

    Raises:
        UsageError: for a format that is not known, a folder that does not exist, or what is no regular file.
        MachineError: for a folder or a file that cannot be written, or without the library that draws.
    """
    check_output_file(path, option, FORMATS, "chart.png")
    if find_spec("matplotlib") is None:
        raise MachineError(f"{option} needs matplotlib", "pip install 'gdnbench[plot]'")


def save_picture(picture: Figure, path: Path) -> None:
    """Writes a picture in the format that its name ends in.

    Raises:
        MachineError: if the file cannot be written.
    """
    content = io.BytesIO()
    picture.savefig(content, format=path.suffix[1:].lower(), dpi=DPI, bbox_inches="tight")
    write_output_file(path, content.getvalue())
