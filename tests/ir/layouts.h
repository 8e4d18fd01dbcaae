// Layouts that only tests make, and the bank conflicts of accesses through a layout.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tcc/ir/layout.h"

namespace tcc::ir {

// Row-major over `shape`.
inline const Layout* make_row_major(Arena& arena, std::span<const int64_t> shape) {
  std::vector<Digit> digits(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    digits[d] = {static_cast<int32_t>(d), 1, 0, Place::kAddress, stride};
    stride *= shape[d];
  }
  return arena.make<Layout>(arena.copy(shape), arena.copy(digits), std::span<const XorField>{}, stride);
}

// Ways of bank conflict when 32 lanes read the given logical indices, each `bytes` wide, elements of elem_bytes.
inline int bank_conflicts(const Layout& layout, std::span<const std::vector<int64_t>> lane_indices, int64_t bytes,
                          int64_t elem_bytes) {
  constexpr int64_t kBanks = 32, kWord = 4;
  // 8-byte reads are served by half warps, 16-byte reads by quarter warps.
  size_t lanes_a_phase = bytes <= 4 ? 32 : static_cast<size_t>(128 / bytes);
  size_t worst = 1;
  for (size_t first = 0; first < lane_indices.size(); first += lanes_a_phase) {
    std::map<int64_t, std::set<int64_t>> words;  // bank to distinct words
    for (size_t lane = first; lane < std::min(first + lanes_a_phase, lane_indices.size()); ++lane) {
      int64_t begin = ir::apply(layout, lane_indices[lane]).address * elem_bytes;
      for (int64_t word = begin / kWord; word <= (begin + bytes - 1) / kWord; ++word) words[word % kBanks].insert(word);
    }
    for (const auto& [bank, distinct] : words) worst = std::max(worst, distinct.size());
  }
  return static_cast<int>(worst);
}

}  // namespace tcc::ir
