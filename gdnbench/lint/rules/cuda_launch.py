"""C7: a launch that CUDA refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from gdnbench.codegen.ahead import Job, build_all
from gdnbench.codegen.arch import LaunchRequest
from gdnbench.errors import GdnbenchError
from gdnbench.lint.cuda_subject import CudaSubject, KernelHead, find_heads, numbers_of, place_of
from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import LaunchSetting, first_refused


def _check(subject: CudaSubject) -> Iterator[tuple[SourcePlace, str]]:
    for entry, settings in subject.settings.items():
        heads = list(find_heads(subject.source, entry))
        # `#if` chooses one of several heads; which one is unknown here.
        head = heads[0] if len(heads) == 1 else None
        if told := first_refused(settings, partial(_refusal, subject, entry, head)):
            yield heads[0].place if heads else place_of(subject.source, 0), told


def _refusal(
    subject: CudaSubject, entry: str, head: KernelHead | None, setting: LaunchSetting, request: LaunchRequest, arch: str
) -> str:
    """Returns the reason for which the launch would be refused as declared, or by the function's head once compiled."""
    if (why := request.refusal(arch)) or head is None:
        return why
    suspect = _with_attributes(subject, head, setting, request)
    if suspect == request or not suspect.refusal(arch) or setting.workload is None or setting.params is None:
        return ""
    variant = replace(subject.variant, params=setting.params)
    job = Job(subject.entry, variant, setting.workload, arch, entry, disassembled=False)
    built = build_all([job])[job]
    return "" if isinstance(built, GdnbenchError) else request.compiled_to(built).refusal(arch)


def _with_attributes(
    subject: CudaSubject, head: KernelHead, setting: LaunchSetting, request: LaunchRequest
) -> LaunchRequest:
    """Returns the launch with the block and cluster limits of the function's head, if they are numbers."""
    bounds, clustered = head.attribute("__launch_bounds__"), head.attribute("__cluster_dims__")
    if bounds and (most := numbers_of(subject, bounds[1], setting)[0]):
        request = replace(request, most_threads=most)
    if clustered:
        x, y, z = (*numbers_of(subject, clustered[1], setting), 1, 1)[:3]
        if x and y and z:
            request = replace(request, cluster=(x, y, z))
    return request


CUDA_LAUNCH = LintRule(
    code="C7",
    name="refused-launch",
    language="cuda",
    bug="a launch at a workload of the op has a grid, block, cluster or shared memory that CUDA refuses",
    remedy="stay within the limit, or name the workloads that the kernel can do by `check` in variant.py",
    check=_check,
)
