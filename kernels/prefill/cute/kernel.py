"""One launch for short prompts: prefill-recurrent's work, with the state in registers from the first token to the last.

With S the state before a step of C tokens, and G_j the product of the step's decays up to token j, token j writes
u_j = beta_j (v_j - G_j S k_j - Σ_{i<j} (G_j / G_i) (k_i·k_j) u_i), and its output is
scale (G_j S q_j + Σ_{i≤j} (G_j / G_i) (k_i·q_j) u_i). What is the same for all rows, gates and products of keys and
queries, is worked out by producer warps, some steps ahead and once for the rows of a block.
"""

from dataclasses import dataclass

import cutlass
from cutlass import BFloat16, Constexpr, Float32, Int32, Int64, Uint32, cute, range_constexpr, select_
from cutlass.memory import SmemAllocator

WARP = 32


@dataclass(frozen=True)
class Slots:
    """Steps in shared memory, a slot each, by the last axis. After a sequence's end tokens neither decay nor write."""

    k: cute.Tensor  # [4, quads of a lane, LANES, TOKENS, slots]: quads of a lane lie LANES apart
    q: cute.Tensor
    value: cute.Tensor  # [TOKENS, rows of the block, slots]: beta_j v_j
    coupling: cute.Tensor  # [TOKENS, TOKENS, slots]: beta_j (G_j / G_i) (k_i·k_j) at (i, j), 0 where i >= j
    mixing: cute.Tensor  # likewise: scale (G_j / G_i) (k_i·q_j), 0 where i > j
    retrieved: cute.Tensor  # [TOKENS, slots]: beta_j G_j
    shown: cute.Tensor  # scale G_j
    until: cute.Tensor  # G_C / G_j
    kept: cute.Tensor  # G_C, every time
    full: cute.Pointer  # barriers, one a slot
    empty: cute.Pointer
    count: int

    def of(self, step: Int32) -> Int32:
        """The slot of a step."""
        return step & (self.count - 1)

    def parity(self, step: Int32) -> Int32:
        """Of the lap over all slots in which a step has its own."""
        return (step >> (self.count.bit_length() - 1)) & 1


@dataclass(frozen=True)
class Place:
    """A block's head in the tensors, and its sequence in the tokens. The last axis of a tensor is the token."""

    k: cute.Tensor  # [4, lanes of a warp, T]
    q: cute.Tensor
    v: cute.Tensor  # [rows of the block, T]
    a: cute.Tensor  # [T]
    b: cute.Tensor
    output: cute.Tensor  # [rows of the block, T]
    A_log: Float32
    dt_bias: Float32
    scale: Float32
    begin: Int64
    end: Int64


@dataclass(frozen=True)
class Loaded:
    """A step in a producer's registers, as it was loaded."""

    k: cute.Tensor  # [4, TOKENS]
    q: cute.Tensor
    v: cute.Tensor  # of token n // rows and row n % rows of the block, n = lane, lane + 32, …
    gates: cute.Tensor  # a and b of token lane % TOKENS

    @property
    def all(self) -> tuple[cute.Tensor, ...]:
        """All of them, each in registers."""
        return self.k, self.q, self.v, self.gates


def check_sizes(K: int, V: int, block_rows: int, TOKENS: int, LANES: int, ROWS: int) -> None:
    if K != 4 * WARP or V % block_rows:
        raise ValueError("a producer's lane takes four elements of a key, and a block's rows are of one head")
    if K // 4 // LANES * TOKENS > 16 or TOKENS * ROWS > 8:
        raise ValueError("two steps' keys and the sums of one do not fit into registers")


def registers(tokens: int, rows: int) -> Loaded:
    shapes = (4, tokens), (4, tokens), -(-tokens * rows // WARP), 2
    return Loaded(*(cute.make_rmem_tensor(shape, BFloat16) for shape in shapes))


def in_slots(place: cute.Pointer, layouts: tuple[cute.Layout, ...], count: int) -> list[cute.Tensor]:
    """Tensors that lie one behind the other in each slot, so that a slot has one address; the last axis is the slot."""
    slots = cute.make_layout(count, stride=sum(cute.size(layout) for layout in layouts))
    tensors, first = [], 0
    for layout in layouts:
        tensors.append(cute.make_tensor(place + first, cute.append(layout, slots)))
        first += cute.size(layout)
    return tensors


def fma(x: Float32, y: Float32, z: Float32) -> Float32:
    return cute.math.fma(x, y, z)


def floats(tensor: cute.Tensor) -> list[Float32]:
    return [tensor[i] for i in range(cute.size(tensor))]


def widened(narrow: cute.Tensor) -> list[Float32]:
    """bf16 as floats: the upper halves of words that are zero below."""
    wide = cute.make_rmem_tensor(narrow.layout, Float32)
    pairs, words = cute.recast_tensor(narrow, Uint32), cute.recast_tensor(wide, Uint32)
    for i in range(cute.size(pairs)):
        words[2 * i], words[2 * i + 1] = pairs[i] << 16, pairs[i] & Uint32(0xFFFF0000)
    return floats(wide)


def dot(x: list[Float32], y: list[Float32]) -> Float32:
    """The sum of products in four chains of multiply-adds, of four products in one."""
    chains = 4 if len(x) > 4 else 1
    sums = [x[i] * y[i] for i in range(chains)]
    for i in range(chains, len(x)):
        sums[i % chains] = fma(x[i], y[i], sums[i % chains])
    return (sums[0] + sums[1]) + (sums[2] + sums[3]) if chains == 4 else sums[0]


def group_sum(x: Float32, lanes: int, stride: int) -> Float32:
    """The sum over groups of `lanes` lanes that lie `stride` lanes apart, in every lane."""
    while lanes > 1:
        lanes //= 2
        x += cute.arch.shuffle_sync_bfly(x, lanes * stride)
    return x


def scattered_sums(x: list[Float32], lane: Int32, lanes: int, stride: int = 1) -> list[Float32]:
    """Sums over such groups, with about as many shuffles as there are sums: a lane gives its partner half of its own.

    The lane numbered n in its group is left with those from n * len(x) / lanes on, one at least.
    """
    while lanes > 1:
        lanes //= 2
        given = kept = x
        if len(x) > 1:
            is_upper = (lane & lanes * stride) != 0
            halves = list(zip(x[: len(x) // 2], x[len(x) // 2 :], strict=True))
            given = [select_(is_upper, low, high) for low, high in halves]
            kept = [select_(is_upper, high, low) for low, high in halves]
        x = [own + cute.arch.shuffle_sync_bfly(other, lanes * stride) for own, other in zip(kept, given, strict=True)]
    return x


def gates(at: Place, a: Float32, b: Float32) -> tuple[Float32, Float32]:
    """The decay exp(-exp(A_log) softplus(a + dt_bias)), and the write gate, sigmoid(b)."""
    x = a + at.dt_bias
    softplus = cute.arch.fmax(x, Float32(0.0)) + cute.math.log1p(cute.math.exp(-cute.arch.fmax(x, -x)))
    return cute.math.exp(-cute.math.exp(at.A_log) * softplus), 1.0 / (1.0 + cute.math.exp(-b))


def product(decays: list[Float32], after: Int32, to: Int32) -> Float32:
    """The product of the decays of the tokens after `after`, up to `to`."""
    result = Float32(1.0)
    for j, decay in enumerate(decays):
        result = result * select_((after < j) & (to >= j), decay, Float32(1.0))
    return result


@cute.jit
def load(to: Loaded, at: Place, first: Int64, lane: Int32) -> None:
    """Loads a step whose first token is `first`; zeros for tokens that the sequence does not have."""
    tokens, rows = cute.size(to.k, mode=[1]), cute.size(at.v, mode=[0])
    for each in to.all:
        each.fill(0.0)
    for j in range_constexpr(tokens):
        if first + j < at.end:
            cute.autovec_copy(at.k[None, lane, first + j], to.k[None, j])
            cute.autovec_copy(at.q[None, lane, first + j], to.q[None, j])
    for i in range_constexpr(cute.size(to.v)):
        n = lane + i * WARP
        if first + n // rows < at.end:
            to.v[i] = at.v[n % rows, first + n // rows]
    token = first + lane % tokens
    if token < at.end:
        to.gates[0] = at.a[token]
        to.gates[1] = at.b[token]


@cute.jit
def prepare(slots: Slots, slot: Int32, loaded: Loaded, at: Place, is_token: cutlass.Boolean, lane: Int32) -> None:
    """Works out a step for its slot; `is_token`: whether there is a token lane % TOKENS of it."""
    tokens, rows = cute.size(loaded.k, mode=[1]), cute.size(slots.value, mode=[1])
    lanes = cute.size(slots.k, mode=[2])
    keys, queries = ([widened(each[None, j]) for j in range(tokens)] for each in (loaded.k, loaded.q))
    for each, shared in ((keys, slots.k), (queries, slots.q)):
        for j in range_constexpr(tokens):
            wide = cute.make_rmem_tensor(4, Float32)
            for i in range_constexpr(4):
                wide[i] = each[j][i]
            cute.autovec_copy(wide, shared[None, lane // lanes, lane % lanes, j, slot])
    # A table of products: k_i·q_j at [j][i] up to the diagonal, and k_i·k_j at [j][i] above it.
    pairs = [dot(keys[i], queries[j] if i <= j else keys[j]) for j in range(tokens) for i in range(tokens)]
    count = len(pairs)
    pairs = scattered_sums(pairs, lane, WARP)

    decay, write = gates(at, loaded.gates[0].to(Float32), loaded.gates[1].to(Float32))
    decay, write = select_(is_token, decay, Float32(1.0)), select_(is_token, write, Float32(0.0))
    decays = [cute.arch.shuffle_sync(decay, j) for j in range(tokens)]
    for n in range_constexpr(len(pairs)):
        pair = lane * count // WARP + n
        i, j = pair % tokens, pair // tokens
        earlier, later = cutlass.min(i, j), cutlass.max(i, j)
        ratio = product(decays, earlier, later) * pairs[n]
        write_later = cute.arch.shuffle_sync(write, later)
        slots.mixing[i, j, slot] = select_(i <= j, at.scale * ratio, Float32(0.0))
        slots.coupling[j, i, slot] = select_(i > j, write_later * ratio, Float32(0.0))
    for i in range_constexpr(cute.size(loaded.v)):
        n = lane + i * WARP
        value = cute.arch.shuffle_sync(write, n // rows) * loaded.v[i].to(Float32)
        if n < tokens * rows:
            slots.value[n // rows, n % rows, slot] = value
    if lane < tokens:
        since = product(decays, Int32(-1), lane)
        slots.retrieved[lane, slot] = write * since
        slots.shown[lane, slot] = at.scale * since
        slots.until[lane, slot] = product(decays, lane, Int32(tokens))
        slots.kept[lane, slot] = product(decays, Int32(-1), Int32(tokens))


@cute.jit
def arrive(barrier: cute.Pointer, lane: Int32) -> None:
    """Of a warp, once all its lanes are here."""
    cute.arch.sync_warp()
    if lane == 0:
        cute.arch.mbarrier_arrive(barrier)


@cute.jit
def produce(slots: Slots, at: Place, steps: Int32, producer: Int32, lane: Int32, PRODUCERS: Constexpr) -> None:
    """Prepares every PRODUCERS-th step, and one more than there are, without tokens, for the rows to load ahead."""
    tokens, rows = cute.size(slots.value, mode=[0]), cute.size(slots.value, mode=[1])
    ahead, now = registers(tokens, rows), registers(tokens, rows)
    load(ahead, at, at.begin + producer * tokens, lane)
    for step in cutlass.range(producer, steps + 1, PRODUCERS, unroll=1):
        for to, each in zip(now.all, ahead.all, strict=True):
            to.store(each.load())
        first, slot = at.begin + step * tokens, slots.of(step)
        load(ahead, at, first + PRODUCERS * tokens, lane)
        if step >= slots.count:
            cute.arch.mbarrier_wait(slots.empty + slot, 1 - slots.parity(step))
        prepare(slots, slot, now, at, first + lane % tokens < at.end, lane)
        arrive(slots.full + slot, lane)


@cute.jit
def take(
    step: Int32, steps: Int32, slots: Slots, at: Place, s: cute.Tensor, keys: cute.Tensor, next_keys: cute.Tensor,
    lane: Int32, part: Int32, row: Int32,
) -> None:  # fmt: skip
    """Takes a step: its outputs, and what its tokens write, from the state before it; loads the next step's keys."""
    tokens, lanes = cute.size(slots.value, mode=[0]), cute.size(slots.k, mode=[2])
    groups, rows, slot = WARP // lanes, cute.size(s, mode=[2]), slots.of(step)
    pass_rows = cute.size(slots.value, mode=[1]) // rows
    cute.autovec_copy(slots.k[None, None, part, None, slots.of(step + 1)], next_keys)
    queries = cute.make_rmem_tensor(keys.layout, Float32)
    cute.autovec_copy(slots.q[None, None, part, None, slot], queries)
    k, q = ([floats(each[None, None, j]) for j in range(tokens)] for each in (keys, queries))
    states = [floats(s[None, None, r]) for r in range(rows)]
    sk = [[group_sum(dot(state, k[j]), lanes, groups) for j in range(tokens)] for state in states]
    sq = [scattered_sums([dot(state, q[j]) for j in range(tokens)], lane, lanes, groups)[0] for state in states]

    shown = part * tokens // lanes  # the token whose output the lane is left with
    token = at.begin + step * tokens + shown
    shows = (part % (lanes // tokens) == 0) & (token < at.end)
    retrieved, until = floats(slots.retrieved[None, slot]), floats(slots.until[None, slot])
    coupling = [floats(slots.coupling[None, j, slot]) for j in range(tokens)]
    mixing, kept = floats(slots.mixing[None, shown, slot]), slots.kept[0, slot]
    show = slots.shown[shown, slot]
    times = []
    for r in range_constexpr(rows):
        values, u, result = floats(slots.value[None, row + r * pass_rows, slot]), [], show * sq[r]
        for j in range_constexpr(tokens):
            written = fma(-retrieved[j], sk[r][j], values[j])
            for i in range_constexpr(j):
                written = fma(-coupling[j][i], u[i], written)
            u.append(written)
            result = fma(mixing[j], written, result)
        times.append([until[j] * u[j] for j in range(tokens)])
        if shows:
            at.output[row + r * pass_rows, token] = result.to(BFloat16)
    arrive(slots.empty + slot, lane)
    # So early that hardly ever anybody waits.
    ahead = cutlass.min(step + 2, steps)
    cute.arch.mbarrier_wait(slots.full + slots.of(ahead), slots.parity(ahead))
    for r in range_constexpr(rows):
        for i in range_constexpr(len(states[r])):
            new = kept * states[r][i]
            for j in range_constexpr(tokens):
                new = fma(times[r][j], k[j][i], new)
            s[None, None, r][i] = new


@cute.jit
def go_through(
    slots: Slots, at: Place, steps: Int32, state: cute.Tensor, new_state: cute.Tensor, lane: Int32, part: Int32,
    row: Int32,
) -> None:  # fmt: skip
    """Takes a lane's part of its rows of the state [4, quads, rows] through all steps."""
    s = cute.make_rmem_tensor(state.shape, Float32)
    cute.autovec_copy(state, s)
    shape = (*s.shape[:2], cute.size(slots.value, mode=[0]))
    even, odd = (cute.make_rmem_tensor(shape, Float32) for _ in range(2))
    cute.arch.mbarrier_wait(slots.full, 0)
    if steps > 0:
        cute.arch.mbarrier_wait(slots.full + 1, 0)
    cute.autovec_copy(slots.k[None, None, part, None, 0], even)
    for step in cutlass.range(0, steps, 2, unroll=1):
        take(step, steps, slots, at, s, even, odd, lane, part, row)
        if step + 1 < steps:
            take(step + 1, steps, slots, at, s, odd, even, lane, part, row)
    cute.autovec_copy(s, new_state)


@cute.kernel
def gdn_prefill_cute(
    q: cute.Pointer, k: cute.Pointer, v: cute.Pointer, state: cute.Pointer, A_log: cute.Pointer,
    dt_bias: cute.Pointer, a: cute.Pointer, b: cute.Pointer, cu_seqlens: cute.Pointer, scale: Float32,
    output: cute.Pointer, new_state: cute.Pointer, T: Int64, N: Int64,
    HQ: Constexpr, HV: Constexpr, K: Constexpr, V: Constexpr,
    TOKENS: Constexpr, LANES: Constexpr, ROWS: Constexpr, WARPS: Constexpr, PRODUCERS: Constexpr,
) -> None:  # fmt: skip
    groups = WARP // LANES  # of lanes in a warp; neighbouring lanes have neighbouring rows
    pass_rows = WARPS * groups
    block_rows = ROWS * pass_rows
    check_sizes(K, V, block_rows, TOKENS, LANES, ROWS)
    quads = K // 4 // LANES
    count = max(2 * PRODUCERS, 4)
    thread = cute.arch.thread_idx()[0]
    lane, warp = thread % WARP, cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile, head, sequence = cute.arch.block_idx()
    key_head = head // (HV // HQ)
    ends = cute.make_tensor(cu_seqlens, cute.make_layout(N + 1))
    begin, end = ends[sequence], ends[sequence + 1]

    rows_of_k = cute.make_layout((4, quads, LANES, TOKENS), stride=(1, 4 * LANES, 4, K))
    shapes = (TOKENS, block_rows), (TOKENS, TOKENS), TOKENS
    of_rows, of_pairs, of_tokens = (cute.make_layout(shape) for shape in shapes)
    layouts = (rows_of_k, rows_of_k, of_rows, of_pairs, of_pairs, *4 * (of_tokens,))
    floats = cute.make_layout(count * sum(cute.size(each) for each in layouts))
    shared = SmemAllocator()
    place = shared.allocate_tensor(Float32, floats, 16).iterator
    barriers = [shared.allocate_array(Int64, count) for _ in range(2)]
    slots = Slots(*in_slots(place, layouts, count), *barriers, count)
    if thread < count:
        cute.arch.mbarrier_init(slots.full + thread, 1)
        cute.arch.mbarrier_init(slots.empty + thread, WARPS)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    keys = cute.make_layout((4, WARP, HQ, T), stride=(1, 4, K, HQ * K))
    rows = cute.make_layout((block_rows, V // block_rows, HV, T), stride=(1, block_rows, V, HV * V))
    gates_of = cute.make_layout((HV, T), stride=(1, HV))
    at = Place(
        *(cute.make_tensor(each, keys)[None, None, key_head, None] for each in (k, q)),
        cute.make_tensor(v, rows)[None, tile, head, None],
        *(cute.make_tensor(each, gates_of)[head, None] for each in (a, b)),
        cute.make_tensor(output, rows)[None, tile, head, None],
        *(cute.make_tensor(each, cute.make_layout(HV))[head] for each in (A_log, dt_bias)),
        scale,
        begin,
        end,
    )
    steps = cute.arch.make_warp_uniform(((end - begin).to(Int32) + TOKENS - 1) // TOKENS)
    if warp >= WARPS:
        produce(slots, at, steps, warp - WARPS, lane, PRODUCERS)
    else:
        part, row = lane // groups, warp * groups + lane % groups
        states = cute.make_layout(
            (4, quads, LANES, pass_rows, ROWS, V // block_rows, HV, N),
            stride=(1, 4 * LANES, 4, K, pass_rows * K, block_rows * K, V * K, HV * V * K),
        )
        own, new = (
            cute.make_tensor(each, states)[None, None, part, row, None, tile, head, Int64(sequence)]
            for each in (state, new_state)
        )
        go_through(slots, at, steps, own, new, lane, part, row)
