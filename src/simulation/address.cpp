#include "simulation/address.h"

#include <algorithm>
#include <array>
#include <set>

#include "tcc/ir/layout.h"

namespace tcc::simulation {

using namespace ir;

namespace {

constexpr int64_t kSector = 32, kBank = 4, kBanks = 32, kMatrixRow = 16;
constexpr size_t kMaxRank = 16;

}  // namespace

bool is_shared(const Buffer& b) {
  return b.scope == Scope::kShared || b.scope == Scope::kClusterShared;
}

int64_t elements(const Buffer& b) {
  if (b.layout != nullptr) return b.layout->size;
  int64_t n = 1;
  for (Expr e : b.shape) n *= is_int(e) ? int_value(e) : 1;
  return n;
}

int64_t element_address(const Buffer& b, std::span<const Expr> indices, const Values& values) {
  std::array<int64_t, kMaxRank> at{};
  const size_t rank = std::min(indices.size(), kMaxRank);
  for (size_t d = 0; d < rank; ++d) {
    at[d] = evaluate(indices[d], values);
    // Indices that memory holds may be any number here; others are inside, or their access is switched off.
    if (d < b.shape.size() && is_int(b.shape[d]))
      at[d] = ((at[d] % int_value(b.shape[d])) + int_value(b.shape[d])) % int_value(b.shape[d]);
  }
  if (b.layout != nullptr) return ir::apply(*b.layout, std::span(at.data(), rank)).address;
  int64_t flat = 0;
  for (size_t d = 0; d < rank; ++d) flat = flat * (is_int(b.shape[d]) ? int_value(b.shape[d]) : 1) + at[d];
  return flat;
}

void find_pattern(WarpAccess& access, Values& values, std::span<const std::vector<std::pair<Id, int64_t>>> lanes,
                  double conflict_weight) {
  const int64_t element = type_bytes(access.buffer->type), bytes = std::max<int64_t>(access.bytes, 1);
  std::vector<int64_t> at;
  for (const auto& lane : lanes) {
    std::vector<std::pair<Id, int64_t>> before;
    for (const auto& [id, value] : lane) {
      before.push_back({id, values[static_cast<size_t>(id)]});
      values[static_cast<size_t>(id)] = value;
    }
    at.push_back(element_address(*access.buffer, access.indices, values) * element);
    for (const auto& [id, value] : before) values[static_cast<size_t>(id)] = value;
  }
  const int64_t first = at[0];
  if (access.shared) {
    // Lanes of a phase are served together: as many as the banks' width holds. Different words of one bank wait.
    const int64_t width = access.matrix_rows ? kMatrixRow : bytes;
    const auto group = static_cast<size_t>(std::clamp<int64_t>(kBank * kBanks / std::max(width, kBank), 1, 32));
    double waves = 0;
    for (size_t begin = 0; begin < at.size(); begin += group) {
      std::array<std::set<int64_t>, kBanks> words;
      for (size_t i = begin; i < std::min(begin + group, at.size()); ++i)
        for (int64_t w = at[i] / kBank; w <= (at[i] + width - 1) / kBank; ++w)
          words[static_cast<size_t>(((w % kBanks) + kBanks) % kBanks)].insert(w);
      size_t most = 1;
      for (const auto& bank : words) most = std::max(most, bank.size());
      waves += 1 + conflict_weight * static_cast<double>(most - 1);
    }
    access.wavefronts = waves;
  } else {
    std::set<int64_t> sectors;
    const int64_t base = first / kSector;
    for (int64_t a : at)
      for (int64_t s = a / kSector; s <= (a + bytes - 1) / kSector; ++s) sectors.insert(s - base);
    access.sectors.assign(sectors.begin(), sectors.end());
  }
  access.known = true;
}

}  // namespace tcc::simulation
