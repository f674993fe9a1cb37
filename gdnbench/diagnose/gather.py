"""Brings together what is known of a kernel: stored counters, stored times, and the compiler's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.bench.observer import Observer
from gdnbench.bench.request import find_op, parse_shapes
from gdnbench.catalog import Catalog, find_variant
from gdnbench.diagnose.counters import find_newest, read_file
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.measured import last_measured
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.archs import DEFAULT_ARCHS, device_of
from gdnbench.inspection.examine import Failure, examine
from gdnbench.inspection.subject import Subject
from gdnbench.machine import list_gpus, select_gpu
from gdnbench.model import Gpu, Shape, TorchKernel, Variant, gpu_slug
from gdnbench.profilers.ncu.profile import Profile


@dataclass(frozen=True)
class Question:
    """What a user asked to be explained.

    Attributes:
        label: the kernel's label, params after colons.
        op: the op.
        axes: `B=1`; empty for the op's default, or what the file is of.
        heads: `qk4_v8`; likewise.
        gpu: `auto`, or a GPU by whatever `--gpu` takes; a model need not be here, for nothing is launched.
        file: a report to read instead of stored profiles.
        profiles: the folder of stored profiles.
        results: the folder of runs.
    """

    label: str
    op: str
    axes: str
    heads: str
    gpu: str
    file: Path | None
    profiles: Path
    results: Path


def gather(catalog: Catalog, question: Question, observer: Observer) -> Evidence:
    """All that is known to answer a question.

    Raises:
        UnknownNameError: for a kernel or an op that does not exist.
        UsageError: for several shapes, a file about something else, or a kernel of which nothing is known.
        ProfilerError: for a report that cannot be read.
        BuildError: if the kernel does not build, and nothing else is known of it.
    """
    op = find_op(catalog, question.op)
    _, named = find_variant(catalog, op.name, question.label)
    shapes = parse_shapes(op, question.axes, question.heads)
    if len(shapes) > 1:
        raise UsageError(f"{len(shapes)} shapes are given, and one is explained", "as in --shape B=1")
    gpus = list_gpus()
    slug, shape = _slug(question.gpu, gpus), shapes[0]
    entry, asked = catalog.behind(named, shape, slug or "")
    if question.file:
        counters = read_file(question.file, entry, asked)
    else:
        counters = find_newest(question.profiles, entry, asked, shape, slug)
    profile = counters.profile
    if profile and question.file:
        shape = _agreed(profile, shape, question)
    slug = gpu_slug(profile.gpu) if profile else slug
    entry, variant = catalog.behind(named, shape, slug or "")
    measured = last_measured(question.results, catalog.entries, variant, shape, slug)
    built = None
    if not isinstance(entry.kernel, TorchKernel):
        built = _build(
            Subject(asked.label, entry, variant, shape), slug or (measured.gpu if measured else ""), gpus, observer
        )
    if isinstance(built, Failure) and not (profile or measured):
        raise built.error
    if not (profile or measured or built):
        raise _nothing(asked, shape)
    code = built if isinstance(built, Anatomy) else None
    anatomy, order = (None if profile else code), (code.order if code else None)
    return Evidence(
        catalog,
        entry,
        variant,
        shape,
        profile,
        counters.path,
        anatomy,
        order,
        measured,
        profile_code=counters.code,
        warnings=counters.warnings,
    )


def _slug(gpu: str, gpus: Sequence[Gpu]) -> str | None:
    """The GPU's short name; None for any, where none is here."""
    word = gpu.strip().lower()
    if word == "cpu":
        raise UsageError("--gpu cpu: what is explained runs on a GPU", "name one, as in --gpu h200")
    if word == "auto" or word.isdecimal() or word.startswith("gpu-"):
        chosen = select_gpu(gpu, gpus)
        return chosen.slug if chosen else None
    return gpu_slug(gpu)


def _agreed(profile: Profile, shape: Shape, question: Question) -> Shape:
    """The shape that a file is about; what the user gives tells it where the file does not."""
    asked = bool(question.axes or question.heads)
    if profile.shape is None:
        return shape
    if asked and profile.shape != shape:
        raise UsageError(f"{question.file} is about {profile.shape}, not {shape}", "leave --shape and --heads away")
    return profile.shape


def _build(subject: Subject, gpu: str, gpus: Sequence[Gpu], observer: Observer) -> Anatomy | Failure | None:
    """What the compiler makes of a kernel for a GPU; None where that GPU's architecture is not known."""
    archs = [one.arch for one in gpus if one.slug == gpu] or [
        arch for arch in DEFAULT_ARCHS if gpu in {"", getattr(device_of(arch, ()), "name", None)}
    ]
    if not archs:
        return None
    [found] = examine([subject], archs[:1], lambda arch: device_of(arch, gpus), observer)
    return found


def _nothing(asked: Variant, shape: Shape) -> GdnbenchError:
    said = f"nothing is known of {asked.label} at {shape}: no profile, no run, and no build of gdnbench's own"
    return UsageError(said, f"on a GPU: gdnbench ncu {asked.label} --shape B={shape.B}")
