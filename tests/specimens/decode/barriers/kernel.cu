// Eight rows of 128 threads each; every halving of the sums holds up all 32 warps of the block.
#include "gdn.cuh"

constexpr int ROWS = 8;

__device__ float block_sum(float (*parts)[GDN_K], int row, int column, float x) {
  parts[row][column] = x;
  __syncthreads();
  for (int half = GDN_K / 2; half > 0; half /= 2) {
    if (column < half) parts[row][column] += parts[row][column + half];
    __syncthreads();
  }
  const float total = parts[row][0];
  __syncthreads();
  return total;
}

extern "C" __global__ void __launch_bounds__(ROWS * GDN_K) barriers(GDN_DECODE_ARGUMENTS) {
  const int row = threadIdx.x / GDN_K;
  const int column = threadIdx.x % GDN_K;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int value = head_of_batch * GDN_V + blockIdx.x * ROWS + row;
  const size_t place = static_cast<size_t>(value) * GDN_K + column;

  __shared__ float parts[ROWS][GDN_K];
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  const float key = __bfloat162float(k[key_head * GDN_K + column]);
  const float decayed = gate.decay * state[place];
  const float delta = gate.write * (__bfloat162float(v[value]) - block_sum(parts, row, column, decayed * key));
  const float updated = fmaf(delta, key, decayed);
  new_state[place] = updated;
  const float sum = block_sum(parts, row, column, updated * __bfloat162float(q[key_head * GDN_K + column]));
  if (column == 0) output[value] = __float2bfloat16(scale * sum);
}
