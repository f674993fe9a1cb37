"""Control characters in stored text: an escape sequence in a run's label must not move anybody's cursor."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment

_C0 = {*range(0x20), 0x7F} - {ord("\n"), ord("\t")}
_C1 = set(range(0x80, 0xA0))
_BIDIRECTIONAL = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # they reorder what stands beside them
_DROPPED = dict.fromkeys(_C0 | _C1 | _BIDIRECTIONAL)


def without_controls(text: str) -> str:
    """The text without characters that a terminal obeys, which take no column; line feeds and tabs stay."""
    return text.translate(_DROPPED)


class DropControls(RenderHook):
    """Takes control characters out of all that a console prints, but for the console's own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Each of them, cleaned where it is rendered."""
        return [_Cleaned(renderable) for renderable in renderables]


class _Cleaned:
    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self._renderable, options):
            yield Segment(text if control else without_controls(text), style, control)
