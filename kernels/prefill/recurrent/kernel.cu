// One launch for short prompts: the state stays in registers, and TOKENS tokens take one reduction over lanes together.
//
// With S the state before a step of C tokens, and G_j the product of the step's decays up to token j, token j writes
// u_j = beta_j (v_j - G_j S k_j - Σ_{i<j} (G_j / G_i) (k_i·k_j) u_i), and its output is
// scale (G_j S q_j + Σ_{i≤j} (G_j / G_i) (k_i·q_j) u_i). Each S k_j and S q_j needs S alone, so that all sums over lanes
// run side by side, and from one token to the next there is one multiply-add. What is the same for all rows, gates and
// products of keys and queries, is worked out by producer warps, some steps ahead and once for the rows of a block.
#include "prefill.cuh"

namespace {

constexpr int GROUPS = gdn::WARP / LANES;  // of lanes in a warp; neighbouring lanes have neighbouring rows
constexpr int PASS_ROWS = WARPS * GROUPS;
constexpr int BLOCK_ROWS = ROWS * PASS_ROWS;
constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds; they lie LANES quads apart
constexpr int SLOTS = PRODUCERS > 1 ? 2 * PRODUCERS : 4;  // steps in shared memory
constexpr int VALUES = (TOKENS * BLOCK_ROWS + gdn::WARP - 1) / gdn::WARP;  // of v that a producer's lane loads
constexpr int PAIRS = TOKENS * TOKENS;
static_assert(GDN_K == 4 * gdn::WARP, "a producer's lane takes four elements of a key");
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
static_assert(TOKENS <= LANES, "a lane is left with one output of a row");
static_assert(QUADS * TOKENS <= 16 && TOKENS * ROWS <= 8, "two steps' keys and the sums of one fit into registers");

// What the rows of a block need of a step's tokens. After a sequence's end, tokens neither decay nor write.
struct alignas(16) Step {
  float4 k[TOKENS][GDN_K / 4];
  float4 q[TOKENS][GDN_K / 4];
  float value[BLOCK_ROWS][TOKENS];  // beta_j v_j
  float coupling[TOKENS][TOKENS];   // beta_j (G_j / G_i) (k_i·k_j) at [j][i], 0 where i >= j
  float mixing[TOKENS][TOKENS];     // scale (G_j / G_i) (k_i·q_j) at [j][i], 0 where i > j
  float retrieved[TOKENS];          // beta_j G_j
  float shown[TOKENS];              // scale G_j
  float until[TOKENS];              // G_C / G_j
  float kept[TOKENS];               // G_C, every time: a load of 16 bytes finds no gap
};
static_assert(SLOTS * sizeof(Step) < 48 * 1024, "the slots fit into a block's static shared memory");

// A step as a producer warp loads it, long before it is used: nothing here may wait for it.
struct Loaded {
  uint2 k[TOKENS], q[TOKENS];  // a lane has four elements of each
  __nv_bfloat16 v[VALUES];     // of token n / BLOCK_ROWS and row n % BLOCK_ROWS, n = lane, lane + 32, …
  __nv_bfloat16 a, b;          // of token lane % TOKENS
  bool is_token;               // whether there is such a token
};

// Where a block's head stands in the tensors, and its sequence in the tokens.
struct Place {
  const __nv_bfloat16 *q, *k, *v, *a, *b;
  float A_log, dt_bias, scale;
  long long end;
};

__device__ __forceinline__ Loaded load_step(const Place& at, long long first, unsigned lane) {
  Loaded step;
#pragma unroll
  for (int j = 0; j < TOKENS; ++j) {
    const long long place = (first + j) * (GDN_HQ * GDN_K) + lane * 4;
    const bool is_token = first + j < at.end;
    step.k[j] = is_token ? gdn::load_bits(at.k + place) : make_uint2(0, 0);
    step.q[j] = is_token ? gdn::load_bits(at.q + place) : make_uint2(0, 0);
  }
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const unsigned n = lane + i * gdn::WARP, j = n / BLOCK_ROWS, row = n % BLOCK_ROWS;
    step.v[i] = __ushort_as_bfloat16(0);
    if (j < TOKENS && first + j < at.end) step.v[i] = at.v[(first + j) * (GDN_HV * GDN_V) + row];
  }
  const long long token = first + lane % TOKENS;
  step.is_token = token < at.end;
  step.a = step.b = __ushort_as_bfloat16(0);
  if (step.is_token) step.a = at.a[token * GDN_HV], step.b = at.b[token * GDN_HV];
  return step;
}

// The product of the decays of the tokens after `from`, up to `to`.
__device__ __forceinline__ float product(const float (&decay)[TOKENS], int from, int to) {
  float all = 1.f;
#pragma unroll
  for (int j = 0; j < TOKENS; ++j) all *= j > from && j <= to ? decay[j] : 1.f;
  return all;
}

__device__ __forceinline__ void prepare(Step& step, const Loaded& loaded, const Place& at, unsigned lane) {
  float4 k[TOKENS], q[TOKENS];
#pragma unroll
  for (int j = 0; j < TOKENS; ++j) {
    k[j] = step.k[j][lane] = gdn::widen(loaded.k[j]);
    q[j] = step.q[j][lane] = gdn::widen(loaded.q[j]);
  }
  // A table of products: k_i·q_j at [j][i] up to the diagonal, and k_i·k_j at [j][i] above it.
  float dots[PAIRS];
#pragma unroll
  for (int j = 0; j < TOKENS; ++j)
#pragma unroll
    for (int i = 0; i < TOKENS; ++i) dots[j * TOKENS + i] = gdn::dot(k[i], i <= j ? q[j] : k[j]);
  gdn::scatter_sums<gdn::WARP, 1>(dots, lane);

  gdn::Gates gate = gdn::gates(at.A_log, at.dt_bias, loaded.a, loaded.b);
  if (!loaded.is_token) gate = {1.f, 0.f};
  float decay[TOKENS];
#pragma unroll
  for (int j = 0; j < TOKENS; ++j) decay[j] = __shfl_sync(gdn::ALL_LANES, gate.decay, j);
#pragma unroll
  for (int n = 0; n < gdn::scattered<PAIRS, gdn::WARP>; ++n) {
    const int pair = lane * PAIRS / gdn::WARP + n, j = pair / TOKENS, i = pair % TOKENS;
    const float ratio = product(decay, min(i, j), max(i, j)) * dots[n];
    const float write = __shfl_sync(gdn::ALL_LANES, gate.write, max(i, j));
    step.mixing[j][i] = i <= j ? at.scale * ratio : 0.f;
    step.coupling[i][j] = i > j ? write * ratio : 0.f;
  }
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const unsigned n = lane + i * gdn::WARP, j = n / BLOCK_ROWS, row = n % BLOCK_ROWS;
    const float write = __shfl_sync(gdn::ALL_LANES, gate.write, j);
    if (j < TOKENS) step.value[row][j] = write * __bfloat162float(loaded.v[i]);
  }
  if (lane < TOKENS) {
    const float since = product(decay, -1, lane);
    step.retrieved[lane] = gate.write * since;
    step.shown[lane] = at.scale * since;
    step.until[lane] = product(decay, lane, TOKENS);
    step.kept[lane] = product(decay, -1, TOKENS);
  }
}

// A lane's part of each token's row.
__device__ __forceinline__ void load_rows(float4 (&rows)[TOKENS][QUADS], const float4 (&from)[TOKENS][GDN_K / 4],
                                          unsigned part) {
#pragma unroll
  for (int j = 0; j < TOKENS; ++j)
#pragma unroll
    for (int i = 0; i < QUADS; ++i) rows[j][i] = from[j][part + i * LANES];
}

// A lane's place in the work of its block.
struct RowPlace {
  unsigned part;   // of its rows: every LANES-th quad from this one on
  unsigned row;    // the first of its rows in the block; the next is PASS_ROWS further
  unsigned shown;  // the token of a step whose output the lane is left with
  bool shows;      // whether it is the lane that stores it
  __nv_bfloat16* output;
};

// What the tokens of a step do to rows of the state: each is scaled by `kept`, and k_j is added to it so many times.
struct Written {
  float kept, times[ROWS][TOKENS];
};

// The output of a step's tokens, and what they write, from the state before the step.
__device__ __forceinline__ Written write_output(const Step& step, const float4 (&s)[ROWS][QUADS],
                                                const float4 (&k)[TOKENS][QUADS], const RowPlace& at, bool is_token) {
  float sk[ROWS][TOKENS], sq[ROWS][TOKENS];
  float4 q[TOKENS][QUADS];
  load_rows(q, step.q, at.part);
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int j = 0; j < TOKENS; ++j) sk[r][j] = gdn::group_sum<LANES, GROUPS>(gdn::dot_of_quads(s[r], k[j]));
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int j = 0; j < TOKENS; ++j) sq[r][j] = gdn::dot_of_quads(s[r], q[j]);
    gdn::scatter_sums<LANES, GROUPS>(sq[r], threadIdx.x);
  }
  Written written;
  written.kept = step.kept[0];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    float u[TOKENS], result = step.shown[at.shown] * sq[r][0];
#pragma unroll
    for (int j = 0; j < TOKENS; ++j) {
      u[j] = fmaf(-step.retrieved[j], sk[r][j], step.value[at.row + r * PASS_ROWS][j]);
#pragma unroll
      for (int i = 0; i < j; ++i) u[j] = fmaf(-step.coupling[j][i], u[i], u[j]);
      result = fmaf(step.mixing[at.shown][j], u[j], result);
      written.times[r][j] = step.until[j] * u[j];
    }
    if (at.shows && is_token) at.output[r * PASS_ROWS] = __float2bfloat16(result);
  }
  return written;
}

__device__ __forceinline__ void update(float4 (&s)[ROWS][QUADS], const Written& written,
                                       const float4 (&k)[TOKENS][QUADS]) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
      s[r][i] = gdn::scaled(written.kept, s[r][i]);
#pragma unroll
      for (int j = 0; j < TOKENS; ++j) s[r][i] = gdn::add_scaled(s[r][i], written.times[r][j], k[j][i]);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(gdn::WARP*(WARPS + PRODUCERS), 1)
    gdn_prefill_recurrent(GDN_PREFILL_ARGUMENTS) {
  __shared__ Step slots[SLOTS];
  __shared__ gdn::Barrier full[SLOTS], empty[SLOTS];
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const unsigned head = blockIdx.y, key_head = head / (GDN_HV / GDN_HQ), first_row = blockIdx.x * BLOCK_ROWS;
  const long long begin = cu_seqlens[blockIdx.z], end = cu_seqlens[blockIdx.z + 1];
  if (threadIdx.x < SLOTS) {
    gdn::initialise(full[threadIdx.x], 1);
    gdn::initialise(empty[threadIdx.x], WARPS);
  }
  __syncthreads();

  if (warp >= WARPS) {
    const Place at = {q + key_head * GDN_K, k + key_head * GDN_K, v + head * GDN_V + first_row, a + head, b + head,
                      A_log[head], dt_bias[head], scale, end};
    const int producer = warp - WARPS, steps = gdn::uniform(static_cast<int>((end - begin + TOKENS - 1) / TOKENS));
    Loaded next = load_step(at, begin + producer * TOKENS, lane);
    // One step more than there are, without tokens, for the rows to load ahead.
    for (int step = producer; step <= steps; step += PRODUCERS) {
      const Loaded loaded = next;
      next = load_step(at, begin + (step + PRODUCERS) * TOKENS, lane);
      const int slot = step % SLOTS, lap = step / SLOTS;
      if (lap > 0) gdn::wait(empty[slot], (lap - 1) % 2);
      prepare(slots[slot], loaded, at, lane);
      __syncwarp();
      if (lane == 0) gdn::arrive(full[slot]);
    }
    return;
  }

  const unsigned part = lane / GROUPS, row = warp * GROUPS + lane % GROUPS, shown = part * TOKENS / LANES;
  const size_t place =
      ((static_cast<size_t>(blockIdx.z) * GDN_HV + head) * GDN_V + first_row + row) * GDN_K + part * 4;
  float4 s[ROWS][QUADS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      s[r][i] = *reinterpret_cast<const float4*>(state + place + r * PASS_ROWS * GDN_K + i * LANES * 4);

  RowPlace at = {part, row, shown, part % (LANES / TOKENS) == 0,
                 output + (begin + shown) * (GDN_HV * GDN_V) + head * GDN_V + first_row + row};
  const int length = gdn::uniform(static_cast<int>(end - begin)), steps = (length + TOKENS - 1) / TOKENS;
  float4 k_even[TOKENS][QUADS], k_odd[TOKENS][QUADS];
  gdn::wait(full[0], 0);
  if (steps > 0) gdn::wait(full[1], 0);
  load_rows(k_even, slots[0].k, at.part);
  const auto take = [&](int step, const float4(&k4)[TOKENS][QUADS], float4(&k_next)[TOKENS][QUADS]) {
    load_rows(k_next, slots[(step + 1) % SLOTS].k, at.part);
    const Written written = write_output(slots[step % SLOTS], s, k4, at, step * TOKENS + at.shown < length);
    at.output += TOKENS * GDN_HV * GDN_V;
    __syncwarp();
    if (lane == 0) gdn::arrive(empty[step % SLOTS]);
    // So early that hardly ever anybody waits.
    const int ahead = min(step + 2, steps);
    gdn::wait(full[ahead % SLOTS], ahead / SLOTS % 2);
    update(s, written, k4);
  };
  for (int step = 0; step < steps; step += 2) {
    take(step, k_even, k_odd);
    if (step + 1 < steps) take(step + 1, k_odd, k_even);
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      *reinterpret_cast<float4*>(new_state + place + r * PASS_ROWS * GDN_K + i * LANES * 4) = s[r][i];
}
