"""Compile-time constants of a kernel: their declaration and their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gdnbench.errors import DeclarationError, ParamError

ParamValue = int | str


@dataclass(frozen=True)
class Param:
    """A compile-time constant that a user may set.

    `default` is one of `choices`, every value that the kernel supports, else DeclarationError is raised; `doc`
    describes it in a few words.
    """

    default: ParamValue
    choices: tuple[ParamValue, ...]
    doc: str = ""

    def __post_init__(self) -> None:
        if self.default not in self.choices:
            raise DeclarationError(f"default {self.default!r} is not among the choices {self.choices}")

    def parse(self, name: str, value: ParamValue) -> ParamValue:
        """The choice that `value`, perhaps text from a command line, stands for; ParamError if there is none."""
        for choice in self.choices:
            if str(choice) == str(value):
                return choice
        allowed = ", ".join(map(str, self.choices))
        raise ParamError(f"{name}={value} is not a value of {name}", f"it takes {allowed}")


class Params(Mapping[str, ParamValue]):
    """The values of a kernel's params, read as `p.WARPS` or `p["WARPS"]`; immutable and hashable."""

    _values: dict[str, ParamValue]

    def __init__(self, values: Mapping[str, ParamValue] | None = None) -> None:
        self.__dict__["_values"] = dict(values or {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: params do not change")

    def __getitem__(self, name: str) -> ParamValue:
        return self._values[name]

    def __getattr__(self, name: str) -> int:
        # Typed as int, since grids and blocks compute with it; a text-valued param is only compared.
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no param {name}; there are {sorted(self.__dict__.get('_values', ()))}")
        return self._values[name]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __repr__(self) -> str:
        return f"Params({self})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._values.items())
