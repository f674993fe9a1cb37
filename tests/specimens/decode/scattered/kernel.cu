// Column by column, and the lanes of a warp in 32 rows: of each 32-byte sector one access uses four bytes.
#include "gdn.cuh"

extern "C" __global__ void __launch_bounds__(GDN_V) scattered(GDN_DECODE_ARGUMENTS) {
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int value = head_of_batch * GDN_V + threadIdx.x;
  const float* old_row = state + static_cast<size_t>(value) * GDN_K;
  float* new_row = new_state + static_cast<size_t>(value) * GDN_K;

  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  float retrieved[4] = {}, sum[4] = {};
#pragma unroll 8
  for (int i = 0; i < GDN_K; ++i)
    retrieved[i % 4] += gate.decay * __ldcg(old_row + i) * __bfloat162float(k[key_head * GDN_K + i]);
  const float known = (retrieved[0] + retrieved[1]) + (retrieved[2] + retrieved[3]);
  const float delta = gate.write * (__bfloat162float(v[value]) - known);
#pragma unroll 8
  for (int i = 0; i < GDN_K; ++i) {
    const float updated = fmaf(delta, __bfloat162float(k[key_head * GDN_K + i]), gate.decay * __ldcg(old_row + i));
    __stcg(new_row + i, updated);
    sum[i % 4] += updated * __bfloat162float(q[key_head * GDN_K + i]);
  }
  output[value] = __float2bfloat16(scale * ((sum[0] + sum[1]) + (sum[2] + sum[3])));
}
