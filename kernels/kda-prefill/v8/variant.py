"""One launch: pairs of blocks prepare 32 tokens of a head at a time for each other and carry its state, in segments."""

from typing import NamedTuple

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec, Workload

TOKENS = 32  # of a step
HEAD = 128  # elements of a key
BOUNDED = 1
PAIR = 2  # blocks of a cluster
BLOCK_BYTES = 227 * 1024  # what the kernel's struct FusedMemory takes
THREADS = 512


def check(workload: Workload) -> str:
    """Threads have pairs of a key's channels; the products of sixteen decays have reciprocals in bf16."""
    if workload.GATE != BOUNDED:
        return "its gate has a bound; kda-prefill-v1 takes softplus, too"
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"K={workload.K}, V={workload.V}: its heads have {HEAD} elements"
    return ""


class Cuts(NamedTuple):
    """The kernel's struct Cuts: a way to cut sequences, in steps of TOKENS."""

    first: int
    size: int

    def count(self, steps: int) -> int:
        """Segments behind the first one of a sequence of so many steps."""
        return max(-(-(steps - self.first) // self.size), 0)


def steps(shape: Shape) -> list[int]:
    """Of each sequence."""
    return [-(-length // TOKENS) for length in shape.lengths]


def cuts(shape: Shape, params: Params, *, is_known: bool) -> Cuts:
    """The smallest segments with which all clusters take all sequences in the time of a first one."""
    least, parts = (params.BEHIND, params.FIRST_PARTS) if is_known else (params.FEWEST, 16)
    clusters = params.BLOCKS // PAIR
    most = max(*steps(shape), least)

    def way(size: int) -> Cuts:
        return Cuts(-(-size * parts // 16), size)

    def work(steps: int, cuts: Cuts) -> int:
        count = cuts.count(steps)
        return (1 + count) * cuts.first if count else steps

    if len(shape.lengths) == 1:
        segments = max(clusters // shape.H, 1)
        return way(most if segments == 1 else max(-(-16 * most // (16 * (segments - 1) + parts)), least))
    if len(shape.lengths) * shape.H >= clusters:
        return way(most)
    while least < most:
        tried = way((least + most) // 2)
        if sum(work(each, tried) for each in steps(shape)) * shape.H <= clusters * tried.first:
            most = tried.size
        else:
            least = tried.size + 1
    return way(least)


def blocks(shape: Shape, params: Params) -> int:
    """Of all sequences and heads."""
    alike, known = (cuts(shape, params, is_known=each) for each in (False, True))
    segments = sum(1 + (max(alike.count(each), known.count(each)) if alike.count(each) else 0) for each in steps(shape))
    return PAIR * segments * shape.H


def rows(name: str) -> TensorMap:
    """Of a head's tokens half of the elements."""
    return TensorMap(name, box=(TOKENS, 1, HEAD // 2))


kernel = CudaKernel(
    name="kda-prefill-v8",
    target="sm_90a",
    params={
        "BLOCKS": Param(default=132, choices=(8, 16, 66, 132), doc="blocks among which heads are shared out"),
        "FIRST_PARTS": Param(default=21, choices=(16, 19, 21, 24), doc="16ths of others that a first segment is long"),
        "FEWEST": Param(default=4, choices=(1, 4, 8), doc="steps of a segment, at the least"),
        "BEHIND": Param(default=8, choices=(1, 8, 16), doc="the same of one whose state is not known"),
    },
    check=check,
    scratch=(
        TensorSpec("reads", ("T", "H", "K"), "bf16"),
        TensorSpec("states", ("BLOCKS", "V", "K"), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="kda_prefill",
            grid=lambda shape, p: (blocks(shape, p),),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                *(rows("q"), rows("k"), rows("g"), rows("v"), rows("reads"), rows("output")),
                *("g", "b", "A_log", "dt_bias", "state", "cu_seqlens", "scale", "lower_bound"),
                *("output", "new_state", "reads", "states", "N"),
            ),
        ),
    ),
    invariant=("rerun",),
)
