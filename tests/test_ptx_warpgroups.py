"""Hopper's products by warpgroups in the interpreter of PTX: numbers against NumPy's, and wrong uses found by line."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from ptx_data import findings, run

from gdnbench.errors import NotInterpretedError

HEAD = """
typedef unsigned u32;
typedef unsigned long long u64;
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
#define SHOW asm volatile("fence.proxy.async;" ::: "memory")
"""
SWIZZLES = {8: 1, 4: 2, 2: 3, 1: 0}
"""The descriptor's mode, by the pieces of 16 bytes in a swizzled row."""


@dataclass(frozen=True)
class Matrix:
    """How a matrix lies in shared memory, by elements of 16 bits, or pairs of 8 bits."""

    size: int  # columns of B, or rows of A
    inner: int  # elements to sum over
    pieces: int = 8  # of a row; 1 for no swizzle
    trans: bool = False  # whether the columns of B, or rows of A, lie side by side

    @property
    def nbytes(self):
        return self.size * self.inner * 2

    @property
    def band(self):
        """Elements of a row."""
        return 8 * self.pieces

    @property
    def strides(self):
        """Bytes: leading, and stride."""
        if self.pieces == 1:  # pieces of 8 x 8, one after the other: those of the next elements to sum over come last
            return 16 * self.size, 128
        return (self.inner * self.band * 2, 16 * self.band) if self.trans else (16, 16 * self.band)

    def place(self, n, k):
        """The byte at which elements begin."""
        leading, stride = self.strides
        if self.pieces == 1:
            row, element = (k, n) if self.trans else (n, k)
            return n // 8 * stride + k // 8 * leading + row % 8 * 16 + element % 8 * 2
        across, down, length = (n, k, self.inner) if self.trans else (k, n, self.size)
        # Of 8 rows all of 128 bytes are swizzled apart, pairs of 64, and fours of 32.
        piece = across % self.band // 8 ^ down % 8 // (8 // self.pieces)
        return across // self.band * (length * self.band * 2) + down * (self.band * 2) + piece * 16 + across % 8 * 2

    def image(self, values):
        """The bytes of a matrix of shape (size, inner)."""
        n, k = np.meshgrid(np.arange(self.size), np.arange(self.inner), indexing="ij")
        image = np.zeros(self.nbytes // 2, np.uint16)
        image[self.place(n, k) // 2] = values
        return image

    def descriptor(self, n, k):
        """Of a part that begins at an element; the kernel adds where the matrix begins."""
        leading, stride = self.strides
        return SWIZZLES[self.pieces] << 62 | stride // 16 << 32 | leading // 16 << 16 | int(self.place(n, k)) // 16


@dataclass(frozen=True)
class Case:
    """A product of A [64, K] and the columns from `first` on of a matrix B; `kind` is B's where `left` is A's."""

    columns: int
    b: Matrix
    first: int = 0
    a: Matrix | None = None
    kind: str = "bf16"
    adds: bool = True
    signs: tuple[int, int] = (1, 1)
    left: str = ""

    @property
    def kinds(self):
        return self.left or self.kind, self.kind

    @property
    def name(self):
        place = "registers" if self.a is None else f"a{self.a.pieces}{'t' * self.a.trans}"
        adds, signs = "adds" if self.adds else "sets", "".join("mp"[sign > 0] for sign in self.signs)
        b = f"b{self.b.pieces}{'t' * self.b.trans}_{self.b.size}x{self.b.inner}"
        return f"n{self.columns}_from{self.first}_{b}_{place}_{self.left}{self.kind}_{adds}_{signs}"


def product(columns, kind="bf16", *, left="", a_shared=False, signs=(1, 1), trans_a=False, trans_b=False):
    """The statement: sums are f[N / 2], A r[4] or its descriptor `da`, B `db`, and `adds` a number."""
    half = columns // 2
    sums = ", ".join(f"%{n}" for n in range(half))
    a = f"%{half}" if a_shared else "{" + ", ".join(f"%{half + n}" for n in range(4)) + "}"
    after = half + (1 if a_shared else 4)
    is_short = kind in {"e4m3", "e5m2"}
    inner = 32 if is_short else 16
    flips = "" if is_short else f", {int(trans_a)}, {int(trans_b)}" if a_shared else f", {int(trans_b)}"
    outputs = ", ".join(f'"+f"(f[{n}])' for n in range(half))
    inputs = '"l"(da)' if a_shared else ", ".join(f'"r"(r[{n}])' for n in range(4))
    return (
        f'asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{after + 1}, 0; '
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{inner}.f32.{left or kind}.{kind} {{{sums}}}, {a}, %{after}, p, "
        f'{signs[0]}, {signs[1]}{flips}; }}" : {outputs} : {inputs}, "l"(db), "r"(adds));'
    )


# x is A row by row, y what goes into shared memory as it is, d the descriptors of B and A of each step without the
# matrices' own addresses, z first C and then D, row by row. Two warpgroups a block, which share B.
KERNEL = """
extern "C" __global__ void {name}(const u32* x, const uint4* y, const u64* d, float* z) {{
  __shared__ __align__(1024) uint4 s[{bytes} / 16];
  const int i = threadIdx.x % 128, group = blockIdx.x * 2 + threadIdx.x / 128;
  const int row = group * 64 + i / 32 * 16 + i % 32 / 4, t = i % 4;
  for (int n = threadIdx.x; n < {bytes} / 16; n += 256) s[n] = y[blockIdx.x * ({bytes} / 16) + n];
  SHOW;
  __syncthreads();
  const u32* a = x + row * ({inner} / 2) + t;
  float *c = z + row * {columns} + 2 * t, f[{columns} / 2];
  u32 all[{inner} / 16][4];
  for (int k = 0; k < {inner} / 16; ++k)
    for (int n = 0; n < 4; ++n) all[k][n] = a[8 * k + n / 2 * 4 + n % 2 * (8 * {inner} / 2)];
  for (int n = 0; n < {columns} / 8; ++n)
    for (int e = 0; e < 4; ++e) f[4 * n + e] = c[8 * n + e / 2 * 8 * {columns} + e % 2];
  FENCE;
#pragma unroll
  for (int k = 0; k < {inner} / 16; ++k) {{
    const u32 (&r)[4] = all[k];
    const u64 base = at(s) / 16, db = d[2 * k] + base, da = d[2 * k + 1] + base + {b_bytes} / 16;
    const int adds = {adds} || k > 0;
    {product}
  }}
  COMMIT;
  WAIT(0);
  for (int n = 0; n < {columns} / 8; ++n)
    for (int e = 0; e < 4; ++e) c[8 * n + e / 2 * 8 * {columns} + e % 2] = f[4 * n + e];
}}
"""


def source(case):
    a_bytes = case.a.nbytes if case.a else 0
    statement = product(
        case.columns, case.kind, left=case.left, a_shared=case.a is not None, signs=case.signs, trans_b=case.b.trans,
        trans_a=bool(case.a and case.a.trans),
    )  # fmt: skip
    return KERNEL.format(
        name=case.name, bytes=case.b.nbytes + a_bytes, b_bytes=case.b.nbytes, inner=case.b.inner, columns=case.columns,
        adds=int(case.adds), product=statement,
    )  # fmt: skip


CASES = [
    Case(64, Matrix(64, 128)),  # steps from one band of 64 to the next
    Case(128, Matrix(128, 128)),
    Case(256, Matrix(256, 64)),
    Case(8, Matrix(8, 64)),
    Case(128, Matrix(128, 64, trans=True)),  # columns in two bands
    Case(256, Matrix(256, 32, trans=True)),
    Case(64, Matrix(64, 64, trans=True)),
    Case(96, Matrix(128, 32, trans=True)),
    *(Case(n, Matrix(64, 64, trans=trans), first=64 - n) for n in (48, 32, 16) for trans in (False, True)),
    *(Case(64, Matrix(64, 64, pieces, trans)) for pieces in (4, 2, 1) for trans in (False, True)),
    *(
        Case(24, Matrix(24, 32, pieces), a=Matrix(64, 32, pieces, trans))
        for pieces in (4, 2, 1)
        for trans in (False, True)
    ),
    Case(64, Matrix(64, 64), a=Matrix(64, 64)),
    Case(64, Matrix(64, 64, trans=True), a=Matrix(64, 64, trans=True)),
    Case(32, Matrix(32, 64), kind="f16"),
    Case(32, Matrix(32, 64), adds=False),
    Case(32, Matrix(32, 64), signs=(-1, 1)),
    Case(32, Matrix(32, 64), signs=(-1, -1)),
    Case(32, Matrix(32, 64), kind="e4m3"),
    Case(192, Matrix(192, 64), a=Matrix(64, 64), kind="e4m3", adds=False),
    Case(32, Matrix(32, 64, 4), a=Matrix(64, 64, 4), kind="e5m2", left="e4m3"),
]
SOURCE = HEAD + "".join(map(source, CASES))
IDS = [case.name for case in CASES]
BLOCKS, GROUPS = 2, 4
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def wide(kind, bits):
    return torch.from_numpy(bits.view(np.int16)).view(TORCH[kind]).double().numpy()


def pairs(case):
    """Numbers in 16 bits."""
    return 2 // TORCH[case.kind].itemsize


def drawn(case, *, integers=False, seed=1):
    """A of each warpgroup, B of each block, both as bits, and C. Sums of small integers are always exact."""
    draw = torch.Generator().manual_seed(seed)
    inner = pairs(case) * case.b.inner
    shapes = ((GROUPS, 64, inner), (BLOCKS, case.b.size, inner), (GROUPS, 64, case.columns))
    a, b, c = (
        torch.randint(-9, 10, shape, generator=draw).float() if integers else torch.randn(shape, generator=draw)
        for shape in shapes
    )
    if case.a is not None:
        a = a[::2].repeat_interleave(2, 0)  # in the shared memory of a block, for both of its warpgroups
    held = (each.to(TORCH[kind]).view(torch.int16).numpy() for each, kind in zip((a, b), case.kinds, strict=True))
    return (*(each.view(np.uint16) for each in held), c.numpy())


def arguments(case, a, b, c):
    """As the kernel takes them."""
    parts = [np.stack([case.b.image(each) for each in b])]
    if case.a is not None:
        parts.append(np.stack([case.a.image(each) for each in a[::2]]))
    steps = range(0, case.b.inner, 16)
    of_a = [case.a.descriptor(0, k) if case.a else 0 for k in steps]
    of_b = [case.b.descriptor(case.first, k) for k in steps]
    d = np.array(list(zip(of_b, of_a, strict=True)), dtype=np.uint64)
    return a, np.ascontiguousarray(np.concatenate(parts, axis=1)), d, c


def launched(case, a, b, c):
    out = c.copy()
    *rest, _ = arguments(case, a, b, c)
    found, _ = run(SOURCE, *rest, out, entry=case.name, blocks=(BLOCKS, 1, 1), threads=256, arch="compute_90a")
    assert found == ()
    return out


def expected(case, a, b, c):
    """Every step rounds its sums once."""
    a, b = wide(case.kinds[0], a), wide(case.kinds[1], b)[:, case.first : case.first + case.columns]
    out = c if case.adds else np.zeros_like(c)
    each = 16 * pairs(case)
    for k in range(0, a.shape[2], each):
        step = np.einsum("gmk,gnk->gmn", a[..., k : k + each], b[[0, 0, 1, 1], :, k : k + each])
        out = (out + case.signs[0] * case.signs[1] * step).astype(np.float32)
    return out


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_product_is_that_of_its_operands(case):
    values = drawn(case, integers=True)
    np.testing.assert_array_equal(launched(case, *values), expected(case, *values))


@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=[IDS[0], IDS[4]])
def test_sums_are_rounded_once_a_step(case):
    values = drawn(case)
    # NumPy's two orders of doubles may differ, and with them the last bit of a step.
    np.testing.assert_allclose(launched(case, *values), expected(case, *values), rtol=2**-22, atol=2**-22)


# One product of a warpgroup, a line each for what a kernel does about it.
SLOTS = {
    "fill": "s[i] = ((const uint4*)x)[i];",
    "show": "SHOW;",
    "sync": "__syncthreads();",
    "begin": "FENCE;",
    "act": product(16),
    "commit": "COMMIT;",
    "wait": "WAIT(0);",
    "after": "for (int n = 0; n < 8; ++n) z[n * 128 + i] = f[n];",
}
START = (
    HEAD
    + """
extern "C" __global__ void k(const u32* x, float* z) {
  __shared__ __align__(1024) uint4 s[128];
  const int i = threadIdx.x, adds = 1;
  float f[8] = {};
  u32 r[4] = {x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
  u64 db = 1ull << 62 | 64ull << 32 | 1ull << 16 | at(s) / 16;
"""
)
LINE = {slot: START.count("\n") + 1 + number for number, slot in enumerate(SLOTS)}


def used(threads=128, **slots):
    assert slots.keys() <= SLOTS.keys()
    text = START + "\n".join({**SLOTS, **slots}.values()) + "\n}\n"
    x = np.arange(1, 1025, dtype=np.uint32)
    return findings(text, x, np.zeros(1024, np.float32), threads=threads, arch="compute_90a")


ADD = 'asm volatile("add.u32 %0, %0, 1;" : "+r"(r[0]));'
DOUBLE = 'asm volatile("add.f32 %0, %0, %0;" : "+f"(f[0]));'
LOOP = "for (int n = 0; n < 2; ++n) {"
COPY = 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(s + i)), "l"(x + 4 * i) : "memory");'


def wrong(kind, slot, text, **slots):
    return slots, kind, slot, text


race = partial(wrong, "RACE")
FAULTS = {
    "no fence before the first product": race(
        "act", "thread 0 of block 0 begins the kernel's first product with no `wgmma.fence` before it", begin=""
    ),
    "a register of A that is changed after the fence": race(
        "act", "a register that was accessed since the last `wgmma.fence`", begin="FENCE; " + ADD
    ),
    "sums that are changed between products without a fence": race(
        "after", "a register that was accessed since the last `wgmma.fence`", wait=f"WAIT(0); {DOUBLE}",
        after=SLOTS["act"] + " COMMIT; WAIT(0); " + SLOTS["after"],
    ),
    "sums that are read before the next product without a fence": race(
        "after", "a register that was accessed since the last `wgmma.fence`", wait="WAIT(0); z[i] = f[0];",
        after=SLOTS["act"] + " COMMIT; WAIT(0); " + SLOTS["after"],
    ),
    "sums that are not waited for": race(
        "after", f"thread 0 of block 0 reads a sum of the `wgmma` at kernel.cu:{LINE['act']}", wait=""
    ),
    "sums of a group that may be pending": race("after", "reads a sum of the `wgmma`", wait="WAIT(1);"),
    "sums of no group": race("after", "without waiting for it", commit=""),
    "sums that are read too early": race("wait", "reads a sum of the `wgmma`", wait="z[i] = f[0]; WAIT(0);"),
    "sums that are read too early by some": race(
        "wait", "thread 70 of block 0 reads a sum of the `wgmma`", wait="if (i == 70) z[i] = f[0]; WAIT(0);"
    ),
    "sums that the next product takes in another shape": race(
        "commit", "takes a sum of the `wgmma`", commit=product(8) + " COMMIT;"
    ),
    "a register of A that is loaded again too early": race(
        "begin", "writes a register of A of the `wgmma`",
        begin="#pragma unroll 1\n" + LOOP + " r[0] = x[n * 128 + i]; FENCE;", commit="COMMIT; }",
    ),
    "shared memory that is not shown": race(
        "act", f"is written at kernel.cu:{LINE['fill']}, with no `fence.proxy.async` between", show=""
    ),
    "a fence before the write": race("act", "with no `fence.proxy.async` between", fill="SHOW;", show=SLOTS["fill"]),
    "copies that are not shown": race(
        "act", "with no `fence.proxy.async` between", fill=COPY, show='asm volatile("cp.async.wait_all;" ::: "memory");'
    ),
    "copies that are not waited for": race("act", "without waiting for the copy there", fill=COPY),
    "no barrier after the write": race("act", "reads shared memory where thread", sync=""),
    "a warp's barrier after the write": race("act", "reads shared memory where thread", sync="__syncwarp();"),
    "shared memory that nobody wrote": wrong(
        "UNINITIALISED", "act", "reads 16 bytes of shared memory", fill="if (i != 9) " + SLOTS["fill"]
    ),
    "shared memory that is overwritten while it is read": race(
        "wait", f"shared memory is overwritten while the `wgmma` at kernel.cu:{LINE['act']} reads it",
        wait="__syncthreads(); s[i] = make_uint4(i, i, i, i); WAIT(0);",
    ),
    "shared memory that is overwritten by who has waited first": race(
        "wait", "writes shared memory where thread", wait="WAIT(0); s[i] = make_uint4(i, i, i, i);"
    ),
    "a matrix past the end": wrong(
        "OUT_OF_BOUNDS", "act", "of shared memory, which has 2048", sync="__syncthreads(); db += 64;"
    ),
    "half of a warpgroup": wrong(
        "INACTIVE_LANE", "act", "which needs all 128", begin="if (i < 64) { FENCE;", wait="WAIT(0); }"
    ),
    "half of a warpgroup, while the others wait": wrong(
        "BARRIER", "act", "thread 0 of block 0 waits for threads of its warpgroup that never come here",
        begin="if (i < 64) { FENCE;", wait="WAIT(0); } __syncthreads();",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_use_is_named_by_its_line(name):
    slots, fault, slot, text = FAULTS[name]
    found = used(**slots)
    shift = sum(each.count("\n") for each in slots.values())
    assert (fault, LINE[slot] + shift) in [(kind, at) for kind, at, _ in found], found
    assert text in next(each[2] for each in found if each[1] == LINE[slot] + shift)
    assert len(found) == 1 or fault == "BARRIER", found


FINE = {
    "one product": {},
    "who reads shows what others wrote": {"show": "", "begin": "SHOW; FENCE;"},
    "one thread shows what all wrote": {"show": "", "sync": "__syncthreads(); if (i == 5) SHOW; __syncthreads();"},
    "sums that go from product to product": {"commit": SLOTS["act"] + " COMMIT;"},
    "sums that go round a loop": {"begin": "FENCE;\n#pragma unroll 1\n" + LOOP, "commit": "COMMIT; }"},
    "sums that are changed, and a fence": {
        "wait": f"WAIT(0); {DOUBLE} FENCE;",
        "after": SLOTS["act"] + " COMMIT; WAIT(0); " + SLOTS["after"],
    },
    "a later product that is pending": {
        "wait": "float g[8]; for (int n = 0; n < 8; ++n) g[n] = f[n]; FENCE;"
        + SLOTS["act"].replace("f[", "g[")
        + " COMMIT; WAIT(1);"
    },
    "a register of A that is loaded again": {"begin": LOOP + " r[0] = x[n * 128 + i]; FENCE;", "wait": "WAIT(0); }"},
    "shared memory that is overwritten after all have waited": {
        "after": "__syncthreads(); s[i] = make_uint4(i, i, i, i); " + SLOTS["after"]
    },
    "copies that are waited for and shown": {"fill": COPY + ' asm volatile("cp.async.wait_all;" ::: "memory");'},
    "warps that come one after the other": {"begin": "for (int n = 0; n < i / 32; ++n) __nanosleep(1);\nFENCE;"},
    "two warpgroups": {
        "threads": 256,
        "fill": "if (i < 128) " + SLOTS["fill"],
        "after": "if (i < 128) " + SLOTS["after"],
    },
    "one warpgroup of two": {"threads": 256, "fill": "if (i >= 128) return; " + SLOTS["fill"]},
}


@pytest.mark.parametrize("name", FINE)
def test_a_right_use_is_left_alone(name):
    assert used(**FINE[name]) == []


UNKNOWN = {
    "a base offset": {"sync": "__syncthreads(); db |= 1ull << 49;"},
    "a matrix that begins within an atom": {"sync": "__syncthreads(); db += 8;"},
    "a step from one row to the next": {"sync": "__syncthreads(); db += 7;"},
    "descriptors that differ": {"sync": "__syncthreads(); db += i / 64 * 2;"},
    "sums in f16": {
        "act": 'asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 "'
        '"{%0, %1}, {%0, %0, %0, %0}, %2, 1, 1, 1, 0;" '
        ': "+r"(r[0]), "+r"(r[1]) : "l"(db));'
    },
    "bytes": {
        "act": 'asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 "'
        '"{%0, %1, %2, %3}, {%4, %4, %4, %4}, %5, 1;" '
        ': "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]) : "r"(r[0]), "l"(db));'
    },
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_never_guessed(name):
    with pytest.raises(NotInterpretedError, match=rf"kernel\.cu:{LINE['act']}: `wgmma[\w.:]+` cannot be interpreted"):
        used(**UNKNOWN[name])
