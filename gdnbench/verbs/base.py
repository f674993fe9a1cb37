"""The commands that verbs are: one as `--help` lists it, and one with its options, which it checks."""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from gdnbench.errors import UsageError
from gdnbench.verb_table import TABLE_VERBS, VERBS, VerbRow
from gdnbench.verbs.options import OnOption

if TYPE_CHECKING:
    from gdnbench.mcp.tool import VerbParameter

MARKUP: Literal["markdown"] = "markdown"
VIEW_OPTIONS = ("sort", "columns", "legend", "markdown")


class _LightReader:
    """Reads a parameter as Typer does, but defaults and texts without Pydantic, which takes a tenth of a second."""

    def __init__(self, make_reader: Callable[[], Any]) -> None:
        self._make_reader = make_reader

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns what the verb takes for a default, or for what was typed; raises as Typer does."""
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if kind is str or ctx.get_parameter_source(param.name).name == "DEFAULT":
            return value
        if kind == list[str]:
            return list(value)
        # Whether it may be read is the one thing that paths of verbs are checked for, and Typer words the refusal.
        if kind is Path and (not info.readable or os.access(value, os.R_OK) or not os.path.lexists(value)):
            return Path(value)
        return self._make_reader().coerce(value, param=param, ctx=ctx)


@cache
def _import_help() -> None:
    """Imports Typer's help without Rich's Markdown and tracebacks, which take half of the time of `--help`."""
    from rich.text import Text

    class HelpText(Text):
        """Paragraphs of Markdown with hard line breaks and code, which is all that help texts have."""

        def __init__(self, text: str, style: str = "") -> None:
            super().__init__(style=style)
            paragraphs = (each.replace("  \n", "\0").replace("\n", " ") for each in text.split("\n\n"))
            for place, part in enumerate("\n\n".join(paragraphs).replace("\0", "\n").split("`")):
                self.append(part, style="markdown.code" if place % 2 else "")

    stand_ins: dict[str, dict[str, Any]] = {
        "rich.markdown": {"Markdown": HelpText},
        "rich.traceback": {"Traceback": Text},
    }
    added = stand_ins.keys() - sys.modules.keys()
    for name in added:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(stand_ins[name])
    import_module("typer.rich_utils")
    for name in added:
        del sys.modules[name]


class ReadLightly:
    """Has the parameters of a command, which it comes before, read by `_LightReader`, and its help be light."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help."""
        _import_help()
        super().format_help(ctx, formatter)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters that were declared, and `--help`."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            make_reader = getattr(param, "get_runtime_param", None)  # older ones of Typer have none, and no Pydantic
            if make_reader and not isinstance(make_reader, partial):
                param.get_runtime_param = partial(_LightReader, make_reader)
            if getattr(param, "is_flag", False):
                param.display_type_rich = lambda **_: None  # `<bool>` would ask for a value, and a flag takes none
        return params


class Verb(ReadLightly, TyperCommand):
    """A command that refuses an option given twice; Click would silently use the last.

    One that prints tables has the options of a view, of which its function knows nothing.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        if self.name in TABLE_VERBS:
            place = next(place for place, param in enumerate(self.params) if param.name == "json")
            self.params[place:place] = _params_of(_with_view)

    def invoke(self, ctx: Any) -> Any:
        """Calls the function, whose tables are shown by the view."""
        if self.name not in TABLE_VERBS:
            return self.call(ctx)
        from gdnbench.render.view import TableView, viewed

        given = {name: ctx.params.pop(name) for name in VIEW_OPTIONS}
        columns = (name.strip() for each in given["columns"] or () for name in each.split(","))
        with viewed(TableView(tuple(filter(None, columns)), given["sort"], given["legend"], given["markdown"])):
            return self.call(ctx)

    def call(self, ctx: Any) -> Any:
        """Calls the function with the options that it knows."""
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses arguments; raises UsageError for a repeated option, and for two formats."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(order).items():
                if count > 1 and isinstance(option, TyperOption) and not option.multiple and not option.is_flag:
                    name = max(option.opts, key=len)
                    raise UsageError(f"{name} is given {count} times", f"give {name} once")
        rest = super().parse_args(ctx, args)
        _check_formats(ctx)
        return rest


class _Group(ReadLightly, TyperGroup):
    """A verb that has verbs of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses arguments; raises UsageError for two formats."""
        rest = super().parse_args(ctx, args)
        _check_formats(ctx)
        return rest


def _check_formats(ctx: Any) -> None:
    formats = [f"--{name}" for name in ("json", "csv", "markdown") if ctx.params.get(name)]
    if len(formats) > 1:
        raise UsageError(f"{' and '.join(formats[:2])} are two formats", "ask for one")
    views = [f"--{name}" for name in ("sort", "columns") if ctx.params.get(name)]
    if views and "--json" in formats:
        raise UsageError(f"{views[0]} is for tables and CSV", f"leave {views[0]} or --json out")


def _with_view(
    sort: Annotated[
        str, typer.Option(metavar="COLUMN", help="Sort by a column of the table; -COLUMN for the largest first.")
    ] = "",
    columns: Annotated[
        list[str] | None, typer.Option("--columns", metavar="COLUMN,…", help="Show these columns alone.")
    ] = None,
    legend: Annotated[bool, typer.Option("--legend", help="Explain columns and verdicts below the table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables for a pull request.")] = False,
) -> None:
    """Has the options that every verb with tables has."""


class GpuVerb(Verb):
    """A verb that needs a GPU, here or on a target: it has `--on`, of which its function knows nothing."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        place = next((place for place, param in enumerate(self.params) if param.name == "gpu"), len(self.params) - 1)
        self.params[place + 1 : place + 1] = _params_of(_with_on)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keeps the words: they are what travels."""
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def call(self, ctx: Any) -> Any:
        """Calls the function, here or there."""
        on = ctx.params.pop(ON, "")
        from gdnbench.machine.gpus import names_model

        if on or names_model(ctx.params["gpu"]):
            from gdnbench.verbs.targets import forward

            code = forward(ctx, ctx.meta[_WORDS], on)
            if code is not None:
                raise typer.Exit(code)
        return super().call(ctx)


ON = "on"
_WORDS = "gdnbench.words"


def _with_on(on: OnOption = "") -> None:
    """Has the option that every `GpuVerb` has."""


def _params_of(function: Callable[..., None]) -> list[Any]:
    alone = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
    alone.command()(function)
    return typer.main.get_command(alone).params


class Listed(TyperCommand):
    """A verb as its row of the table has it; its module is imported, and its options are made, when it is called."""

    def __init__(self, row: VerbRow) -> None:
        super().__init__(
            row.name,
            help=row.help,
            rich_markup_mode=MARKUP,
            hidden=not row.panel or " " in row.name,
            rich_help_panel=row.panel,
        )
        self._row = row

    def with_options(self) -> Any:
        """Makes the verb with its options: those of a group, or a function's parameters."""
        module, _, name = (self._row.path or f"{self._row.name}:{self._row.name}").partition(":")
        made = getattr(import_module(f"gdnbench.verbs.{module}"), name)
        if isinstance(made, typer.Typer):
            return typer.main.get_command(made)
        alone = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
        alone.command(self._row.name, cls=GpuVerb if self._row.gpu else Verb)(made)
        return typer.main.get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the verb with its options; Click asks for it when the verb is called or completed."""
        return self.with_options().make_context(info_name, args, parent=parent, **extra)


def parameters_of(verb: str) -> dict[str, VerbParameter]:
    """Returns the parameters of a verb that is a function, by name, as the tools of the MCP server take them."""
    from gdnbench.mcp.tool import VerbParameter

    command = Listed(VERBS[verb]).with_options()
    hints = {
        **get_type_hints(inspect.unwrap(command.callback)),
        **get_type_hints(_with_on),
        **get_type_hints(_with_view),
    }
    return {
        each.name: VerbParameter(
            max(each.opts, key=len) if each.param_type_name == "option" else "",
            each.help or "",
            bool if getattr(each, "is_flag", False) else int if _is_number(hints[each.name]) else str,
            getattr(each, "min", None),
        )
        for each in command.params
    }


def _is_number(hint: Any) -> bool:
    return hint is int or any(map(_is_number, get_args(hint)))


def make_group(name: str, summary: str) -> typer.Typer:
    """A verb that has verbs of its own; without one it prints its help."""
    return typer.Typer(
        name=name, cls=_Group, help=summary, no_args_is_help=True, add_completion=False, rich_markup_mode=MARKUP
    )
