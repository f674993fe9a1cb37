// v4, telling the caches what it knows: a state element is used once, q and k are read again by every row of a head.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(gates, load_qkv, load_state, update, store_state, store_output);

namespace {

enum class Hint { none, intrinsics, ptx };
constexpr Hint HOW = Hint::HINT;  // the param is one of these names

// Intrinsics can say "streaming", evict first; only PTX can keep the state out of L1 altogether.
__device__ __forceinline__ float4 load_once(const float4* p) {
  if constexpr (HOW == Hint::none) return *p;
  if constexpr (HOW == Hint::intrinsics) return __ldcs(p);
  float4 x;
  asm("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
      : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
      : "l"(p));
  return x;
}

__device__ __forceinline__ float4 load_often(const __nv_bfloat16* p) {
  if constexpr (HOW != Hint::ptx) return gdn::load_bf16x4(p);
  uint2 bits;
  asm("ld.global.L1::evict_last.v2.u32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "l"(p));
  return gdn::load_bf16x4(reinterpret_cast<const __nv_bfloat16*>(&bits));  // no second load: bits are registers
}

__device__ __forceinline__ void store_once(float4* p, float4 x) {
  if constexpr (HOW == Hint::none) *p = x;
  if constexpr (HOW == Hint::intrinsics) __stcs(p, x);
  if constexpr (HOW == Hint::ptx)
    asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
                 : "memory");
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * WARPS) gdn_decode_v5(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  const int lane = threadIdx.x % gdn::WARP;
  const int row = blockIdx.x * WARPS + threadIdx.x / gdn::WARP;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int value = head_of_batch * GDN_V + row;
  const size_t place = static_cast<size_t>(value) * GDN_K + lane * gdn::PER_LANE;

  const float4 s = load_once(reinterpret_cast<const float4*>(state + place));
  const float4 k4 = load_often(k + key_head * GDN_K + lane * gdn::PER_LANE);
  const float4 q4 = load_often(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const float v_row = __bfloat162float(v[value]);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  GDNBENCH_PHASE_USING(gates, gate.decay, gate.write);
  GDNBENCH_PHASE_USING(load_qkv, k4, q4, v_row);
  GDNBENCH_PHASE_USING(load_state, s);

  const float4 decayed = gdn::scaled(gate.decay, s);
  const float delta = gate.write * (v_row - gdn::warp_sum(gdn::dot(decayed, k4)));
  const float4 updated = gdn::add_scaled(decayed, delta, k4);
  GDNBENCH_PHASE_USING(update, updated);
  store_once(reinterpret_cast<float4*>(new_state + place), updated);
  GDNBENCH_PHASE(store_state);
  const float sum = gdn::warp_sum(gdn::dot(updated, q4));
  if (lane == 0) output[value] = __float2bfloat16(scale * sum);
  GDNBENCH_PHASE(store_output);
}
