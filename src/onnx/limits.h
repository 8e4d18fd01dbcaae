// What a file would become in memory, found out before it becomes that.
//
// Two bytes of a file can be an empty message, which takes two hundred when parsed: a small file may ask for more
// memory than the machine has. So the bytes are walked first, by the schema, and counted; nothing is allocated.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tcc/support/result.h"

namespace tcc::onnx {

inline constexpr int kMaxNodes = 1'000'000;               // of all graphs and functions
inline constexpr int64_t kMaxParts = int64_t{1} << 24;    // messages and strings of any kind
inline constexpr int64_t kMaxPacked = int64_t{1} << 28;   // bytes of numbers of varying length, up to 8 times in memory
inline constexpr size_t kMaxNameBytes = size_t{1} << 20;  // of a string that names something
inline constexpr int kMaxNesting = 64;                    // messages within messages

// False where the bytes are not the fields of a model. `name` is the file's.
Result<bool> check_limits(std::span<const std::byte> model, const std::string& name);

}  // namespace tcc::onnx
