#include "tcc/analysis/local_storage.h"

#include <algorithm>
#include <bit>

namespace tcc::analysis {

namespace {
// The extent of an innermost dimension with its padding.
int64_t padded(int64_t extent) {
  if (extent <= 2 || extent >= kPaddedBelow) return extent;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
}

LocalStorage lay_out(const ir::Buffer& buffer, bool pads) {
  LocalStorage storage{std::vector<int64_t>(buffer.shape.size(), 1), 1};
  size_t last = buffer.shape.size();
  while (last > 0 && ir::is_int(buffer.shape[last - 1], 1)) --last;
  for (size_t i = buffer.shape.size(); i-- > 0;) {
    int64_t extent = ir::int_value(buffer.shape[i]);
    storage.strides[i] = storage.elements;
    if (pads && i + 1 == last) extent = padded(extent);
    storage.elements *= extent;
  }
  return storage;
}

}  // namespace

LocalStorage local_storage(const ir::Buffer& buffer) {
  LocalStorage storage = lay_out(buffer, true);
  return storage.elements * ir::type_bytes(buffer.type) <= kPaddedBytes ? storage : lay_out(buffer, false);
}

int64_t local_elements_at_most(const ir::Buffer& buffer) {
  int64_t whole = 1, most = 0;
  for (ir::Expr e : buffer.shape) whole *= ir::int_value(e);
  for (ir::Expr e : buffer.shape) {
    const int64_t extent = ir::int_value(e), elements = extent > 0 ? whole / extent * padded(extent) : 0;
    if (elements * ir::type_bytes(buffer.type) <= kPaddedBytes) most = std::max(most, elements);
  }
  return std::max(whole, most);
}

}  // namespace tcc::analysis
