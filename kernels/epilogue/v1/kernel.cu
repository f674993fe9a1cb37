// A warp a head, four elements a lane, all of them loaded before the first is waited for.
#include <gdn/bf16.cuh>
#include <gdn/warp.cuh>

#include "epilogue.cuh"

namespace {

using gdn::pack, gdn::WARP, gdn::widen;

constexpr int QUADS = (GDN_V + 4 * WARP - 1) / (4 * WARP);  // times four elements of a lane
constexpr float EPS = 1e-6f;                                // below the root of the norm
static_assert(GDN_V % 4 == 0, "rows begin where a load of 8 bytes may");

// z / (1 + exp(-z)), by the special function unit.
__device__ __forceinline__ float silu(float z) {
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.442695041f * z));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.f + power));
  return z * inverse;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARP * WARPS) gdn_epilogue_v1(GDN_EPILOGUE_ARGUMENTS) {
  const unsigned row = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
  if (row >= static_cast<unsigned>(batches) * GDN_HV) return;
  const size_t first = static_cast<size_t>(row) * GDN_V;
  uint2 o_bits[QUADS], z_bits[QUADS], w_bits[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const unsigned quad = lane + i * WARP;
    o_bits[i] = z_bits[i] = w_bits[i] = make_uint2(0, 0);
    if (4 * quad >= GDN_V) continue;
    o_bits[i] = reinterpret_cast<const uint2*>(o + first)[quad];
    z_bits[i] = reinterpret_cast<const uint2*>(z + first)[quad];
    w_bits[i] = reinterpret_cast<const uint2*>(weight)[quad];
  }
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const float4 o4 = widen(o_bits[i]);
    squares += fmaf(o4.x, o4.x, o4.y * o4.y) + fmaf(o4.z, o4.z, o4.w * o4.w);
  }
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, offset);
  const float inverse = rsqrtf(squares * (1.f / GDN_V) + EPS);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const unsigned quad = lane + i * WARP;
    if (4 * quad >= GDN_V) continue;
    const float4 o4 = widen(o_bits[i]), z4 = widen(z_bits[i]), w4 = widen(w_bits[i]);
    reinterpret_cast<uint2*>(y + first)[quad] =
        make_uint2(pack(o4.x * inverse * w4.x * silu(z4.x), o4.y * inverse * w4.y * silu(z4.y)),
                   pack(o4.z * inverse * w4.z * silu(z4.z), o4.w * inverse * w4.w * silu(z4.w)));
  }
}
