// Products of warpgroups among fibers. A product reads shared memory and writes its accumulators when the warpgroup
// waits for it; until then the pieces that it reads are its own, and what threads see in the accumulators is poison.
// Accumulators are plain variables of the compiled source, so that another use of them between a product and its fence
// is seen by its values: they must be what they were at the last fence.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/cuda/prelude.h"
#include "emulation/host_block.h"

namespace tcc::testing {

using emulation::kSwizzleBytes;

namespace {

constexpr size_t kWarpgroup = 128;
constexpr uint32_t kPoison = 0x7fc0dead;  // a NaN

// Columns of k are contiguous in memory, rows are else.
bool is_transposed(const ir::OperandSpec& spec) {
  return spec.tile[0] < spec.tile[1] && spec.tile[0] == 16;
}

// Products of single precision read tf32.
void cut_last(std::vector<std::byte>& floats) {
  float f = 0;
  std::byte* last = floats.data() + floats.size() - sizeof f;
  std::memcpy(&f, last, sizeof f);
  f = emulation::cut_to_tf32(f);
  std::memcpy(last, &f, sizeof f);
}

bool is_poison(const float* p, size_t elements) {
  return std::all_of(p, p + elements, [](float f) { return std::memcmp(&f, &kPoison, sizeof f) == 0; });
}

}  // namespace

HostBlock::Warpgroup& HostBlock::warpgroup(std::span<Fiber> group) {
  return warpgroups_[static_cast<size_t>(group.data() - fibers_.data()) / kWarpgroup];
}

// setmaxnreg: false while the block has not as many to give.
bool HostBlock::take_registers(std::span<Fiber> group) {
  Warpgroup& g = warpgroup(group);
  const ir::Instruction& row = ir::instruction(group[0].row);
  const long long wanted = group[0].arguments[0], more = wanted - g.registers;
  if ((row.name == "setmaxnreg.inc") != (more > 0) && more != 0) {
    fail(group[0], fmt::format("{} to {} registers of a thread that has {}", row.name, wanted, g.registers));
    return false;
  }
  const auto threads = static_cast<long long>(group.size());
  if (more * threads > free_registers_) return false;
  free_registers_ -= more * threads;
  g.registers = wanted;
  return true;
}

void HostBlock::fence_products(std::span<Fiber> group) {
  for (Fiber& f : group) {
    ++f.product_fences;
    for (auto& [place, a] : f.accumulators)
      if (a.in_flight == 0) a.at_fence.assign(place, place + a.value.size());
  }
}

// The accumulators of a thread belong to a product from now on; false after a finding.
bool HostBlock::take_accumulator(Fiber& f, size_t elements) {
  auto* place = static_cast<float*>(f.operands[0].registers);
  const auto [entry, fresh] = f.accumulators.try_emplace(place);
  Accumulator& a = entry->second;
  if (a.in_flight++ > 0) {
    if (is_poison(place, elements)) return true;
    fail(f, "the accumulators of a product are written before it has been waited for");
    return false;
  }
  const bool touched =
      fresh ? f.product_fences == 0
            : a.at_fence.size() != elements || std::memcmp(a.at_fence.data(), place, elements * sizeof(float)) != 0;
  if (touched) {
    fail(f, "no wgmma.fence between another use of the accumulators and this product");
    return false;
  }
  a.value.assign(place, place + elements);
  for (size_t i = 0; i < elements; ++i) std::memcpy(place + i, &kPoison, sizeof(float));
  return true;
}

void HostBlock::issue_product(std::span<Fiber> group, const ir::Instruction& row) {
  Warpgroup& g = warpgroup(group);
  Product p;
  p.row = &row;
  p.compute = group[0].compute;
  p.group = g.group;
  const auto elements = static_cast<size_t>(codegen::cuda::registers_per_lane(row.operands[0]));
  for (Fiber& f : group) {
    if (!take_accumulator(f, elements)) return;
    p.accumulators.push_back(static_cast<float*>(f.operands[0].registers));
  }
  for (size_t o = 1; o < row.operands.size(); ++o) {
    const device::Operand& operand = group[0].operands[o];
    const auto& m = *static_cast<const device::Matrix*>(operand.registers);
    emulation::MatrixTile& tile = p.tiles[o - 1];
    tile = {place_of(operand), m.leading, m.stride, m.swizzle, ir::type_bytes(row.operands[o].type)};
    if (!tile.begins_well())
      return fail(group[0],
                  fmt::format("the matrix does not begin in the first row of a swizzle of {} bytes", tile.swizzle));
    const ir::OperandSpec& spec = row.operands[o];
    const bool transposed = is_transposed(spec);
    const int64_t rows = transposed ? spec.tile[1] : spec.tile[0], depth = transposed ? spec.tile[0] : spec.tile[1];
    std::vector<long long> pieces;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < depth; ++k) pieces.push_back(tile.at(r, k, transposed) / kSwizzleBytes * kSwizzleBytes);
    std::sort(pieces.begin(), pieces.end());
    pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
    for (long long at : pieces)
      if (!may_touch(group[0], *m.region, at, true)) return;
    p.pieces.insert(p.pieces.end(), pieces.begin(), pieces.end());
  }
  for (long long at : p.pieces)
    for (long long i = at; i < at + kSwizzleBytes; ++i) ++reading_[static_cast<size_t>(i)];
  g.products.push_back(std::move(p));
}

void HostBlock::finish_products(std::span<Fiber> group, long long keep) {
  Warpgroup& g = warpgroup(group);
  while (!g.products.empty() && g.products.front().group < g.group - keep && !failed_) {
    finish_product(group, g.products.front());
    g.products.pop_front();
  }
}

void HostBlock::finish_product(std::span<Fiber> group, const Product& p) {
  const std::vector<Spot>& spots = spots_of(p.row->operands[0]);
  std::vector<float> d(spots.size());
  const auto accumulator = [&](size_t lane) -> Accumulator& {
    return group[lane].accumulators.at(p.accumulators[lane]);
  };
  for (size_t i = 0; i < spots.size(); ++i)
    d[i] = accumulator(spots[i].lane).value[static_cast<size_t>(spots[i].element)];
  std::array<std::vector<std::byte>, 2> matrices;
  for (size_t o = 0; o < 2; ++o) {
    const ir::OperandSpec& spec = p.row->operands[o + 1];
    const bool transposed = is_transposed(spec);
    for (int64_t r = 0; r < spec.tile[0]; ++r)
      for (int64_t c = 0; c < spec.tile[1]; ++c) {
        const int64_t at = transposed ? p.tiles[o].at(c, r, true) : p.tiles[o].at(r, c, false);
        const auto* place = reinterpret_cast<const std::byte*>(arena_ + at);
        matrices[o].insert(matrices[o].end(), place, place + p.tiles[o].element);
        if (spec.type == ir::Type::kF32) cut_last(matrices[o]);
      }
  }
  void* const tiles[] = {d.data(), matrices[0].data(), matrices[1].data()};
  p.compute(tiles, nullptr);
  for (size_t i = 0; i < spots.size(); ++i)
    accumulator(spots[i].lane).value[static_cast<size_t>(spots[i].element)] = d[i];
  for (long long at : p.pieces)
    for (long long i = at; i < at + kSwizzleBytes; ++i) --reading_[static_cast<size_t>(i)];
  for (size_t lane = 0; lane < group.size(); ++lane) {
    Accumulator& a = accumulator(lane);
    float* place = p.accumulators[lane];
    if (--a.in_flight > 0) continue;
    if (!is_poison(place, a.value.size()))
      return fail(group[lane], "the accumulators of a product are written before it has been waited for");
    std::copy(a.value.begin(), a.value.end(), place);
    a.at_fence = a.value;
  }
}

}  // namespace tcc::testing
