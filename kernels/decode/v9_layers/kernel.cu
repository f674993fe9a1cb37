// v9 for the layers of a model in one launch. `gdn_decode_v9_layers` is one layer, an ordinary kernel of the op.
// `gdn_decode_v9_layers_walk`, which `gdnbench step` launches, goes over all layers with a barrier of the whole grid
// between two: no layer begins before all of the one in front has ended, but for its state, which depends on an earlier
// step alone and is asked for before the barrier. All blocks must be resident at once.
#include "gdn.cuh"

constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");

// A tile is the rows that a block works on.
struct Place {
  unsigned lane, value, head_of_batch, head, key;
  size_t quad;

  __device__ __forceinline__ explicit Place(unsigned tile) {
    lane = threadIdx.x % LANES;  // its quads lie LANES quads apart
    value = tile * BLOCK_ROWS + threadIdx.x / LANES;
    head_of_batch = tile / (GDN_V / BLOCK_ROWS);
    head = head_of_batch % GDN_HV;
    key = head_of_batch / (GDN_HV / GDN_HQ) * GDN_K + lane * 4;
    quad = static_cast<size_t>(value) * (GDN_K / 4) + lane;
  }
};

// Volatile, so that it is asked for here and not past the barrier that follows.
__device__ __forceinline__ void load_state(float4 (&s)[QUADS], const float* state, Place at) {
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(s[i].x), "=f"(s[i].y), "=f"(s[i].z), "=f"(s[i].w)
                 : "l"(reinterpret_cast<const float4*>(state) + at.quad + i * LANES));
}

__device__ __forceinline__ void update(const float4 (&s)[QUADS], Place at, const __nv_bfloat16* q,
                                       const __nv_bfloat16* k, const __nv_bfloat16* v, const float* A_log,
                                       const float* dt_bias, const __nv_bfloat16* a, const __nv_bfloat16* b,
                                       float scale, __nv_bfloat16* output, float* new_state, int batches) {
  uint2 k_bits[QUADS], q_bits[QUADS];
  float4 k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k_bits[i] = gdn::load_bits(k + at.key + i * LANES * 4);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) q_bits[i] = gdn::load_bits(q + at.key + i * LANES * 4);
  const float A = A_log[at.head], bias = dt_bias[at.head];
  const __nv_bfloat16 a_head = a[at.head_of_batch], b_head = b[at.head_of_batch], v_row = v[at.value];
  gdn::loads_first(batches);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k4[i] = gdn::widen(k_bits[i]);
    q4[i] = gdn::widen(q_bits[i]);
  }
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4));
  const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4));
  const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
  const gdn::Gates gate = gdn::short_gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head));
  const float delta = gate.write * fmaf(-gate.decay, sk, __bfloat162float(v_row));
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
    reinterpret_cast<float4*>(new_state)[at.quad + i * LANES] =
        gdn::add_scaled(gdn::scaled(gate.decay, s[i]), delta, k4[i]);
  if (at.lane == 0) output[at.value] = __float2bfloat16(scale * fmaf(gate.decay, sq, delta * qk));
}

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_v9_layers(GDN_DECODE_ARGUMENTS) {
  const Place at(blockIdx.x);
  float4 s[QUADS];
  load_state(s, state, at);
  update(s, at, q, k, v, A_log, dt_bias, a, b, scale, output, new_state, batches);
}

// The op's arguments of a layer, 8 bytes each, in their order.
struct Layer {
  const __nv_bfloat16 *q, *k, *v;
  const float *state, *A_log, *dt_bias;
  const __nv_bfloat16 *a, *b;
  float scale, padding;
  __nv_bfloat16* output;
  float* new_state;
  int batches, more_padding;
};
static_assert(sizeof(Layer) == 12 * 8, "a slot of 8 bytes for each argument");

// Every block has arrived `rounds` times when this returns, and sees what the others wrote before they did.
__device__ __forceinline__ void wait_for_all(unsigned* arrived, unsigned rounds) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
    unsigned seen;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
    } while (seen < rounds * gridDim.x);
  }
  __syncthreads();
}

// Args: layers, in device memory; tiles of a layer; two counters that are 0, and 0 again afterwards.
extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS)
    gdn_decode_v9_layers_walk(const Layer* __restrict__ layers, const int count, const unsigned tiles,
                              unsigned* counters) {
  const Place first(blockIdx.x);
  float4 s[QUADS];
  load_state(s, layers[0].state, first);
  for (int number = 0; number < count; ++number) {
    const Layer at = layers[number];
    update(s, first, at.q, at.k, at.v, at.A_log, at.dt_bias, at.a, at.b, at.scale, at.output, at.new_state, at.batches);
    for (unsigned tile = blockIdx.x + gridDim.x; tile < tiles; tile += gridDim.x) {
      const Place further(tile);
      load_state(s, at.state, further);
      update(s, further, at.q, at.k, at.v, at.A_log, at.dt_bias, at.a, at.b, at.scale, at.output, at.new_state,
             at.batches);
    }
    if (number + 1 == count) break;
    load_state(s, layers[number + 1].state, first);
    wait_for_all(counters, number + 1);
  }
  __syncthreads();
  // The last to leave finds nobody waiting.
  if (threadIdx.x == 0 && atomicAdd(counters + 1, 1u) == gridDim.x - 1) {
    counters[0] = 0;
    counters[1] = 0;
  }
}
