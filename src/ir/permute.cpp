#include "tcc/ir/permute.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tcc/support/check.h"

namespace tcc::ir {
namespace {

// Every digit depends on one dimension, so before the xors an address is a sum of one table entry per dimension.
std::vector<std::vector<int64_t>> tables_by_dim(const Layout& layout) {
  std::vector<std::vector<int64_t>> tables(layout.shape.size());
  for (size_t d = 0; d < tables.size(); ++d) tables[d].assign(static_cast<size_t>(layout.shape[d]), 0);
  for (const Digit& digit : layout.digits) {
    TCC_CHECK(digit.place == Place::kAddress, "only address layouts have a place in memory");
    std::vector<int64_t>& table = tables[static_cast<size_t>(digit.dim)];
    for (size_t i = 0; i < table.size(); ++i) {
      int64_t value = static_cast<int64_t>(i) / digit.divisor;
      if (digit.extent != 0) value %= digit.extent;
      table[i] += value * digit.stride;
    }
  }
  return tables;
}

// Calls move(logical element, physical element) for every element.
template <class Move>
void for_each_element(const Layout& layout, Move&& move) {
  auto tables = tables_by_dim(layout);
  int64_t count = 1;
  for (int64_t extent : layout.shape) count *= extent;
  if (count == 0) return;
  std::vector<int64_t> index(layout.shape.size(), 0);
  std::vector<int64_t> last = tables.empty() ? std::vector<int64_t>{0} : tables.back();
  int64_t inner = static_cast<int64_t>(last.size());
  for (int64_t at = 0; at < count; at += inner) {
    int64_t base = 0;
    for (size_t d = 0; d + 1 < index.size(); ++d) base += tables[d][static_cast<size_t>(index[d])];
    for (int64_t i = 0; i < inner; ++i) {
      int64_t address = base + last[static_cast<size_t>(i)];
      for (const XorField& x : layout.xors) address ^= ((address >> x.from_shift) & x.mask) << x.to_shift;
      move(at + i, address);
    }
    for (int64_t d = static_cast<int64_t>(index.size()) - 2; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < layout.shape[static_cast<size_t>(d)]) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

// One instance for each usual element size: the copy is then a plain load and store.
template <class Copy>
void with_element(int64_t elem_bytes, Copy&& copy) {
  switch (elem_bytes) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    case 8:
      return copy(uint64_t{});
    default:
      TCC_UNREACHABLE("elements of {} bytes", elem_bytes);
  }
}

}  // namespace

void to_physical(const Layout& layout, std::span<const std::byte> logical, std::span<std::byte> physical,
                 int64_t elem_bytes) {
  TCC_CHECK(static_cast<int64_t>(physical.size()) == layout.size * elem_bytes, "{} bytes for {} elements of {}",
            physical.size(), layout.size, elem_bytes);
  std::fill(physical.begin(), physical.end(), std::byte{0});
  with_element(elem_bytes, [&](auto element) {
    using T = decltype(element);
    for_each_element(layout, [&](int64_t from, int64_t to) {
      std::memcpy(physical.data() + to * static_cast<int64_t>(sizeof(T)),
                  logical.data() + from * static_cast<int64_t>(sizeof(T)), sizeof(T));
    });
  });
}

void to_logical(const Layout& layout, std::span<const std::byte> physical, std::span<std::byte> logical,
                int64_t elem_bytes) {
  TCC_CHECK(static_cast<int64_t>(physical.size()) == layout.size * elem_bytes, "{} bytes for {} elements of {}",
            physical.size(), layout.size, elem_bytes);
  with_element(elem_bytes, [&](auto element) {
    using T = decltype(element);
    for_each_element(layout, [&](int64_t to, int64_t from) {
      std::memcpy(logical.data() + to * static_cast<int64_t>(sizeof(T)),
                  physical.data() + from * static_cast<int64_t>(sizeof(T)), sizeof(T));
    });
  });
}

}  // namespace tcc::ir
