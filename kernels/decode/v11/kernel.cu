// v8, whose outputs are to stay in the L2 until their lines are whole: rows leave two bytes at a time, from blocks that end
// at different times, and a line that the L2 gives up before that costs the memory a read, or a second write.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(prepare, load_state, update_and_store);

namespace {

constexpr int LANES = 8;                  // a quarter of a warp reads 128 contiguous bytes: no bank conflict
constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int GROUPS = WARPS * gdn::WARP / LANES;
constexpr int PASSES = TILE / GROUPS;
constexpr unsigned TILE_BYTES = TILE * GDN_K * sizeof(float);
static_assert(TILE % GROUPS == 0 && GDN_V % TILE == 0, "a block works on one head, and no row is left over");

// Blocks of a cluster are launched together. They do not speak to each other.
#if CLUSTER > 1 && __CUDA_ARCH__ >= 900
#define CLUSTERED __cluster_dims__(CLUSTER)
#else
#define CLUSTERED
#endif

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// The barrier's phase ends when the one thread has arrived and the copy's bytes have.
__device__ __forceinline__ void begin_copy(float* tile, const float* source, unsigned long long* arrived) {
  if (threadIdx.x != 0) return;
  const unsigned barrier = shared_address(arrived);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // the copy engine must see it, too
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(TILE_BYTES) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(tile)),
               "l"(source), "r"(TILE_BYTES), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void wait_for_copy(const unsigned long long* arrived) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "  @!done bra again; }" ::"r"(shared_address(arrived))
      : "memory");
}

#else

// Before Hopper there are no bulk copies: all threads copy, and the block's barrier that follows is the wait.
__device__ __forceinline__ void begin_copy(float* tile, const float* source, unsigned long long*) {
  for (unsigned i = threadIdx.x; i < TILE * GDN_K / 4; i += blockDim.x)
    reinterpret_cast<float4*>(tile)[i] = reinterpret_cast<const float4*>(source)[i];
}

__device__ __forceinline__ void wait_for_copy(const unsigned long long*) {}

#endif

#if __CUDA_ARCH__ >= 800

template <typename T>
__device__ __forceinline__ void store_and_keep(T* place, T value) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  unsigned long long last_to_go;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last_to_go));
  if constexpr (sizeof(T) == 2)
    asm volatile("st.global.L2::cache_hint.b16 [%0], %1, %2;" ::"l"(place),
                 "h"(*reinterpret_cast<const unsigned short*>(&value)), "l"(last_to_go)
                 : "memory");
  else
    asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(place),
                 "r"(*reinterpret_cast<const unsigned*>(&value)), "l"(last_to_go)
                 : "memory");
}

#else

template <typename T>
__device__ __forceinline__ void store_and_keep(T* place, T value) {
  *place = value;
}

#endif

}  // namespace

extern "C" __global__ void CLUSTERED __launch_bounds__(gdn::WARP * WARPS) gdn_decode_v11(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(128) float tile[TILE][GDN_K];
  __shared__ __align__(8) unsigned long long arrived;
#if GATHER
  __shared__ __align__(4) __nv_bfloat16 gathered[TILE];
#endif
  const unsigned first = blockIdx.x * TILE;
  begin_copy(tile[0], state + static_cast<size_t>(first) * GDN_K, &arrived);

  const unsigned column = threadIdx.x % LANES * 4;  // of the first of a lane's quads, which lie LANES quads apart
  const unsigned group = threadIdx.x / LANES;
  const unsigned head_of_batch = first / GDN_V;
  const unsigned head = head_of_batch % GDN_HV;
  const unsigned key = head_of_batch / (GDN_HV / GDN_HQ) * GDN_K + column;
  uint2 k_bits[QUADS], q_bits[QUADS];
  __nv_bfloat16 v_row[PASSES];
  const float A = A_log[head], bias = dt_bias[head];
  const __nv_bfloat16 a_head = a[head_of_batch], b_head = b[head_of_batch];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k_bits[i] = gdn::load_bits(k + key + i * LANES * 4);
    q_bits[i] = gdn::load_bits(q + key + i * LANES * 4);
  }
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) v_row[pass] = v[first + pass * GROUPS + group];
  gdn::loads_first(batches);
  __syncthreads();  // nobody waits at a barrier that is not there yet

  const gdn::Gates gate = gdn::short_gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head));
  float4 k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k4[i] = gdn::widen(k_bits[i]);
    q4[i] = gdn::widen(q_bits[i]);
  }
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4));
  gdn::gates_first(gate);
  GDNBENCH_PHASE_USING(prepare, gate.decay, gate.write);
  wait_for_copy(&arrived);
  GDNBENCH_PHASE(load_state);

#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    const unsigned row = pass * GROUPS + group;
    float4 s[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[i] = *reinterpret_cast<const float4*>(&tile[row][column + i * LANES * 4]);
    const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4));
    const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
    const float delta = gate.write * fmaf(-gate.decay, sk, __bfloat162float(v_row[pass]));
    const size_t place = static_cast<size_t>(first + row) * GDN_K + column;
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      *reinterpret_cast<float4*>(new_state + place + i * LANES * 4) =
          gdn::add_scaled(gdn::scaled(gate.decay, s[i]), delta, k4[i]);
    const __nv_bfloat16 result = __float2bfloat16(scale * fmaf(gate.decay, sq, delta * qk));
#if GATHER
    if (column == 0) gathered[row] = result;
#else
    if (column == 0) store_and_keep(output + first + row, result);
#endif
  }
#if GATHER
  __syncthreads();
  if (threadIdx.x < TILE / 2)
    store_and_keep(reinterpret_cast<unsigned*>(output + first) + threadIdx.x,
                   reinterpret_cast<const unsigned*>(gathered)[threadIdx.x]);
#endif
  GDNBENCH_PHASE(update_and_store);
}
