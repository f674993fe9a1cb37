"""What every verb does alike: it takes each option once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from typer import Context
from typer.core import TyperCommand, TyperOption

from gdnbench.errors import UsageError


class Verb(TyperCommand):
    """A command that refuses an option given twice, of which all but the last would be dropped in silence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command, but for repeated options."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(order).items():
                if count > 1 and isinstance(option, TyperOption) and not option.multiple and not option.is_flag:
                    name = max(option.opts, key=len)
                    raise UsageError(f"{name} is given {count} times, and is one", f"give {name} once")
        rest = super().parse_args(ctx, args)
        if ctx.params.get("json") and ctx.params.get("csv"):
            raise UsageError("--json and --csv are two formats", "ask for one")
        return rest


def refuse_beside(ctx: Context, name: str, allowed: Collection[str], why: str) -> None:
    """Refuses what a user gave beside an option that leaves no room for it.

    Args:
        ctx: the command's.
        name: the parameter of that option.
        allowed: the parameters that may stand beside it.
        why: why others may not.

    Raises:
        UsageError: naming the first that may not.
    """
    for param in ctx.command.params:
        given = param.name and ctx.get_parameter_source(param.name)
        if given and given.name == "COMMANDLINE" and param.name not in allowed:
            told = max(param.opts, key=len) if param.param_type_name == "option" else f"a {param.name}"
            raise UsageError(f"--{name} takes no {told} beside it: {why}", f"leave {told} out, or start a new run")
