// decode-pool-v1 behind a replay: a lane adds to its part of the row what stands in the ring, in registers, and goes on
// with the token. The state goes back at a flush alone; else key, u and decay go behind the ring's last place, which no
// block reads.
#include <gdn/packed_step.cuh>

constexpr int RING = 16;  // places for tokens

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_ucache_v1(
    const __nv_bfloat16* __restrict__ mixed_qkv, const __nv_bfloat16* __restrict__ a,
    const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log, const float* __restrict__ dt_bias,
    const gdn::State* __restrict__ pool, const __nv_bfloat16* __restrict__ k_cache,
    const __nv_bfloat16* __restrict__ u_cache, const float* __restrict__ g_cache, const int* __restrict__ slot,
    const int* __restrict__ hist_len, const float scale, const float beta_limit, __nv_bfloat16* __restrict__ output,
    gdn::State* new_pool, __nv_bfloat16* new_k_cache, __nv_bfloat16* new_u_cache, float* new_g_cache, const int batches,
    const long long slots, const long long mixed) {
  using gdn::LANES;
  constexpr float LOG2_E = 1.442695041f;
  constexpr int SHARE = GDN_HV / GDN_HQ;  // value heads of a key head
  const gdn::OwnRow at = gdn::own_row();
  const int place = slot[at.sequence], filled = hist_len[at.sequence];
  const size_t of_values = (static_cast<size_t>(place) * GDN_HV + at.head) * RING;
  const size_t of_keys = (static_cast<size_t>(place) * GDN_HQ + at.head / SHARE) * RING;
  float last = 0.f;  // the sum of log g so far

  const auto first = [&]() -> const gdn::State* { return place > 0 ? new_pool + at.in_slot(place) : nullptr; };
  const auto replay = [&](int, gdn::OwnPart& s) {
    if (filled > 0) last = new_g_cache[of_values + filled - 1];
    const float whole = gdn::exp2_mufu(LOG2_E * last);
#pragma unroll
    for (int i = 0; i < gdn::QUADS; ++i) s[i] = gdn::scaled(whole, s[i]);
#pragma unroll 4
    for (int j = 0; j < filled; ++j) {
      uint2 bits[gdn::QUADS];
      gdn::load_key<LANES>(new_k_cache + (of_keys + j) * GDN_K, at.lane, bits);
      const float u = __bfloat162float(new_u_cache[(of_values + j) * GDN_V + at.row]);
      const float share = gdn::exp2_mufu(LOG2_E * (last - new_g_cache[of_values + j])) * u;
#pragma unroll
      for (int i = 0; i < gdn::QUADS; ++i) s[i] = gdn::add_scaled(s[i], share, gdn::widen(bits[i]));
    }
  };
  const auto keep = [&](int, const gdn::OwnPart& s, const gdn::Written& written) {
    if (filled >= GDN_FLUSH) {
      gdn::store_row<LANES>(new_pool + at.in_slot(place), at.lane, s);
      return;
    }
    if (at.lane == 0) new_u_cache[(of_values + filled) * GDN_V + at.row] = __float2bfloat16(written.delta);
    if (at.row != 0) return;
    if (at.lane == 0) new_g_cache[of_values + filled] = last - written.rate;
    if (at.head % SHARE != 0) return;
    const __nv_bfloat16* const key = mixed_qkv + static_cast<size_t>(at.sequence) * gdn::MIXED + gdn::QUERIES +
                                     at.head / SHARE * GDN_K;
    for (unsigned i = at.lane; i < GDN_K; i += LANES)
      new_k_cache[(of_keys + filled) * GDN_K + i] = __float2bfloat16(__bfloat162float(key[i]) * written.k_norm);
  };
  gdn::take_step<1>({mixed_qkv, a, b, A_log, dt_bias, scale, beta_limit, batches}, at, output, first, replay, keep);
}
