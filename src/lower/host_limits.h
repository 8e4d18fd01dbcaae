// Limits of programs for CPUs, for those who check numbers and those who check columns. Private to the room.
#pragma once

#include "tcc/target/limits.h"

namespace tcc::lower {

constexpr int64_t kMaxVector = 128;                                  // elements; wider ones only lengthen the code
constexpr int64_t kSafeHostLocalBytes = target::kMaxStackBytes / 4;  // whatever the padding
constexpr int64_t kMaxHostTempBytes = int64_t{1} << 32;
// Serial launches keep up to this much on the stack; larger buffers become workspace.
constexpr int64_t kSmallBytes = 64 << 10;

}  // namespace tcc::lower
