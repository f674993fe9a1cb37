// A warp's lanes.
#pragma once

namespace gdn {

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

}  // namespace gdn
