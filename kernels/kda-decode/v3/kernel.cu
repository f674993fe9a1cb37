// A step over one token in either of two forms: rows in registers, where waiting counts; or tiles of rows, whose
// products with key and query are those of tensor cores, where arithmetic does.
#include "kda.cuh"

constexpr int ROWS = GDN_V % MOST_ROWS == 0 ? MOST_ROWS : 32;
#if TENSOR_CORES
#include <gdn/channel_tiles.cuh>
using Step = kda::TileStep<1, 1, true, ROWS, WARPS, CHANNELS>;
#else
#include <gdn/channel_rows.cuh>
using Step = kda::RowSteps<1, 1, true, ROWS, WARPS, CHANNELS>;
#endif
constexpr unsigned BLOCKS_A_HEAD = GDN_V / ROWS;

extern "C" __global__ void __launch_bounds__(Step::THREADS, Step::LEAST_BLOCKS) kda_decode_v3(KDA_DECODE_ARGUMENTS) {
  __shared__ Step::Shared shared;
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD, first = blockIdx.x % BLOCKS_A_HEAD * ROWS;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const __nv_bfloat16* const token = mixed_qkv + static_cast<size_t>(sequence) * kda::MIXED;
  gdn::State* const rows = new_pool + head * gdn::HEAD + first * GDN_K;  // in slot 0
  Step::take(shared, {token + head * GDN_K, token + 2 * kda::QUERIES + head * GDN_V + first,
                      g + static_cast<size_t>(head_of_batch) * GDN_K, b + head_of_batch, dt_bias + head * GDN_K,
                      A_log + head, slot + sequence, rows, rows,
                      output + static_cast<size_t>(head_of_batch) * GDN_V + first, scale, lower_bound, beta_limit,
                      batches});
}
