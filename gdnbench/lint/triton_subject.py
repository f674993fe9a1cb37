"""A Triton source with its functions' events at the settings of one variant: the input of the rules for Triton."""

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
    """A source, and the settings of each function that gdnbench launches."""

    source: TritonSource
    settings: dict[str, tuple[LaunchSetting, ...]]
    label: str

    @cached_property
    def traces(self) -> tuple[EventsAtSetting, ...]:
        """The events of each function at each setting; functions that the file launches itself are read without any."""
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
        """Yields every event with its setting."""
        for trace in self.traces:
            for event in trace.events:
                yield trace.setting, event

    def _own_settings(self, function: TritonFunction) -> Iterator[LaunchSetting]:
        """Yields a setting for the constants of each `triton.Config`, or one without constants."""
        configs = function.autotune.configs if function.autotune else ()
        for constants in configs or ({},):
            told = ", ".join(f"{name}={value}" for name, value in constants.items())
            yield LaunchSetting(self.label, at=f"with {told}" if told else "", constants=constants)
