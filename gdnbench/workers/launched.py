"""What a call of a kernel launches and sets: by its capture, by CUPTI's records, in the L2, and by Triton's tuner.

In CUPTI's records, a case begins with an empty kernel of gdnbench's own. Each launch is a fill, which flushes the L2,
then the case's activities, then another such empty kernel, so that a case may launch several kernels and fills. A third
empty kernel ends the case; the checks of its launches follow.

A name is the function's own, without namespaces, template arguments and parameters: a graph has mangled names (Itanium
C++ ABI, section 5.1), and CUPTI's records may be demangled. Fills and copies have a name each. Names are compared
without their order, since branches of a graph may run in any.

A part of the L2 that a kernel sets aside for itself is not reached by flushing between launches. The limit of
persisting lines belongs to the context, an access-policy window to a stream; both outlast the call that set them (CUDA
programming guide, L2 cache control). Not detected: a window as an attribute of a launch, which needs the limit to keep
anything, and settings that a kernel restores before its call returns.
"""

from __future__ import annotations

import gc
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from cuda.bindings import driver
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from gdnbench.errors import ProfilerError
from gdnbench.wording import first_of, plural

FILL = "Memset (Device)"  # torch's profiler's name of a fill
COPY = "Memcpy"  # prefix of torch's profiler's names of copies
CASE = "case"
END = "end"
CHECKS = "checks"
FEWEST_WHOLE = 0.5  # share of a round's launches; if fewer are complete, more than stray records are missing


class Activity(NamedTuple):
    """An activity of the GPU, with its begin and end on the GPU's clock."""

    name: str
    start_ns: int
    end_ns: int


LaunchActivities = list[Activity]
"""The activities of one launch of a case, without its flush."""


def split_cases(activities: Iterable[Activity], prefix: str) -> list[list[Activity]]:
    """The activities of each case of a round, by start; `prefix` begins the names of gdnbench's own kernels."""
    cases: list[list[Activity]] = []
    is_open = False
    for activity in sorted(activities, key=lambda activity: activity.start_ns):
        if activity.name == prefix + CASE:
            cases.append([])
        if activity.name in {prefix + CASE, prefix + CHECKS}:
            is_open = activity.name == prefix + CASE
        elif is_open:
            cases[-1].append(activity)
    return cases


def split_launches(activities: Iterable[Activity], prefix: str) -> list[LaunchActivities]:
    """The launches of a case; one whose flush or kernels were not recorded is shorter, or missing."""
    launches: list[LaunchActivities] = []
    is_open = False
    for activity in activities:
        if activity.name.startswith(prefix):
            is_open = False
        elif is_open:
            launches[-1].append(activity)
        elif activity.name == FILL:
            launches.append([])
            is_open = True
    return launches


def whole_launches(launches: Sequence[LaunchActivities]) -> list[LaunchActivities]:
    """The launches with as many activities as most have; the others have lost records, or those that separate them."""
    sizes = Counter(len(launch) for launch in launches if launch) or Counter(len(launch) for launch in launches)
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    return [launch for launch in launches if len(launch) == usual]


def launch_times_us(launches: Sequence[LaunchActivities], expected: int) -> tuple[float, ...]:
    """Times of complete launches in a round, first start to last end, µs; ProfilerError if under half are."""
    whole = [launch for launch in whole_launches(launches) if launch]
    if not whole or len(whole) < FEWEST_WHOLE * expected:
        raise ProfilerError(f"CUPTI recorded {len(whole)} of {expected} launches")
    return tuple(
        (max(activity.end_ns for activity in launch) - min(activity.start_ns for activity in launch)) / 1e3
        for launch in whole
    )


class ActivityRecorder:
    """Records the GPU's activities between a start and a stop through torch's profiler, which includes CUPTI."""

    def __init__(self) -> None:
        self._profile: Any = None

    def start(self) -> None:
        """Begins to record."""
        self._profile = profile(activities=[ProfilerActivity.CUDA])
        self._profile.start()

    def stop(self) -> list[Activity]:
        """Waits for the GPU and returns its activities since the start, in any order, without the host's."""
        torch.cuda.synchronize()
        self._profile.stop()
        return [
            Activity(event.name(), event.start_ns(), event.end_ns())
            for event in self._profile.profiler.kineto_results.events()
            if event.device_type() == DeviceType.CUDA
        ]


FILLED = "(fill)"
COPIED = "(copy)"
UNKNOWN_FUNCTION = ""
"""The name of a function whose name is unknown; lists that contain it are not compared."""

FEWEST_DEVIATING = 2  # launches of a round: two launches with lost records can look like a deviating one
_MOST_NAMED = 4
_ANONYMOUS = "(anonymous namespace)"
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_MANGLED = re.compile(r"_Z(N[rVK]*)?(?:St)?(?=L?\d)")
_LENGTH = re.compile(r"L?(\d+)")


@lru_cache(maxsize=1024)
def plain_name(name: str) -> str:
    """A function's own name, mangled or not, the name of a fill or copy, or `UNKNOWN_FUNCTION`."""
    if name.startswith(("Memset", "Memcpy")):
        return FILLED if name.startswith("Memset") else COPIED
    if mangled := _MANGLED.match(name):
        return _last_of_mangled(name, mangled.end(), is_nested=bool(mangled[1]))
    own = _declared(name.replace(_ANONYMOUS, "anonymous")).rpartition(" ")[2].rpartition("::")[2]
    return own if _IDENTIFIER.fullmatch(own) and not own.startswith("_Z") else UNKNOWN_FUNCTION


def _declared(name: str) -> str:
    """A demangled name without parameters and template arguments, in which `<` may be a comparison in parentheses."""
    declared, nesting = "", ""
    for before, character in pairwise(f" {name}"):
        if character == "(" and not nesting:
            break
        if character == "(" or (character == "<" and before != ")" and not nesting.endswith("(")):
            nesting += character
        elif nesting and character == {"(": ")", "<": ">"}[nesting[-1]]:
            nesting = nesting[:-1]
        elif not nesting:
            declared += character
    return declared


def _last_of_mangled(name: str, at: int, *, is_nested: bool) -> str:
    """The last of the length-prefixed identifiers from `at` on in a mangled name."""
    own = UNKNOWN_FUNCTION
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[1])
        own = name[length.end() : at]
        if not is_nested:
            return own
    return own if name[at : at + 1] in {"I", "E"} else UNKNOWN_FUNCTION


def list_launched(graph: int) -> tuple[str, ...]:
    """Plain names of the launches, fills and copies of a CUDA graph (by handle), in the order of its nodes."""
    kinds = driver.CUgraphNodeType
    names: list[str] = []
    for node, kind in graph_nodes(graph):
        match kind:
            case kinds.CU_GRAPH_NODE_TYPE_KERNEL:
                names.append(plain_name(_function_name(node)))
            case kinds.CU_GRAPH_NODE_TYPE_MEMSET:
                names.append(FILLED)
            case kinds.CU_GRAPH_NODE_TYPE_MEMCPY:
                names.append(COPIED)
            case kinds.CU_GRAPH_NODE_TYPE_GRAPH:
                names += list_launched(int(driver.cuGraphChildGraphNodeGetGraph(node)[1]))
            case kinds.CU_GRAPH_NODE_TYPE_CONDITIONAL:
                names.append(UNKNOWN_FUNCTION)
            case _:  # events, host functions and memory nodes: no work for the GPU
                pass
    return tuple(names)


def graph_nodes(graph: int) -> list[tuple[Any, Any]]:
    """Handle and type (`CUgraphNodeType`) of each node of a CUDA graph, in the order in which they were made."""
    _, _, count = driver.cuGraphGetNodes(graph, 0)
    _, nodes, _ = driver.cuGraphGetNodes(graph, count)
    return [(node, driver.cuGraphNodeGetType(node)[1]) for node in nodes[:count]]


def _function_name(node: Any) -> str:
    """The linked name of a node's function, which is a function of a context, or a kernel of a library."""
    status, params = driver.cuGraphKernelNodeGetParams(node)
    if status != driver.CUresult.CUDA_SUCCESS:
        return UNKNOWN_FUNCTION
    for handle, get_name in ((params.func, driver.cuFuncGetName), (params.kern, driver.cuKernelGetName)):
        if int(handle):
            status, name = get_name(handle)
            if status == driver.CUresult.CUDA_SUCCESS:
                return str(name.decode(errors="replace"))
    return UNKNOWN_FUNCTION


def deviation(launches: Sequence[LaunchActivities], checked: Sequence[str]) -> str:
    """How complete launches of a round differ from the check's, by plain name; empty if equal or unknown."""
    whole = Counter(tuple(sorted(plain_name(each.name) for each in launch)) for launch in whole_launches(launches))
    expected = tuple(sorted(checked))
    deviating = {names: count for names, count in whole.items() if names != expected and UNKNOWN_FUNCTION not in names}
    most = max(deviating, key=lambda names: deviating[names], default=expected)
    if not checked or UNKNOWN_FUNCTION in checked or deviating.get(most, 0) < FEWEST_DEVIATING:
        return ""
    return _difference(Counter(most), Counter(checked))


def _difference(timed: Counter[str], checked: Counter[str]) -> str:
    differ = {name for name in timed | checked if timed[name] != checked[name]}
    now, before = (
        _format_counts({name: count for name, count in counts.items() if name in differ}) for counts in (timed, checked)
    )
    rest = "; all else is the same" if set(timed | checked) - differ else ""
    return f"while timed it launches {now}; when checked it launched {before}{rest}"


def function_times_us(launches: Sequence[LaunchActivities]) -> dict[str, float]:
    """Mean time of each function of a call, µs, by plain name; empty if there is just one activity."""
    whole = whole_launches(launches)
    total_ns: Counter[str] = Counter()
    for launch in whole:
        for activity in launch:
            total_ns[plain_name(activity.name)] += activity.end_ns - activity.start_ns
    if not whole or len(whole[0]) < 2 or UNKNOWN_FUNCTION in total_ns:
        return {}
    return {name: ns / len(whole) / 1e3 for name, ns in total_ns.items()}


def _format_counts(counts: dict[str, int]) -> str:
    fills, copies = counts.pop(FILLED, 0), counts.pop(COPIED, 0)
    parts = [name if count == 1 else f"{name} ({count} times)" for name, count in counts.items()]
    parts += [plural(fills, "fill")] if fills else []
    parts += [plural(copies, "copy", "copies")] if copies else []
    return first_of(parts, _MOST_NAMED) if parts else "nothing"


_LIMIT = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_WINDOW = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW


@dataclass(frozen=True)
class _Setting:
    """Bytes of the L2 for persisting lines, and the stream's access-policy window."""

    persisting_bytes: int
    window_base: int
    window_bytes: int
    window_hit_ratio: float


class PersistingL2:
    """Compares a stream's L2 setting, in the current context, with that at construction, before kernels' import."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        _, self._window = driver.cuStreamGetAttribute(stream, _WINDOW)
        self._before = self._read()

    def changes(self) -> tuple[str, ...]:
        """Describes what has changed, empty if nothing has. Restores the setting and releases persisting lines."""
        now = self._read()
        if now is None or self._before is None or now == self._before:
            return ()
        changes = []
        if now.persisting_bytes != self._before.persisting_bytes:
            changes.append(f"{now.persisting_bytes:,} bytes of it for lines that persist")
        if replace(now, persisting_bytes=self._before.persisting_bytes) != self._before:
            changes.append(f"an access-policy window of {now.window_bytes:,} bytes on the stream")
        driver.cuStreamSetAttribute(self._stream, _WINDOW, self._window)
        driver.cuCtxResetPersistingL2Cache()
        driver.cuCtxSetLimit(_LIMIT, self._before.persisting_bytes)
        return tuple(changes)

    def _read(self) -> _Setting | None:
        """Returns the setting, or None if the GPU has none or has reported a fault."""
        refused, value = driver.cuStreamGetAttribute(self._stream, _WINDOW)
        unlimited, limit = driver.cuCtxGetLimit(_LIMIT)
        if refused != driver.CUresult.CUDA_SUCCESS or unlimited != driver.CUresult.CUDA_SUCCESS:
            return None
        window = value.accessPolicyWindow
        return _Setting(int(limit), int(window.base_ptr), int(window.num_bytes), float(window.hitRatio))


class TunerChoices:
    """Configs that `triton.autotune` and its derivatives chose. A search takes 50 ms, so it is once a kernel."""

    def __init__(self) -> None:
        self._tuners: dict[str, Sequence[Any]] = {}

    def of(self, kernel: str, launched: Collection[str]) -> tuple[str, ...]:
        """Name and config of `launched` functions, sorted: `chunk_fwd_kernel_o: BK: 64, num_warps: 4`."""
        if not launched:
            return ()
        if kernel not in self._tuners:
            self._tuners[kernel] = _find_tuners()
        chosen = ((_name(tuner), getattr(tuner, "best_config", None)) for tuner in self._tuners[kernel])
        return tuple(
            sorted({f"{name}: {config}" for name, config in chosen if name in launched and config is not None})
        )


def _find_tuners() -> list[Any]:
    module = sys.modules.get("triton.runtime.autotuner")
    # By the type: `isinstance` asks each object for its `__class__`, and lazy ones would load what they stand for.
    return [each for each in gc.get_objects() if issubclass(type(each), module.Autotuner)] if module else []


def _name(tuner: Any) -> str:
    return str(getattr(getattr(tuner, "base_fn", None), "__name__", ""))
