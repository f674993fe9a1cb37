"""verify-v3: sums that tensor cores cut off, and w as three bf16, are as good as fp32; fewer parts of w are not."""

import pytest
import torch
import torch.nn.functional as F
from planted import CATALOG, drawn
from test_verify_drafts import EACH, OP, SIZES
from verified_kernels import verify_together

from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

QUAD, PAIRS = 4, 4  # lanes that share a row of the state, and pairs of a load of theirs
FP32_BITS, BITS_BELOW = 24, 2


def cut_off(x, exponent, bits):
    """Numbers below 2^exponent, without what is below their first so many bits."""
    unit = torch.exp2((exponent - bits).double())
    return torch.trunc(x / unit) * unit


def mma(a, b, before):
    """A [.., m, 16] times the transpose of B [.., n, 16], both bf16, added to what was before, as Hopper does it.

    Products, and the sum before, are aligned with the largest and cut off two bits below its last in fp32, and their
    sum is cut off to fp32 (Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores, arXiv 2512.07004).
    """
    products = a.double()[..., :, None, :] * b.double()[..., None, :, :]
    terms = torch.cat([products, before[..., None]], -1)
    largest = torch.frexp(terms.abs().amax(-1, keepdim=True)).exponent
    total = cut_off(terms, largest, FP32_BITS + BITS_BELOW).sum(-1)
    return cut_off(total, torch.frexp(total).exponent, FP32_BITS)


def dot_products(rows, vectors):
    """Rows [.., m, K] times vectors [.., n, K] by two chains, each with every other pair of each lane's loads."""
    rows, vectors = (each.unflatten(-1, (-1, QUAD, PAIRS, 2)) for each in (rows, vectors))
    shape = torch.broadcast_shapes(rows.shape[:-5], vectors.shape[:-5])
    chains = torch.zeros(2, *shape, rows.shape[-5], vectors.shape[-5], dtype=torch.float64)
    for span in range(rows.shape[-4]):
        for chain in range(2):
            a, b = (each[..., span, :, chain::2, :].flatten(-3) for each in (rows, vectors))
            chains[chain] = mma(a, b, chains[chain])
    return chains.sum(0).float()


def parts_of(x, count):
    """The first of the bf16 whose sum a float is: three are all of it."""
    parts = []
    for _ in range(count):
        parts.append((x.view(torch.int32) & -65536).view(torch.float32))
        x = x - parts[-1]
    return parts


def heads_of(t):
    """Queries and keys [N, HV, T, K] as they are, and values."""
    HV, V, K = t["pool"].shape[1:]
    HQ = (t["mixed_qkv"].shape[2] - HV * V) // (2 * K)
    q, k, v = t["mixed_qkv"].float().split((HQ * K, HQ * K, HV * V), dim=-1)
    q, k = (each.unflatten(-1, (HQ, K)).repeat_interleave(HV // HQ, dim=2).transpose(1, 2) for each in (q, k))
    return q, k, v.unflatten(-1, (HV, V)).transpose(1, 2)


def by_tensor_cores(t, scale, beta_limit, parts=3):
    """The outputs in verify-v3's arithmetic, w as so many bf16, and each state in fp32, before it is rounded."""
    q, k, v = heads_of(t)
    first, live = t["pool"][t["slot"].clamp(min=0).long()].float(), t["slot"] > 0
    g = torch.exp(-torch.exp(t["A_log"]) * F.softplus(t["a"].float() + t["dt_bias"])).transpose(1, 2)
    beta = (beta_limit * torch.sigmoid(t["b"].float())).transpose(1, 2)
    kk, qk, qq, keys, queries = (dot_products(*each) for each in ((k, k), (q, k), (q, q), (first, k), (first, q)))
    k_norm, q_norm = ((each.diagonal(dim1=-2, dim2=-1) + 1e-6).rsqrt() for each in (kk, qq))
    written, outputs, states = [], [], []
    for i in range(g.shape[-1]):
        decay = [g[..., j + 1 : i + 1].prod(-1) for j in range(i + 1)]
        whole, write = g[..., : i + 1].prod(-1), beta[..., i] * k_norm[..., i]
        w = write[..., None] * v[..., i, :] - (write * k_norm[..., i] * whole)[..., None] * keys[..., i]
        result = (q_norm[..., i] * scale * whole)[..., None] * queries[..., i]
        for j in range(i):
            w = w - (write * k_norm[..., i] * decay[j] * kk[..., i, j])[..., None] * written[j]
        written.append(w)
        for j in range(i + 1):
            result = result + (q_norm[..., i] * scale * decay[j] * qk[..., i, j])[..., None] * written[j]
        outputs.append(result)
        shares = [parts_of(decay[j][..., None] * written[j], parts) for j in range(i + 1)]
        update = torch.zeros(first.shape, dtype=torch.float64)
        for begin in range(0, i + 1, 4):  # of tokens whose parts one mma takes
            some = slice(begin, min(begin + 4, i + 1))
            a = torch.stack([part for share in shares[some] for part in share], -1)
            update = mma(a, k[..., some, :].repeat_interleave(parts, dim=-2).transpose(-1, -2), update)
        states.append((whole[..., None, None].double() * first.double() + update).float())
    output, kept = torch.stack(outputs, 1), torch.stack(states, 1)
    output = torch.where(live[:, None, None, None], output, 0.0).bfloat16()
    return {"output": output, "states": torch.where(live[:, None, None, None, None], kept, 0.0)}


def worst(scenario, parts=3, rounded=lambda states: states, **sizes):
    """The largest error as a share of the limit, of states that are `rounded`."""
    workspace, right = drawn("verify", scenario, B=2, KEEP=EACH, STATE=16, **SIZES, **sizes)
    outputs = by_tensor_cores(workspace.inputs, **workspace.scalars, parts=parts)
    outputs["states"] = rounded(outputs["states"])
    found = {
        gate: roundoff_error(gate, outputs[gate.tensor], right.outputs[gate.tensor], right.roundoff[gate.tensor])
        for gate in OP.gates
    }
    return max(float(error.max()) / gate.limit for gate, error in found.items())


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(("tokens", "beta"), [(4, 1), (8, 2)])
def test_sums_that_tensor_cores_cut_off_pass_by_far(scenario, tokens, beta):
    assert worst(scenario, T=tokens, BETA=beta) < 0.3


@pytest.mark.parametrize("parts", [1, 2])
def test_w_as_fewer_than_three_bf16_fails(parts):
    assert worst("typical", parts, torch.Tensor.bfloat16) > 1


FEW_ROWS = "verify-v3:ROWS=8:MOST_SHARES=4:WARPS=4"
MORE_ROWS = "verify-v3:ROWS=16:MOST_SHARES=1:WARPS=8"


@pytest.mark.parametrize(
    ("shape", "kernels"),
    [
        ("T=1 keep=last heads=qk1_v2 V=32", (FEW_ROWS,)),
        ("T=3 keep=each heads=qk1_v2 V=32", (MORE_ROWS,)),
        ("T=4 keep=last heads=qk1_v2 V=32", (FEW_ROWS, MORE_ROWS)),
        ("T=5 keep=each heads=qk1_v2 V=32", (FEW_ROWS,)),
        ("T=8 keep=last heads=qk1_v2 V=32", (MORE_ROWS,)),
        ("T=4 keep=each HQ=1 HV=1 K=96 V=48 BETA=2", (FEW_ROWS, MORE_ROWS)),
    ],
)
def test_verify_v3_is_right_where_there_is_no_gpu(shape, kernels):
    found = verify_together(kernels, "B=2", "state=bf16", *shape.split())
    assert all(statuses == {"ok"} for statuses in found.values()), found


def test_it_says_what_it_cannot_do():
    check = CATALOG.entries["verify-v3"].kernel.check
    for shape, reason in (
        (Shape(STATE=32), "states have 32 bits"),
        (Shape(STATE=16, K=80), "K=80 is no multiple of 32"),
        (Shape(STATE=16, V=24), "V=24 none of 16"),
    ):
        assert reason in check(OP.workload(shape))
    assert not check(OP.workload(Shape(STATE=16, K=96, V=192, KEEP=EACH)))
