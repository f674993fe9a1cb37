// A step over draft tokens in either of two forms: rows in registers, where waiting counts; or tiles of rows, whose
// products with keys and queries are those of tensor cores, where arithmetic does.
#include "kda_verify.cuh"

constexpr int ROWS = GDN_V % MOST_ROWS == 0 ? MOST_ROWS : 32;
#if TENSOR_CORES
#include <gdn/channel_tasks.cuh>
using Step = kda::TaskStep<kda::TOKENS, kda::KEPT, false, ROWS, CHANNELS>;
#else
#include <gdn/channel_rows.cuh>
using Step = kda::RowSteps<kda::TOKENS, kda::KEPT, false, ROWS, WARPS, CHANNELS>;
#endif
constexpr unsigned BLOCKS_A_HEAD = GDN_V / ROWS;

extern "C" __global__ void __launch_bounds__(Step::THREADS, Step::LEAST_BLOCKS) kda_verify_v3(KDA_VERIFY_ARGUMENTS) {
  extern __shared__ __align__(128) unsigned char memory[];
  Step::Shared& shared = *reinterpret_cast<Step::Shared*>(memory);
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD, first = blockIdx.x % BLOCKS_A_HEAD * ROWS;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const size_t token = static_cast<size_t>(sequence) * kda::TOKENS;  // the first of the sequence
  const __nv_bfloat16* const packed = mixed_qkv + token * kda::MIXED;
  const size_t kept_head = static_cast<size_t>(sequence) * kda::KEPT * GDN_H + head;
  const unsigned rows = head * gdn::HEAD + first * GDN_K;
  Step::take(shared, {packed + head * GDN_K, packed + 2 * kda::QUERIES + head * GDN_V + first,
                      g + (token * GDN_H + head) * GDN_K, b + token * GDN_H + head, dt_bias + head * GDN_K,
                      A_log + head, slot + sequence, pool + rows, states + kept_head * gdn::HEAD + first * GDN_K,
                      output + (token * GDN_H + head) * GDN_V + first, scale, lower_bound, beta_limit, batches});
}
