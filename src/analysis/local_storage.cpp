#include "tcc/analysis/local_storage.h"

#include <bit>

namespace tcc::analysis {

namespace {
constexpr int64_t kPaddedBelow = 64;        // longer rows lose less to their last vector than to padding
constexpr int64_t kPaddedBytes = 64 << 10;  // what is larger is a copy of part of a tensor, and no register tile

LocalStorage lay_out(const ir::Buffer& buffer, bool padded) {
  LocalStorage storage{std::vector<int64_t>(buffer.shape.size(), 1), 1};
  size_t last = buffer.shape.size();
  while (last > 0 && ir::is_int(buffer.shape[last - 1], 1)) --last;
  for (size_t i = buffer.shape.size(); i-- > 0;) {
    int64_t extent = ir::int_value(buffer.shape[i]);
    storage.strides[i] = storage.elements;
    if (padded && i + 1 == last && extent > 2 && extent < kPaddedBelow)
      extent = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
    storage.elements *= extent;
  }
  return storage;
}

}  // namespace

LocalStorage local_storage(const ir::Buffer& buffer) {
  LocalStorage storage = lay_out(buffer, true);
  return storage.elements * ir::type_bytes(buffer.type) <= kPaddedBytes ? storage : lay_out(buffer, false);
}

}  // namespace tcc::analysis
