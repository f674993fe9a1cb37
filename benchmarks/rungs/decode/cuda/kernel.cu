// decode-v4 with its choices as params. With the defaults its machine code is v4's, so one param is one change.
#include "gdn.cuh"

namespace {

enum class Load { plain, evict_first, no_allocate };
enum class Arithmetic { fused, written, separate };
enum class Order { row, all };
constexpr Load STATE = Load::LOAD;  // these params are one of the names
constexpr Arithmetic HOW = Arithmetic::ARITHMETIC;
constexpr Order WHEN = Order::ORDER;

constexpr int ROWS_OF_BLOCK = WARPS / HEADS * ROWS;
constexpr int TILES = GDN_V / ROWS_OF_BLOCK;  // of a head
static_assert(GDN_V % ROWS_OF_BLOCK == 0 && WARPS % HEADS == 0, "no row is left over");
static_assert(KEEP_KEYS == 0 || KEY_BYTES == 8, "what is kept in L1 is loaded by 8 bytes");
static_assert(HEADS == 1 || (SHARED_KEYS == 0 && BLOCKS == 0), "warps of a block share one head's keys");
static_assert(BLOCKS == 0 || SHARED_KEYS == 0, "blocks that walk over tiles meet at no barrier");

#if REGISTERS
#define LIMITS __maxnreg__(REGISTERS)
#elif MIN_BLOCKS < 0
#define LIMITS
#elif MIN_BLOCKS > 0
#define LIMITS __launch_bounds__(32 * WARPS, MIN_BLOCKS)
#else
#define LIMITS __launch_bounds__(32 * WARPS)
#endif

// Through the read-only path, as the compiler takes plain loads: the hint is all that differs.
__device__ __forceinline__ float4 load_state(const float4* p) {
  if constexpr (STATE == Load::plain) return *p;
  float4 x;
  if constexpr (STATE == Load::evict_first)
    asm("ld.global.nc.L1::evict_first.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
        : "l"(p));
  else
    asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
        : "l"(p));
  return x;
}

__device__ __forceinline__ void store_state(float4* p, float4 x) {
  if constexpr (STREAMING_STORES) __stcs(p, x);
  else *p = x;
}

__device__ __forceinline__ uint2 load_kept(const __nv_bfloat16* p) {
  uint2 bits;
  asm("ld.global.nc.L1::evict_last.v2.u32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "l"(p));
  return bits;
}

// Elements 4 * lane to 4 * lane + 3 of a row of 128 bf16, by loads of KEY_BYTES.
__device__ __forceinline__ float4 load_key(const __nv_bfloat16* row, int lane) {
  const __nv_bfloat16* p = row + lane * gdn::PER_LANE;
  if constexpr (KEY_BYTES == 2)
    return make_float4(__bfloat162float(p[0]), __bfloat162float(p[1]), __bfloat162float(p[2]), __bfloat162float(p[3]));
  if constexpr (KEY_BYTES == 4) {
    const float2 low = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p));
    const float2 high = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p + 2));
    return make_float4(low.x, low.y, high.x, high.y);
  }
  if constexpr (KEY_BYTES == 16) {  // two lanes load the same eight, and each takes its half
    const uint4 bits = *reinterpret_cast<const uint4*>(row + lane / 2 * 8);
    const uint2 half = lane % 2 ? make_uint2(bits.z, bits.w) : make_uint2(bits.x, bits.y);
    return gdn::load_bf16x4(reinterpret_cast<const __nv_bfloat16*>(&half));  // no second load: half is registers
  }
  if constexpr (KEEP_KEYS) {
    const uint2 bits = load_kept(p);
    return gdn::load_bf16x4(reinterpret_cast<const __nv_bfloat16*>(&bits));
  }
  return gdn::load_bf16x4(p);
}

__device__ __forceinline__ float dot(float4 x, float4 y) {
  if constexpr (HOW == Arithmetic::fused) return gdn::dot(x, y);
  if constexpr (HOW == Arithmetic::written)
    return x.x * y.x + (x.y * y.y + (x.z * y.z + x.w * y.w));
  return __fadd_rn(__fadd_rn(__fmul_rn(x.x, y.x), __fmul_rn(x.y, y.y)),
                   __fadd_rn(__fmul_rn(x.z, y.z), __fmul_rn(x.w, y.w)));
}

__device__ __forceinline__ float add_scaled(float x, float s, float y) {
  if constexpr (HOW == Arithmetic::fused) return fmaf(s, y, x);
  if constexpr (HOW == Arithmetic::written) return x + s * y;
  return __fadd_rn(x, __fmul_rn(s, y));
}

__device__ __forceinline__ float4 add_scaled(float4 x, float s, float4 y) {
  return make_float4(add_scaled(x.x, s, y.x), add_scaled(x.y, s, y.y), add_scaled(x.z, s, y.z), add_scaled(x.w, s, y.w));
}

__device__ __forceinline__ gdn::Gates gates(float A_log, float dt_bias, __nv_bfloat16 a, __nv_bfloat16 b) {
  if constexpr (SHORT_GATES) return gdn::short_gates(A_log, dt_bias, __bfloat162float(a), __bfloat162float(b));
  return gdn::gates(A_log, dt_bias, a, b);
}

// One step of the tile of a head that a block has: ROWS rows a warp, four elements of each a lane.
__device__ __forceinline__ void update(GDN_DECODE_ARGUMENTS, int tile, int head_of_batch) {
  const int lane = threadIdx.x % gdn::WARP;
  const int warp = threadIdx.x / gdn::WARP;
  const int first_row = (tile * (WARPS / HEADS) + warp / HEADS) * ROWS;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int first_value = head_of_batch * GDN_V + first_row;
  const size_t place = static_cast<size_t>(first_value) * GDN_K + lane * gdn::PER_LANE;

  float4 s[ROWS];
  float v_row[ROWS], delta[ROWS], sum[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row)
    s[row] = load_state(reinterpret_cast<const float4*>(state + place + row * GDN_K));
#if SHARED_KEYS
  __shared__ float4 keys[gdn::WARP], queries[gdn::WARP];
  if (warp == 0) {
    keys[lane] = load_key(k + key_head * GDN_K, lane);
    queries[lane] = load_key(q + key_head * GDN_K, lane);
  }
#else
  const float4 k4 = load_key(k + key_head * GDN_K, lane);
  const float4 q4 = load_key(q + key_head * GDN_K, lane);
#endif
#pragma unroll
  for (int row = 0; row < ROWS; ++row) v_row[row] = __bfloat162float(v[first_value + row]);
  const gdn::Gates gate = gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
#if SHARED_KEYS
  __syncthreads();
  const float4 k4 = keys[lane], q4 = queries[lane];
#endif

  const auto retrieve = [&](int row) {
    s[row] = gdn::scaled(gate.decay, s[row]);
    delta[row] = gate.write * (v_row[row] - gdn::warp_sum(dot(s[row], k4)));
    s[row] = add_scaled(s[row], delta[row], k4);
  };
  const auto store = [&](int row) {
    store_state(reinterpret_cast<float4*>(new_state + place + row * GDN_K), s[row]);
  };
  const auto read = [&](int row) {
    sum[row] = gdn::warp_sum(dot(s[row], q4));
    if (!SCATTERED_OUTPUT && lane == 0) output[first_value + row] = __float2bfloat16(scale * sum[row]);
  };
  if constexpr (WHEN == Order::row) {
#pragma unroll
    for (int row = 0; row < ROWS; ++row) retrieve(row), store(row), read(row);
  } else {
#pragma unroll
    for (int row = 0; row < ROWS; ++row) retrieve(row);
#pragma unroll
    for (int row = 0; row < ROWS; ++row) read(row);
#pragma unroll
    for (int row = 0; row < ROWS; ++row) store(row);
  }
  if constexpr (SCATTERED_OUTPUT) {
    float mine = sum[0];
#pragma unroll
    for (int row = 1; row < ROWS; ++row) mine = lane == row ? sum[row] : mine;
    if (lane < ROWS) output[first_value + lane] = __float2bfloat16(scale * mine);
  }
}

}  // namespace

#define EACH_ARGUMENT q, k, v, state, A_log, dt_bias, a, b, scale, output, new_state, batches

extern "C" __global__ void LIMITS gdn_decode_rungs(GDN_DECODE_ARGUMENTS) {
#if BLOCKS
  for (int each = blockIdx.x; each < batches * GDN_HV * TILES; each += gridDim.x)
    update(EACH_ARGUMENT, each % TILES, each / TILES);
#else
  const int head_of_batch = blockIdx.y * HEADS + threadIdx.x / gdn::WARP % HEADS;
  if (HEADS == 1 || head_of_batch < batches * GDN_HV) update(EACH_ARGUMENT, blockIdx.x, head_of_batch);
#endif
}
