"""A Triton source with what its functions do at the settings of one variant: what the rules for Triton read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gdnbench.lint.launch_setting import LaunchSetting
from gdnbench.lint.triton_evaluate import evaluate
from gdnbench.lint.triton_events import EventsAtSetting, TritonEvent
from gdnbench.lint.triton_source import TritonFunction, TritonSource


@dataclass(frozen=True)
class TritonSubject:
    """A source and its launches.

    Attributes:
        source: the file.
        settings: of each function that is launched, where gdnbench knows how.
        label: the kernel's.
    """

    source: TritonSource
    settings: dict[str, tuple[LaunchSetting, ...]]
    label: str

    @cached_property
    def traces(self) -> tuple[EventsAtSetting, ...]:
        """What each function does at each setting; one that the file launches itself is read without any."""
        if self.settings:
            return tuple(
                evaluate(self.source, self.source.functions[name], setting)
                for name, settings in self.settings.items()
                if name in self.source.functions
                for setting in settings
            )
        return tuple(
            evaluate(self.source, function, setting)
            for function in self.source.functions.values()
            for setting in self._own_settings(function)
        )

    def events(self) -> Iterator[tuple[LaunchSetting, TritonEvent]]:
        """Every event with its setting."""
        for trace in self.traces:
            for event in trace.events:
                yield trace.setting, event

    def _own_settings(self, function: TritonFunction) -> Iterator[LaunchSetting]:
        """The constants of each of its `triton.Config`s; else none."""
        configs = function.autotune.configs if function.autotune else ()
        for constants in configs or ({},):
            told = ", ".join(f"{name}={value}" for name, value in constants.items())
            yield LaunchSetting(self.label, at=f"with {told}" if told else "", constants=constants)
