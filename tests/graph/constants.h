// Constants that only tests make.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tcc/graph/types.h"

namespace tcc::graph {

inline Constant make_constant_f32(std::span<const float> values) {
  auto bytes = std::as_bytes(values);
  return make_constant(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

}  // namespace tcc::graph
