"""Finds launches that CUDA would refuse as declared, for C7 and T9."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gdnbench.codegen.launch_limits import LaunchRequest
from gdnbench.lint.launch_setting import LaunchSetting, at_words

OnArch = Callable[[LaunchSetting, LaunchRequest, str], str]


def _refusal(_setting: LaunchSetting, request: LaunchRequest, arch: str) -> str:
    return request.refusal(arch)


def first_refused(settings: Iterable[LaunchSetting], refusal: OnArch = _refusal) -> str:
    """Describes the first launch that one of its architectures refuses, by `refusal`; empty if there is none."""
    for setting in settings:
        for arch in setting.archs if setting.request else ():
            if setting.request and (why := refusal(setting, setting.request, arch)):
                return f"{why},{at_words(setting)}" if setting.at else why
    return ""
