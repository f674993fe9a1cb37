"""The commands that verbs are: one as `--help` lists it, and one with its options, which it checks."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import typer
from typer.core import TyperCommand, TyperOption

from gdnbench.errors import UsageError

MARKUP: Literal["markdown"] = "markdown"


class Verb(TyperCommand):
    """A command that refuses an option given twice; Click would silently use the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses arguments; raises UsageError for a repeated option, and for --json with --csv."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(order).items():
                if count > 1 and isinstance(option, TyperOption) and not option.multiple and not option.is_flag:
                    name = max(option.opts, key=len)
                    raise UsageError(f"{name} is given {count} times", f"give {name} once")
        rest = super().parse_args(ctx, args)
        if ctx.params.get("json") and ctx.params.get("csv"):
            raise UsageError("--json and --csv are two formats", "ask for one")
        return rest


class Listed(TyperCommand):
    """A verb's name and help; its options are made when it is called.

    To make those of all verbs takes 80 ms, which `--help` and each verb would have to wait for.

    Args:
        name: the verb.
        told: its help.
        make: gives the verb with its options.
    """

    def __init__(self, name: str, told: str, make: Callable[[], Any]) -> None:
        super().__init__(name, help=told, rich_markup_mode=MARKUP)
        self.with_options = make

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the verb with its options; Click asks for it when the verb is called or completed."""
        return self.with_options().make_context(info_name, args, parent=parent, **extra)


def listed_verb(function: Callable[..., None], name: str = "") -> Listed:
    """A verb whose help is the function's docstring, and whose options are its parameters.

    Args:
        function: is called with the options.
        name: the function's by default.
    """
    called = name or function.__name__

    def make() -> Any:
        alone = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
        alone.command(called, cls=Verb)(function)
        return typer.main.get_command(alone)

    return Listed(called, inspect.getdoc(function) or "", make)


def make_group(name: str, told: str) -> typer.Typer:
    """A verb that has verbs of its own, and may be called without one.

    Args:
        name: the verb.
        told: its help.
    """
    return typer.Typer(name=name, help=told, invoke_without_command=True, add_completion=False, rich_markup_mode=MARKUP)


def listed_group(group: typer.Typer) -> Listed:
    """A verb that has verbs of its own; Typer knows its name and help."""
    return Listed(group.info.name or "", group.info.help or "", partial(typer.main.get_command, group))
