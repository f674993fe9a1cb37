"""Tensor cores in the interpreter of PTX: products against NumPy's, tiles moved, and wrong uses found."""

import numpy as np
import pytest
import torch
from ptx_data import findings, run

HEAD = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef unsigned u32;
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
"""

# Operands are taken from global memory word by word, by the layout that the PTX ISA draws: x is A, 16 rows of K, and y
# is the transpose of B, 8 rows of K, both of 16-bit floats, or half as many tf32; z is C and then D, 16 rows of 8 in
# fp32; one a warp.
PRODUCT = """
extern "C" __global__ void product_{kind}_{K}(const u32* x, const u32* y, float* z) {{
  const int lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const u32 *a = x + warp * 16 * {K} / 2, *b = y + warp * 8 * {K} / 2;
  float* c = z + warp * 128;
  float* c0 = c + g * 8 + 2 * t;
  float* c1 = c0 + 64;
  {product}
}}
"""
FROM_GLOBAL = {
    16: "const u32 a0 = a[g * 8 + t], a1 = a[(g + 8) * 8 + t], a2 = a[g * 8 + t + 4], a3 = a[(g + 8) * 8 + t + 4];"
    "\n  const u32 b0 = b[g * 8 + t], b1 = b[g * 8 + t + 4];",
    8: "const u32 a0 = a[g * 4 + t], a1 = a[(g + 8) * 4 + t], b0 = b[g * 4 + t];",
}
OPERANDS = {
    16: ("{%4,%5,%6,%7}, {%8,%9}", '"r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)'),
    8: ("{%4,%5}, {%6}", '"r"(a0), "r"(a1), "r"(b0)'),
}


def mma(kind, k):
    """The statement; its sums are c0[0], c0[1], c1[0] and c1[1]."""
    names, values = OPERANDS[k]
    form = f"m16n8k{8 if kind == 'tf32' else k}.row.col.f32.{kind}.{kind}.f32"
    return (
        f'asm volatile("mma.sync.aligned.{form} {{%0,%1,%2,%3}}, {names}, '
        f'{{%0,%1,%2,%3}};" : "+f"(c0[0]), "+f"(c0[1]), "+f"(c1[0]), "+f"(c1[1]) : {values});'
    )


# Tiles go through shared memory: x holds four a warp, of 32 words each, and z what comes back. In shared memory rows
# are 80 bytes apart and in the reverse order; lanes whose address is not used give one that is not aligned.
MOVES = """
extern "C" __global__ void {name}(const u32* x, const u32* y, u32* z) {{
  __shared__ __align__(16) u32 s[32 * 20 * 2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32* mine = s + warp * 32 * 20;
  x += (blockIdx.x * 2 + warp) * 128; z += (blockIdx.x * 2 + warp) * 128;
  {body}
}}
"""
PLACE = "mine[(31 - n * 8 - lane / 4) * 20 + lane % 4]"
FILL = f"for (int n = 0; n < 4; ++n) {PLACE} = x[n * 32 + lane];\n  __syncwarp();"
ADDRESS = "const u32 row = lane < {rows} ? at(mine + (31 - lane) * 20) : 3;"


def moved(name, count, trans):
    """A body that loads or stores some tiles with one instruction."""
    word, address = ".trans" if trans else "", ADDRESS.format(rows=8 * count)
    parts = "{" + ", ".join(f"%{n if name == 'ldmatrix' else n + 1}" for n in range(count)) + "}"
    v = ", ".join(f'"{"=r" if name == "ldmatrix" else "r"}"(v[{n}])' for n in range(count))
    if name == "ldmatrix":
        opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16"
        act = f'u32 v[4] = {{}};\n  asm volatile("{opcode} {parts}, [%{count}];" : {v} : "r"(row) : "memory");'
        return f"{FILL}\n  {address}\n  {act}\n  for (int n = 0; n < {count}; ++n) z[n * 32 + lane] = v[n];"
    drain = f"__syncwarp();\n  for (int n = 0; n < {count}; ++n) z[n * 32 + lane] = {PLACE};"
    opcode = f"stmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16"
    act = f'asm volatile("{opcode} [%0], {parts};" :: "r"(row), {v} : "memory");'
    values = "u32 v[4]; for (int n = 0; n < 4; ++n) v[n] = x[n * 32 + lane];"
    return f"{values}\n  {address}\n  {act}\n  {drain}"


MOVED = {
    f"{name}_x{count}{'_trans' if trans else ''}": (name, count, trans)
    for name in ("ldmatrix", "stmatrix")
    for count in (1, 2, 4)
    for trans in (False, True)
}
MOVMATRIX = (
    "for (int n = 0; n < 4; ++n) {\n"
    '    u32 v; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(x[n * 32 + lane]));\n'
    "    z[n * 32 + lane] = v;\n  }"
)
PRODUCTS = [*((kind, k) for kind in ("bf16", "f16") for k in (16, 8)), ("tf32", 16)]
SOURCE = (
    HEAD
    + "".join(PRODUCT.format(kind=kind, K=k, product=f"{FROM_GLOBAL[k]}\n  {mma(kind, k)}") for kind, k in PRODUCTS)
    + "".join(MOVES.format(name=name, body=moved(*how)) for name, how in MOVED.items())
    + MOVES.format(name="movmatrix", body=MOVMATRIX)
)
BLOCKS, WARPS = 3, 6
"""Of two warps each; they are all that the kernels above are run for."""
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "tf32": torch.float32}


def drawn(kind, k, *, integers=False, seed=1):
    """A, the transpose of B, and C, of every warp; 16-bit floats as bits. Sums of small integers are always exact."""
    draw = torch.Generator().manual_seed(seed)
    elements = k // 2 if kind == "tf32" else k
    shapes = ((WARPS, 16, elements), (WARPS, 8, elements), (WARPS, 16, 8))
    a, b, c = (
        torch.randint(-9, 10, shape, generator=draw).float() if integers else torch.randn(shape, generator=draw)
        for shape in shapes
    )
    return (*(each.to(TORCH[kind]).view(torch.int16).numpy().view(np.uint16) for each in (a, b)), c.numpy())


def wide(kind, bits):
    if kind == "tf32":  # the last 13 bits are left out
        return (bits.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float)
    return torch.from_numpy(bits.view(np.int16)).view(TORCH[kind]).double().numpy()


def tiles():
    return np.random.default_rng(2).integers(0, 2**16, (WARPS, 4, 8, 8), np.uint16)


def launched(entry, x, y, z):
    out = z.copy()
    found, _ = run(SOURCE, x.copy(), y.copy(), out, entry=entry, blocks=(BLOCKS, 1, 1), threads=64)
    assert found == ()
    return out


@pytest.mark.parametrize(("kind", "k"), PRODUCTS)
def test_a_product_is_that_of_its_operands_rounded_once(kind, k):
    a, b, c = drawn(kind, k)
    expected = (np.einsum("wmk,wnk->wmn", wide(kind, a), wide(kind, b)) + c).astype(np.float32)
    got = launched(f"product_{kind}_{k}", a, b, c)
    np.testing.assert_allclose(got, expected, rtol=2**-23, atol=1e-12)  # NumPy's two orders of doubles may differ
    a, b, c = drawn(kind, k, integers=True)
    got = launched(f"product_{kind}_{k}", a, b, c)
    np.testing.assert_array_equal(got, np.einsum("wmk,wnk->wmn", wide(kind, a), wide(kind, b)) + c)


def test_a_product_of_infinity_and_nan_subnormals_and_what_is_too_large():
    a, b, c = np.zeros((WARPS, 16, 16), np.uint16), np.zeros((WARPS, 8, 16), np.uint16), np.zeros((WARPS, 16, 8), "f4")
    a[:, 0], a[:, 1, 0], a[:, 2, 5], a[:, 3, :2] = 0, 0x7F80, 0x0001, 0x7F00  # infinity, 2^-133, 2^127
    b[:, 0, :6], b[:, 1, :6] = 0x3F80, 0x4000  # 1 and 2
    got = launched("product_bf16_16", a, b, c)[0]
    assert list(got[1, :2]) == [np.inf, np.inf]
    assert got[1, 2:].view(np.uint32).tolist() == [0x7FFFFFFF] * 6  # infinity times zero
    assert list(got[2, :3]) == [2.0**-133, 2.0**-132, 0]
    assert list(got[3, :3]) == [np.inf, np.inf, 0]


@pytest.mark.parametrize("name", MOVED)
def test_tiles_go_through_shared_memory(name):
    _, count, trans = MOVED[name]
    x = tiles()
    got = launched(name, x, x, np.zeros_like(x).view(np.uint32)).view(np.uint16).reshape(x.shape)
    expected = x.swapaxes(2, 3) if trans else x
    np.testing.assert_array_equal(got[:, :count], expected[:, :count])
    assert not got[:, count:].any()


def test_a_tile_is_transposed_in_registers():
    x = tiles()
    got = launched("movmatrix", x, x, np.zeros_like(x).view(np.uint32)).view(np.uint16).reshape(x.shape)
    np.testing.assert_array_equal(got, x.swapaxes(2, 3))


LOAD = '"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"'
USE = """
extern "C" __global__ void k(const u32* x, u32* z) {{
  __shared__ __align__(16) u32 s[128];
  const int i = threadIdx.x;
  u32 v[4] = {{}};
  u32 row = at(s) + i % 32 * 16;
  {before}
  {act}
  {after}
}}
"""
LINE = (HEAD + USE[: USE.index("{act}")]).count("\n") + 1
LOADS = f'asm volatile({LOAD} : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(row) : "memory");'
STORES = (
    'asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" :: "r"(row), "r"(i), "r"(i + 99), '
    '"r"(2 * i), "r"(3 * i) : "memory");'
)
ALL = "for (int n = i; n < 128; n += blockDim.x) s[n] = x[n];"
KEEP = "for (int n = 0; n < 4; ++n) z[n * blockDim.x + i] = v[n];"
FAULTS = {
    "rows that nobody wrote": (
        {"before": "if (i < 16) ((uint4*)s)[i] = ((const uint4*)x)[i]; __syncwarp();", "act": LOADS, "after": KEEP}, {},
        ("UNINITIALISED", 0, "thread 16 of block 0 reads 16 bytes of shared memory that nobody has written"),
    ),
    "a load without a barrier after stores": (
        {"before": ALL + " __syncwarp();", "act": LOADS, "after": KEEP}, {"threads": 64},
        ("RACE", 0, "reads shared memory where thread 32 writes"),
    ),
    "a load without a barrier of the warp": (
        {"before": ALL, "act": LOADS, "after": KEEP}, {},
        ("RACE", 0, "thread 0 of block 0 reads shared memory where thread 1 writes"),
    ),
    "a store over what others load": (
        {"before": ALL + " __syncthreads();", "act": LOADS, "after": "s[(i + 32) % 64] = v[0] + v[1] + i;" + KEEP},
        {"threads": 64}, ("RACE", 1, "writes shared memory where thread"),
    ),
    "stored tiles that are read without a barrier": (
        {"before": "", "act": STORES, "after": "v[0] = s[(i * 4 + 4) % 128]; z[i] = v[0];"}, {},
        ("RACE", 1, "reads shared memory where thread 1 writes at kernel.cu"),
    ),
    "two lanes that store one row": (
        {"before": "row = at(s) + i / 2 * 16;", "act": STORES, "after": "__syncwarp(); z[i] = s[i];"}, {},
        ("RACE", 0, "writes shared memory where thread"),
    ),
    "a copy that is not waited for": (
        {
            "before": 'asm("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(row), "l"(x + 4 * i) : "memory");',
            "act": LOADS,
            "after": KEEP,
        },
        {},
        ("RACE", 0, "without waiting for the copy there"),
    ),
    "a row that is not aligned": (
        {"before": ALL + " __syncwarp(); if (i == 5) row += 8;", "act": LOADS, "after": KEEP}, {},
        ("MISALIGNED", 0, "thread 5 of block 0 reads 16 bytes at an address that is not a multiple of 16"),
    ),
    "a stored row that is not aligned": (
        {"before": "if (i == 9) row += 4;", "act": STORES, "after": "__syncwarp();" + KEEP}, {},
        ("MISALIGNED", 0, "thread 9 of block 0 writes 16 bytes"),
    ),
    "a row past the end": (
        {"before": ALL + " __syncwarp(); row += 16;", "act": LOADS, "after": KEEP}, {},
        ("OUT_OF_BOUNDS", 0, "thread 31 of block 0 reads 16 bytes at byte 512 of shared memory, which has 512"),
    ),
    "half of a warp": (
        {
            "before": ALL + " __syncwarp(); if (i < 16)",
            "act": LOADS,
            "after": "else v[0] = __ballot_sync(~0u, 1);" + KEEP,
        },
        {},
        ("BARRIER", 0, "waits for lanes of its warp that never come here"),
    ),
    "half of a warp, while the others go on to their end": (
        {"before": ALL + " __syncwarp(); if (i < 16)", "act": LOADS, "after": KEEP}, {},
        ("INACTIVE_LANE", 0, "lane 16 never comes to `ldmatrix`, which needs all lanes of the warp"),
    ),
    "lanes that have ended": (
        {"before": ALL + " __syncwarp(); if (i >= 24) return;", "act": LOADS, "after": KEEP}, {},
        ("INACTIVE_LANE", 0, "lane 24 never comes to `ldmatrix`"),
    ),
}  # fmt: skip


def used(parts, **launch):
    x = np.arange(1, 257, dtype=np.uint32)
    return findings(HEAD + USE.format(**parts), x, np.zeros(512, np.uint32), **launch)


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_use_is_named_by_its_line(name):
    parts, launch, (fault, after, text) = FAULTS[name]
    found = used(parts, **launch)
    assert [(kind, at) for kind, at, _ in found] == [(fault, LINE + after)], found
    assert text in found[0][2]


FINE = {
    "a barrier of the block": ({"before": ALL + " __syncthreads();", "act": LOADS, "after": KEEP}, {"threads": 64}),
    "a barrier of the warp": ({"before": ALL + " __syncwarp();", "act": LOADS, "after": KEEP}, {}),
    "a row that its own lane wrote": (
        {"before": "((uint4*)s)[i] = ((const uint4*)x)[i];", "act": LOADS, "after": KEEP},
        {},
    ),
    "warps that part and come one after the other": (
        {"before": ALL + " __syncthreads(); for (int n = 0; n < i; ++n) row += 0;", "act": LOADS, "after": KEEP},
        {"threads": 64},
    ),
    "one warp of two": (
        {"before": ALL + " __syncthreads(); if (i >= 32)", "act": LOADS, "after": KEEP},
        {"threads": 64},
    ),
}


@pytest.mark.parametrize("name", FINE)
def test_a_right_use_is_left_alone(name):
    parts, launch = FINE[name]
    assert used(parts, **launch) == []
