// The levels of x86-64 for which the arithmetic of the networks is compiled, and the choice of one at run time.
#pragma once

#include <string_view>

#include "tcc/support/result.h"

namespace tcc::nn {

// kV2: SSE4.2; kV3: AVX2 and FMA; kV4: AVX-512 F, BW, CD, DQ and VL. The results of kV3 and kV4 differ from those of
// kV2 in rounding, because only they fuse multiplications and additions.
enum class Level { kV2, kV3, kV4 };

std::string_view level_name(Level level);  // "v2", "v3", "v4"
bool host_has(Level level);
// The highest level of this host. An environment error where the CPU is older than x86-64-v2.
Result<Level> host_level();

}  // namespace tcc::nn
