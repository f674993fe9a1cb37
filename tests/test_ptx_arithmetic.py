"""What kernels compute in the interpreter of PTX, held against Python's exact numbers, NumPy and torch."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from ptx_data import compiled, run

from gdnbench.errors import NotInterpretedError

N = 256
BODIES = {
    # of two floats
    "f_divide": ("float", "o[i] = x[i] / y[i];"),
    "f_root": ("float", "o[i] = sqrtf(fabsf(x[i])) + 1.f / x[i];"),
    "f_fma": ("float", "o[i] = fmaf(x[i], y[i], -x[i]);"),
    "f_directed": (
        "float",
        "o[i] = __fadd_rz(x[i], y[i]) + __fmul_rd(x[i], y[i]) - __fsub_ru(x[i], y[i]) + __fmaf_rd(x[i], y[i], 3.f);",
    ),
    "f_extremes": ("float", "o[i] = fminf(x[i], y[i]) + 2.f * fmaxf(x[i], y[i]) + copysignf(4.f, x[i]);"),
    "f_exp": ("float", "o[i] = expf(x[i]);"),
    "f_log1p": ("float", "o[i] = log1pf(fabsf(x[i]));"),
    "f_sin": ("float", "o[i] = sinf(x[i] * 1e6f);"),
    "f_many": ("float", "o[i] = tanhf(x[i]) + powf(fabsf(x[i]), y[i]) + erff(x[i]);"),
    "f_convert": (
        "float",
        "o[i] = (float)(int)(x[i] * 1e9f) + (float)__float2int_rn(x[i]) + (float)(unsigned "
        "char)(int)fabsf(x[i]) + (float)(short)x[i];",
    ),
    "f_saturated": ("float", "o[i] = __saturatef(x[i]) + (float)(unsigned)fmaxf(x[i], 0.f);"),
    "f_half": (
        "float",
        "__half2 h = __floats2half2_rn(x[i], y[i]); h = __hfma2(h, h, h); o[i] = __low2float(h) + __high2float(h);",
    ),
    "f_bfloat": (
        "float",
        "__nv_bfloat162 h = __floats2bfloat162_rn(x[i], y[i]); h = __hmul2(h, __hadd2(h, h)); o[i] "
        "= __low2float(h) - __high2float(h);",
    ),
    "f_packed": (
        "float",
        "unsigned p, q, r; "
        'asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(x[i]), "f"(y[i])); '
        'asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(q) : "f"(x[i]), "f"(y[i])); '
        'asm("fma.rn.bf16x2 %0, %1, %1, %1;" : "=r"(r) : "r"(p)); asm("mul.bf16x2 %0, %0, %1;" : "+r"(r) : "r"(p)); '
        "o[i] = __uint_as_float(i % 3 == 0 ? p : i % 3 == 1 ? q : r);",
    ),
    "f_short": (
        "float",
        "unsigned short p, q; unsigned r; "
        'asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(p) : "f"(x[i]), "f"(y[i])); '
        'asm("cvt.rn.satfinite.relu.e5m2x2.f32 %0, %1, %2;" : "=h"(q) : "f"(x[i]), "f"(y[i])); '
        'asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(p)); o[i] = __uint_as_float(i % 2 ? r : p | q << 16);',
    ),
    "f_compared": (
        "float",
        "__half2 h = __floats2half2_rn(x[i], y[i]), g = __lowhigh2highlow(h), p = __hgt2(h, g); "
        "__nv_bfloat162 s = __floats2bfloat162_rn(x[i], y[i]), t = __lowhigh2highlow(s), q = __hle2(s, t); "
        "o[i] = __low2float(p) + 2 * __high2float(p) + 4 * __low2float(q) + 8 * __high2float(q) + 16 * __hbgt2(h, g) "
        "+ 32 * __popc(__hgt2_mask(h, g));",
    ),
    "f_whole": (
        "float",
        "const float n = x[i] - x[i]; "
        "o[i] = (float)__float2ll_rn(n) + (float)__double2uint_rn(n) + (float)__float2int_rn(n);",
    ),
    "f_exp2": ("float", 'float e; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x[i])); o[i] = e;'),
    "f_vectors": (
        "float",
        "float a, b, c, d, e, f; "
        'asm("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + i / 4 * 4)); '
        'asm("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(e), "=f"(f) : "l"(y + i / 2 * 2)); '
        "o[i] = i % 4 == 0 ? a - f : i % 4 == 1 ? b - e : i % 4 == 2 ? c - f : d - e;",
    ),
    # of two integers
    "i_divide": ("int", "o[i] = x[i] / y[i] * 3 + x[i] % y[i];"),
    "i_high": ("int", "o[i] = __mulhi(x[i], y[i]) ^ (int)__umulhi(x[i], y[i]) ^ __mul24(x[i], y[i]);"),
    "i_bits": ("int", "o[i] = __popc(x[i]) * 1000 + __clz(x[i]) * 10 + __ffs(x[i]);"),
    "i_reverse": ("int", "o[i] = __brev(x[i]) ^ (x[i] >> 3) ^ (int)((unsigned)x[i] >> 5);"),
    "i_funnel": ("int", "o[i] = __funnelshift_l(x[i], y[i], i) ^ __funnelshift_rc(x[i], y[i], i);"),
    "i_bytes": ("int", "o[i] = __byte_perm(x[i], y[i], 0x1462);"),
    "i_logic": (
        "int",
        'int a, b; asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(a) : "r"(x[i]), "r"(y[i]), "r"(i)); '
        'asm("lop3.b32 %0, %1, %2, %3, 0xd8;" : "=r"(b) : "r"(x[i]), "r"(y[i]), "r"(i * 7777)); o[i] = a + b;',
    ),
    "i_permuted": (
        "int",
        'int a; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(a) : "r"(x[i]), "r"(y[i]), "r"(i * 259 + 0x7610)); o[i] = a;',
    ),
    "i_dot": ("int", "o[i] = __dp4a(x[i], y[i], 7);"),
    "i_bfloat": ("int", "o[i] = __float_as_int(__bfloat162float(__int2bfloat16_rn(i % 2 ? x[i] : 0x1010001)));"),
    "i_wide": ("int", "long long p = (long long)x[i] * y[i]; o[i] = (int)(p >> 20) + (int)(p / 1000003ll);"),
    "i_switch": (
        "int",
        "switch ((unsigned)y[i] % 7) { case 0: o[i] = x[i]; break; case 1: o[i] = x[i] * 3; break; "
        "case 2: o[i] = 5; break; case 3: o[i] = x[i] ^ y[i]; break; case 4: o[i] = 77; break; case "
        "5: o[i] = -x[i]; break; default: o[i] = 1; }",
    ),
    "i_loop": (
        "int",
        "int n = 0; for (unsigned v = x[i]; v != 1 && n < 40; ++n) v = v & 1 ? 3 * v + 1 : v / 2; o[i] = n;",
    ),
    # of two doubles
    "d_some": ("double", "o[i] = fma(x[i], y[i], 1.5);"),
    "d_functions": ("double", "o[i] = exp(x[i]) + log(fabs(y[i])) + sin(x[i]);"),
}
SOURCE = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" + "".join(
    f'extern "C" __global__ void {name}(const {kind}* x, const {kind}* y, {kind}* o) {{\n'
    f"  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  {body}\n}}\n"
    for name, (kind, body) in BODIES.items()
)


@pytest.fixture(scope="module")
def floats():
    draw = np.random.default_rng(1)
    x, y = (draw.normal(size=(2, N)) * 3).astype(np.float32)
    x[:6] = [0.0, -0.0, np.inf, 1e-40, 3e38, -7.5]
    return x, y


@pytest.fixture(scope="module")
def integers():
    draw = np.random.default_rng(2)
    x = draw.integers(-(2**31), 2**31, N).astype(np.int32)
    y = draw.integers(-1000, 1000, N).astype(np.int32)
    x[:2], y[y == 0] = [0, -(2**31)], 5
    return x, y


def computed(name, x, y):
    out = np.zeros_like(x)
    found, _ = run(SOURCE, x.copy(), y.copy(), out, entry=name, blocks=(N // 64, 1, 1), threads=64)
    assert found == ()
    return out


def to_int32(values):
    return np.array([int(value) & 0xFFFFFFFF for value in values], dtype=np.uint32).view(np.int32)


def test_what_ieee_rounds_to_nearest_is_equal_to_the_last_bit(floats):
    x, y = floats
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(computed("f_divide", x, y), x / y)
        np.testing.assert_array_equal(computed("f_root", x, y), np.sqrt(np.abs(x)) + np.float32(1) / x)


def nearest_single(value):
    """A fraction rounded once; a double would round twice."""
    guess = np.float32(float(value))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(near, key=lambda each: (abs(Fraction(float(each)) - value), int(each.view(np.uint32)) & 1))


def directed_single(value, *, down):
    guess = np.float32(float(value))
    exact = Fraction(float(guess))
    if down and exact > value:
        return np.nextafter(guess, np.float32(-np.inf))
    return np.nextafter(guess, np.float32(np.inf)) if not down and exact < value else guess


def finite(x, y):
    fine = np.isfinite(x) & np.isfinite(y) & (np.abs(x) < 1e30) & (np.abs(x) > 1e-30)
    return x[fine], y[fine], fine


def test_a_fused_multiply_add_is_rounded_once(floats):
    x, y = floats
    # Products whose sum lies beside the middle of two singles, where rounding twice goes wrong.
    x, y = x.copy(), y.copy()
    x[10:40] = np.float32(1) + np.arange(30, dtype=np.float32) * np.float32(2.0**-23)
    y[10:40] = np.float32(1) + np.float32(2.0**-12)
    got = computed("f_fma", x, y)
    a, b, fine = finite(x, y)
    exact = [Fraction(float(p)) * Fraction(float(q)) - Fraction(float(p)) for p, q in zip(a, b, strict=True)]
    np.testing.assert_array_equal(got[fine], [nearest_single(value) for value in exact])


def test_directed_rounding(floats):
    x, y = floats
    got = computed("f_directed", x, y)
    a, b, fine = finite(x, y)
    expected = []
    for p, q in zip(a, b, strict=True):
        u, v = Fraction(float(p)), Fraction(float(q))
        to_zero = directed_single(u + v, down=u + v > 0)
        product, difference = directed_single(u * v, down=True), directed_single(u - v, down=False)
        fused = directed_single(u * v + 3, down=True)
        expected.append(np.float32(np.float32(np.float32(to_zero + product) - difference) + fused))
    np.testing.assert_array_equal(got[fine], np.array(expected, dtype=np.float32))


def test_extremes_and_conversions(floats):
    x, y = floats
    with np.errstate(all="ignore"):
        expected = np.fmin(x, y) + np.float32(2) * np.fmax(x, y) + np.copysign(np.float32(4), x)
        np.testing.assert_array_equal(computed("f_extremes", x, y), expected)
        limits = np.iinfo(np.int32)
        large = np.clip(np.trunc((x * np.float32(1e9)).astype(float)), limits.min, limits.max).astype(np.int32)
    a, _, fine = finite(x, y)
    expected = large[fine].astype(np.float32) + np.rint(a)
    expected = expected + np.abs(a).astype(np.int32).astype(np.uint8).astype(np.float32)
    expected = expected + a.astype(np.int16).astype(np.float32)
    np.testing.assert_array_equal(computed("f_convert", x, y)[fine], expected)
    np.testing.assert_array_equal(
        computed("f_saturated", x, y)[fine], np.clip(a, 0, 1) + np.maximum(a, 0).astype(np.uint32).astype(np.float32)
    )


@pytest.mark.parametrize(
    ("name", "function", "ulps"),
    [
        ("f_exp", np.exp, 2),
        ("f_exp2", np.exp2, 1),
        ("f_log1p", lambda x: np.log1p(np.abs(x)), 2),
        ("f_sin", lambda x: np.sin((x.astype(np.float32) * np.float32(1e6)).astype(float)), 4),
    ],
)
def test_the_functions_of_cuda_err_as_they_are_documented_to(floats, name, function, ulps):
    x, y = floats
    x = x.copy()
    x[:6] = 1.5
    got, exact = computed(name, x, y), function(x.astype(float))
    assert np.max(np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))) <= ulps


def test_functions_that_branch_by_lane(floats):
    x, y = floats
    a, b, fine = finite(x, y)
    exact = np.tanh(a.astype(float)) + np.abs(a.astype(float)) ** b + [math.erf(each) for each in a.astype(float)]
    np.testing.assert_allclose(computed("f_many", x, y)[fine], exact, rtol=2e-6)


def test_pairs_of_16_bit_floats(floats):
    x, y = (np.clip(each, -50, 50) for each in floats)
    a, b = (each.astype(np.float16).astype(float) for each in (x, y))
    halves = (a * a + a).astype(np.float16).astype(np.float32) + (b * b + b).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(computed("f_half", x, y), halves)
    p, q = (torch.tensor(each).to(torch.bfloat16) for each in (x, y))
    expected = (p * (p + p)).float() - (q * (q + q)).float()
    np.testing.assert_array_equal(computed("f_bfloat", x, y), expected.numpy())


def truncated(p, q):
    return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)


def bits(value):
    return int(value) & 0xFFFFFFFF


def signed_bytes(value):
    return [int.from_bytes(bytes([bits(value) >> 8 * n & 0xFF]), "little", signed=True) for n in range(4)]


def signed_24(value):
    return ((int(value) & 0xFFFFFF) ^ 0x800000) - 0x800000


def funnel(p, q, i):
    joined = bits(q) << 32 | bits(p)
    return ((joined << (i & 31)) >> 32 ^ joined >> min(i, 32)) & 0xFFFFFFFF


def permuted(p, q, i):
    """Each byte of the result is one of eight, or, where the selector's highest bit says so, that byte's sign."""
    given, selector = (bits(q) << 32 | bits(p)).to_bytes(8, "little"), i * 259 + 0x7610
    chosen = [(given[selector >> 4 * n & 7], selector >> 4 * n & 8) for n in range(4)]
    return int.from_bytes(bytes((255 if byte & 128 else 0) if sign else byte for byte, sign in chosen), "little")


def to_bfloat(value):
    """Bits of the nearest bfloat16, of eight digits, as a float."""
    unit = Fraction(2) ** (abs(value).bit_length() - 8) if value else 1
    return int(np.float32(float(round(value / unit) * unit)).view(np.int32))


def collatz(value):
    value, count = bits(value), 0
    while value != 1 and count < 40:
        value, count = (3 * value + 1 & 0xFFFFFFFF if value & 1 else value // 2), count + 1
    return count


CASES = (lambda p, q: p, lambda p, q: 3 * p, lambda p, q: 5, lambda p, q: p ^ q, lambda p, q: 77, lambda p, q: -p)
INTEGERS = {
    "i_divide": lambda p, q, i: truncated(p, q) * 3 + p - truncated(p, q) * q,
    "i_high": lambda p, q, i: p * q >> 32 ^ bits(p) * bits(q) >> 32 ^ signed_24(p) * signed_24(q),
    "i_bits": lambda p, q, i: bits(p).bit_count() * 1000 + (32 - bits(p).bit_length()) * 10 + (p & -p).bit_length(),
    "i_reverse": lambda p, q, i: int(f"{bits(p):032b}"[::-1], 2) ^ p >> 3 ^ bits(p) >> 5,
    "i_funnel": funnel,
    "i_bytes": lambda p, q, i: int.from_bytes(
        bytes((bits(q) << 32 | bits(p)).to_bytes(8, "little")[n] for n in (2, 6, 4, 1)), "little"
    ),
    "i_logic": lambda p, q, i: (p ^ q ^ i) + (q & i * 7777 | p & ~(i * 7777)),
    "i_permuted": permuted,
    "i_dot": lambda p, q, i: 7 + sum(u * v for u, v in zip(signed_bytes(p), signed_bytes(q), strict=True)),
    "i_bfloat": lambda p, q, i: to_bfloat(p if i % 2 else 0x1010001),
    "i_wide": lambda p, q, i: (p * q >> 20) + truncated(p * q, 1000003),
    "i_switch": lambda p, q, i: CASES[bits(q) % 7](p, q) if bits(q) % 7 < 6 else 1,
    "i_loop": lambda p, q, i: collatz(p),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_pythons(integers, name):
    x, y = integers
    expected = [INTEGERS[name](int(p), int(q), i) for i, (p, q) in enumerate(zip(x, y, strict=True))]
    np.testing.assert_array_equal(computed(name, x, y), to_int32(expected))


def test_doubles(floats):
    x, y, _ = finite(*floats)
    x, y = np.resize(x, N).astype(float) * 1.1, np.resize(y, N).astype(float) * 0.7
    exact = [float(Fraction(p) * Fraction(q) + Fraction(3, 2)) for p, q in zip(x, y, strict=True)]
    np.testing.assert_array_equal(computed("d_some", x, y), exact)
    np.testing.assert_allclose(
        computed("d_functions", x, y), np.exp(x) + np.log(np.abs(y)) + np.sin(x), rtol=1e-14, atol=1e-14
    )


def bfloat16(values):
    return torch.as_tensor(values, dtype=torch.float64).to(torch.bfloat16).double().numpy()


def bits_16(values, dtype):
    return torch.from_numpy(values).to(dtype).view(torch.int16).numpy().view(np.uint16).astype(np.uint32)


def test_floats_packed_in_pairs(floats):
    x, y = (np.clip(each, -50, 50) for each in floats)
    got = computed("f_packed", x, y).view(np.uint32)
    halves = {dtype: bits_16(x, dtype) << 16 | bits_16(y, dtype) for dtype in (torch.bfloat16, torch.float16)}
    np.testing.assert_array_equal(got[0::3], halves[torch.bfloat16][0::3])
    np.testing.assert_array_equal(got[1::3], halves[torch.float16][1::3])
    p, q = bfloat16(x), bfloat16(y)
    high, low = (bits_16(bfloat16(bfloat16(each * each + each) * each), torch.bfloat16) for each in (p, q))
    np.testing.assert_array_equal(got[2::3], (high << 16 | low)[2::3])


def test_pairs_are_compared_one_by_one(floats):
    x, y = floats
    single, brief = ([torch.tensor(each).to(dtype) for each in (x, y)] for dtype in (torch.float16, torch.bfloat16))
    over, under = single[0] > single[1], single[1] > single[0]
    expected = over + 2.0 * under + 4 * (brief[0] <= brief[1]) + 8 * (brief[1] <= brief[0])
    expected += 16 * (over & under) + 32 * 16 * (over.float() + under.float())
    np.testing.assert_array_equal(computed("f_compared", x, y), expected.numpy())


def test_a_nan_as_an_integer_of_64_bits_or_of_a_double_is_the_highest_bit_alone(floats):
    x, y = floats
    expected = np.where(np.isinf(x), np.float32(2**31) - np.float32(2**63), np.float32(0))
    np.testing.assert_array_equal(computed("f_whole", x, y), expected)


def test_vectors_of_floats(floats):
    x, y, _ = finite(*floats)
    x, y = np.resize(x, N), np.resize(y, N)
    np.testing.assert_array_equal(computed("f_vectors", x, y), x - y.reshape(-1, 2)[:, ::-1].ravel())


def test_every_body_is_tested():
    held = set(INTEGERS) | {name for name in BODIES if name[0] in "fd"}
    assert held == set(BODIES)


UNKNOWN = {
    "a sum in another block's shared memory": 'asm volatile("red.shared::cluster.add.u32 [%0], 1;" :: "r"(v));',
    "a tensor copy": 'asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%0, {%1}];" :: "l"(x), "r"(0));',
    "a matrix product": (
        'float f[4] = {}; asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 '
        '{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};" : "+f"(f[0]), "+f"(f[1]), '
        '"+f"(f[2]), "+f"(f[3]) : "r"(v)); v = f[0];'
    ),
    "a product summed in f16": (
        'asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%0}, {%0,%0}, {%0}, {%0,%0};" : "+r"(v));'
    ),
    "a product of bytes": (
        'asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%0}, {%0}, {%0}, {%0,%0};" : "+r"(v));'
    ),
    "tiles by a generic address": (
        'asm volatile("{ .reg .b64 p; cvt.u64.u32 p, %0; ldmatrix.sync.aligned.m8n8.x1.b16 {%0}, [p]; }" : "+r"(v));'
    ),
    "a saturated sum": 'asm("add.sat.s32 %0, %0, 5;" : "+r"(v));',
    "a sum with carry": 'asm("add.cc.u32 %0, %0, 5;" : "+r"(v));',
}


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_never_guessed(body):
    source = f'extern "C" __global__ void k(int* x) {{\n int v = threadIdx.x;\n {body}\n x[threadIdx.x] = v;\n}}'
    with pytest.raises(NotInterpretedError, match=r"kernel\.cu:3: `[\w.:]+` cannot be interpreted"):
        run(source, np.zeros(32, dtype=np.int32))


def test_ptx_without_the_kernel_says_what_it_has():
    from gdnbench.ptx.reader import read_program

    with pytest.raises(NotInterpretedError, match="no kernel other"):
        read_program(compiled(SOURCE), "other")


def nth_bit(mask, base, n):
    """As the PTX ISA writes `fns` down."""
    if n == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    place, count = base, abs(n) - 1
    while 0 <= place < 32:
        if mask >> place & 1:
            if count == 0:
                return place
            count -= 1
        place += 1 if n > 0 else -1
    return 0xFFFFFFFF


def test_the_nth_bit_that_is_set_is_found_from_any_place_up_and_down():
    random = np.random.default_rng(5)
    masks = np.concatenate([random.integers(0, 2**32, 200), [0, 1, 2**31, 2**32 - 1]]).astype(np.uint32)
    bases = random.integers(0, 32, len(masks)).astype(np.int32)
    numbers = random.integers(-34, 35, len(masks)).astype(np.int32)
    numbers[::8] = 0
    found = np.zeros(len(masks), dtype=np.uint32)
    run(
        'extern "C" __global__ void k(const unsigned* m, const int* b, const int* n, unsigned* o) {\n'
        "  const int i = threadIdx.x;\n"
        '  asm("fns.b32 %0, %1, %2, %3;" : "=r"(o[i]) : "r"(m[i]), "r"(b[i]), "r"(n[i]));\n}',
        masks, bases, numbers, found, threads=len(masks),
    )  # fmt: skip
    assert found.tolist() == [nth_bit(*map(int, each)) for each in zip(masks, bases, numbers, strict=True)]


def test_floats_of_8_bits_in_pairs(floats):
    x, y = (np.sign(each) * 4 ** np.clip(each, -8, 8) for each in floats)
    got = computed("f_short", x, y).view(np.uint32)
    low, high = (torch.from_numpy(np.clip(each, -448, 448)).to(torch.float8_e4m3fn) for each in (y, x))
    others = (torch.from_numpy(np.clip(each, 0, 57344)).to(torch.float8_e5m2) for each in (y, x))
    packed = [each.view(torch.uint8).numpy().astype(np.uint32) << 8 * n for n, each in enumerate((low, high, *others))]
    wide = [bits_16(each.float().numpy(), torch.float16) << 16 * n for n, each in enumerate((low, high))]
    np.testing.assert_array_equal(got, np.where(np.arange(N) % 2, sum(wide), sum(packed)))


OF_SM_100 = """
extern "C" __global__ void k(const float* x, const float* y, float* o) {
  const int i = threadIdx.x;
  const unsigned long long p = (unsigned long long)__float_as_uint(y[i]) << 32 | __float_as_uint(x[i]);
  unsigned long long r;
  unsigned e;
  asm("fma.rn.f32x2 %0, %1, %1, %1;" : "=l"(r) : "l"(p));
  asm("sub.rn.f32x2 %0, %0, %1;" : "+l"(r) : "l"(p));
  asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %2; cvt.rn.f16x2.e2m1x2 %0, t; }"
      : "=r"(e) : "f"(x[i]), "f"(y[i]));
  o[3 * i] = __uint_as_float(r), o[3 * i + 1] = __uint_as_float(r >> 32), o[3 * i + 2] = __uint_as_float(e);
}"""


def test_pairs_of_singles_and_of_floats_of_4_bits():
    x = np.array([0.25, 0.3, 0.75, 1.25, 2.5, 3.5, 5.0, 5.1, -0.25, -3.5, -9, 1e9, np.nan, np.inf], dtype=np.float32)
    y, out = np.roll(x, 3).copy(), np.zeros(3 * len(x), dtype=np.float32)
    found, _ = run(OF_SM_100, x, y, out, threads=len(x), arch="compute_100a")
    assert found == ()
    for n, each in enumerate((x, y)):
        fused = (each.astype(float) ** 2 + each).astype(np.float32)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(out[n::3], fused - each)
    short = [0, 0.5, 1, 1, 2, 4, 4, 6, 0, -4, -6, 6, 6, 6]
    pairs = out[2::3].copy().view(np.float16).reshape(-1, 2)
    np.testing.assert_array_equal(pairs, np.stack([np.roll(short, 3), short], axis=1))
