// Thread t computes row t of a tile alone, so no sum crosses lanes; shared memory turns coalesced loads into rows.
// A block is one warp, so __syncwarp is all the synchronisation that sharing the tile takes.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(load, retrieve, update, store_output, store_state);

namespace {

constexpr int ROWS = gdn::WARP;
constexpr int STEPS = ROWS * GDN_K / (gdn::WARP * gdn::PER_LANE);  // accesses of the warp that cover the tile
constexpr int QUADS = GDN_K / 4;
constexpr int UNROLLED = UNROLL ? QUADS : 4;  // four at least: one of each running sum of a RowSum

// One float of padding puts column j of rows 0 … 31 into 32 different banks. Rows then start off 16-byte boundaries,
// so shared memory is accessed float by float.
using Row = float[GDN_K + 1];

// The four floats of the tile that a lane moves in a step: eight lanes take 128 bytes of a row, a warp four such rows.
// A whole row a step would coalesce too, but its lanes stand four floats apart: eight banks, four lanes in each.
struct Place {
  int row, column;
};

__device__ __forceinline__ Place place(int step, int lane) {
  return {step / 4 * 4 + lane / 8, step % 4 * 32 + lane % 8 * 4};
}

__device__ __forceinline__ float4 read(const float* p) { return make_float4(p[0], p[1], p[2], p[3]); }

__device__ __forceinline__ void write(float* p, float4 x) { p[0] = x.x, p[1] = x.y, p[2] = x.z, p[3] = x.w; }

}  // namespace

extern "C" __global__ void __launch_bounds__(ROWS) gdn_decode_v3(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  const int lane = threadIdx.x;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int first_value = head_of_batch * GDN_V + blockIdx.x * ROWS;
  const size_t origin = static_cast<size_t>(first_value) * GDN_K;

  __shared__ Row tile[ROWS];
  __shared__ float4 keys[gdn::WARP], queries[gdn::WARP];
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const auto [row, column] = place(step, lane);
    write(&tile[row][column], __ldcs(reinterpret_cast<const float4*>(state + origin + row * GDN_K + column)));
  }
  keys[lane] = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  queries[lane] = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const float v_row = __bfloat162float(v[first_value + lane]);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  __syncwarp();
  GDNBENCH_PHASE_USING(load, gate.decay, gate.write, v_row);

  float* mine = tile[lane];
  gdn::RowSum retrieved, sum;
#pragma unroll UNROLLED
  for (int i = 0; i < QUADS; ++i) retrieved.add(i, gdn::scaled(gate.decay, read(mine + i * 4)), keys[i]);
  const float delta = gate.write * (v_row - retrieved.total());
  GDNBENCH_PHASE_USING(retrieve, delta);
  __syncwarp();  // nobody is waited for: k is now read again, and not kept in 128 more registers, which spill
#pragma unroll UNROLLED
  for (int i = 0; i < QUADS; ++i) {
    const float4 updated = gdn::add_scaled(gdn::scaled(gate.decay, read(mine + i * 4)), delta, keys[i]);
    write(mine + i * 4, updated);
    sum.add(i, updated, queries[i]);
  }
  GDNBENCH_PHASE_USING(update, sum.parts);
  output[first_value + lane] = __float2bfloat16(scale * sum.total());
  GDNBENCH_PHASE(store_output);

  __syncwarp();
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const auto [row, column] = place(step, lane);
    __stcs(reinterpret_cast<float4*>(new_state + origin + row * GDN_K + column), read(&tile[row][column]));
  }
  GDNBENCH_PHASE(store_state);
}
