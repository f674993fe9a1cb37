"""Blocks prepare 32 tokens of a head at a time and carry its state, in segments of sequences, which are composed."""

from typing import NamedTuple

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec, Workload

TOKENS = 32  # of a step
HEAD = 128  # elements of a key
BOUNDED = 1
BLOCK_BYTES = 5 * 42 * 1024 + 2 * 3584 + 256  # what the kernel's struct FusedMemory takes
THREADS = 512
SECOND_STEPS = 8  # in whose time a block begins anew and segments' states are composed
TRANSITION = 128 * 128 // 2 + 128  # fp32 that the kernel's struct Transition takes
CORRECT_BYTES = 3 * 32 * 1024 + 3 * 512 + 256  # what the struct CorrectMemory takes


def check(workload: Workload) -> str:
    """Threads have pairs of a key's channels; the products of sixteen decays have reciprocals in bf16."""
    if workload.GATE != BOUNDED:
        return "its gate has a bound; kda-prefill-v1 takes softplus, too"
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"K={workload.K}, V={workload.V}: its heads have {HEAD} elements"
    return ""


class Cuts(NamedTuple):
    """The kernel's struct Cuts: a way to cut sequences, in steps of TOKENS."""

    rounds: int  # segments that the first one is long
    size: int

    @property
    def longest(self) -> int:
        """Steps that a block takes at the most."""
        return max(self.rounds, 1) * self.size

    def count(self, steps: int) -> int:
        """Segments behind the first one of a sequence of so many steps; 0 if it is left whole."""
        return 0 if steps <= self.longest else -(-(steps - self.rounds * self.size) // self.size)

    def work(self, steps: int) -> int:
        """Steps that blocks take for such a sequence."""
        count = self.count(steps)
        return self.size * (self.rounds + 2 * count if self.rounds else count) if count else steps


def steps(shape: Shape) -> list[int]:
    """Of each sequence."""
    return [-(-length // TOKENS) for length in shape.lengths]


def cuts(shape: Shape, params: Params, rounds: int) -> Cuts:
    """The smallest segments with which all blocks take all sequences in the time of the longest one."""
    least = params.BEHIND if rounds else params.FEWEST
    most = max(*steps(shape), least)
    if len(shape.lengths) * shape.H >= params.BLOCKS:
        return Cuts(rounds, most)
    while least < most:
        way = Cuts(rounds, (least + most) // 2)
        if sum(map(way.work, steps(shape))) * shape.H <= params.BLOCKS * way.longest:
            most = way.size
        else:
            least = way.size + 1
    return Cuts(rounds, least)


def known(shape: Shape, params: Params) -> Cuts:
    """Where heads remember: the kernel's find_known."""
    if params.ROUNDS:
        return cuts(shape, params, params.ROUNDS)
    once, twice = cuts(shape, params, 1), cuts(shape, params, 2)
    return twice if twice.longest + SECOND_STEPS < once.longest else once


class Items(NamedTuple):
    """Of a sequence, as the kernel's struct Plan has them."""

    blocks: int  # of the first launch
    behind: int  # segments behind the first one, where a head remembers


def items(shape: Shape, params: Params) -> list[Items]:
    """Of each sequence."""
    alike, remembered = cuts(shape, params, 0), known(shape, params)
    behind = [remembered.count(each) if alike.count(each) else 0 for each in steps(shape)]
    return [
        Items(max(alike.count(each), 1 + 2 * count), count) for each, count in zip(steps(shape), behind, strict=True)
    ]


def corrections(shape: Shape, p: Params) -> tuple[int, int]:
    """The second launch's grid, of heads; one block that has nothing to do, if no sequence is cut."""
    behind = [each.behind for each in items(shape, p) if each.behind]
    parts = max(2 * p.BLOCKS // (shape.H * max(sum(behind), 1)), 1)
    return (shape.H, sum(count * parts + 1 for count in behind)) if behind else (1, 1)


def rows(name: str) -> TensorMap:
    """Of a head's tokens half of the elements."""
    return TensorMap(name, box=(TOKENS, 1, HEAD // 2))


kernel = CudaKernel(
    name="kda-prefill-v7",
    target="sm_90a",
    params={
        "BLOCKS": Param(default=132, choices=(8, 16, 66, 132), doc="blocks among which heads are shared out"),
        "ROUNDS": Param(
            default=0, choices=(0, 1, 2, 3), doc="segments that the first one is long; 0: as suits the heads"
        ),
        "FEWEST": Param(default=4, choices=(1, 4, 8), doc="steps of a segment, at the least"),
        "BEHIND": Param(default=16, choices=(1, 8, 16, 32), doc="the same of one that is taken twice"),
    },
    check=check,
    scratch=(
        TensorSpec("reads", ("T", "H", "K"), "bf16"),
        TensorSpec("states", ("BLOCKS", 2, "V", "K"), "fp32"),
        TensorSpec("transitions", ("BLOCKS", 2, TRANSITION), "fp32"),
        TensorSpec("remembers", ("N", "H"), "int32"),
        TensorSpec("composed", ("BLOCKS", 2), "int32"),
    ),
    launches=(
        CudaLaunch(
            entry="kda_prefill",
            grid=lambda shape, p: (sum(each.blocks for each in items(shape, p)) * shape.H,),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                *(rows("q"), rows("k"), rows("g"), rows("v")),
                *("g", "b", "A_log", "dt_bias", "state", "cu_seqlens", "scale", "lower_bound"),
                *("output", "new_state", rows("output"), rows("reads"), "reads"),
                *("states", "transitions", "remembers", "composed", "N"),
            ),
        ),
        CudaLaunch(
            entry="kda_prefill_correct",
            grid=corrections,
            block=lambda shape, p: THREADS // 2,
            shared_bytes=lambda shape, p: CORRECT_BYTES,
            arguments=(
                *(rows("reads"), rows("output")),
                *("cu_seqlens", "output", "new_state", "states", "transitions", "remembers", "composed", "N"),
            ),
            begins_early=True,
        ),
    ),
    invariant=("rerun",),
)
