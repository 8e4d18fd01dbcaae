// Where the fibers of a block meet: collectives of warps, barriers, and what is said when somebody does not come.
#include <fmt/format.h>

#include <cstring>

#include "emulation/host_block.h"
#include "tcc/ir/layout.h"
#include "tcc/support/check.h"

namespace tcc::testing {

size_t span_of(const ir::Instruction& row, size_t block) {
  switch (row.participants) {
    case ir::Participants::kThread:
    case ir::Participants::kWarp:
      return 32;
    case ir::Participants::kWarpgroup:
      return 128;
    case ir::Participants::kBlock:
      return block;
  }
  return block;
}

const std::vector<Spot>& spots_of(const ir::OperandSpec& spec) {
  static std::map<const ir::OperandSpec*, std::vector<Spot>> known;
  std::vector<Spot>& spots = known[&spec];
  if (!spots.empty()) return spots;
  if (spec.layout.empty()) {
    for (int64_t i = 0; i < spec.tile[0]; ++i)
      for (int64_t j = 0; j < spec.tile[1]; ++j) spots.push_back({0, j, i});
    return spots;
  }
  Arena arena;
  auto layout = ir::parse_layout(arena, spec.layout);
  TCC_CHECK(layout.has_value(), "layout of operand {}", spec.name);
  std::vector<int64_t> index(static_cast<size_t>(spec.rank), 0);
  for (;;) {
    const ir::PhysicalIndex at = ir::apply(**layout, index);
    spots.push_back({static_cast<size_t>(at.warp * 32 + at.lane), at.reg + at.address});
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == spec.tile[d - 1]) index[--d] = 0;
    if (d == 0) return spots;
  }
}

bool HostBlock::resolve_groups(size_t begin, size_t end) {
  bool any = false;
  for (size_t i = begin; i < end && !failed_; ++i) {
    if (fibers_[i].state != State::kRow) continue;
    const ir::Instruction& row = ir::instruction(fibers_[i].row);
    if (row.behaviour == ir::Behaviour::kClusterSync) continue;
    const size_t span = span_of(row, fibers_.size()), first = i / span * span;
    any = resolve_group(std::span(fibers_).subspan(first, std::min(span, fibers_.size() - first)), fibers_[i]) || any;
  }
  return any;
}

// True when all that the row is for are at the same call; then it has been done.
bool HostBlock::resolve_group(std::span<Fiber> group, const Fiber& first) {
  const ir::Instruction& row = ir::instruction(first.row);
  const long long mask = row.behaviour == ir::Behaviour::kWarpSync ? first.arguments[0] : -1;
  const int number = first.row, line = first.line;
  auto named = [&](size_t lane) { return ((mask >> (lane % 32)) & 1) != 0; };
  if (!named(static_cast<size_t>(&first - group.data()))) {
    fail(first, "the mask does not name the lane itself");
    return false;
  }
  for (size_t lane = 0; lane < group.size(); ++lane) {
    const Fiber& f = group[lane];
    if (named(lane) && (f.state != State::kRow || f.row != number || f.line != line)) return false;
  }
  if (row.behaviour == ir::Behaviour::kCompute && group.size() < span_of(row, fibers_.size())) {
    fail(first, fmt::format("{} needs {} threads, {} exist", row.name, span_of(row, fibers_.size()), group.size()));
    return false;
  }
  if (row.behaviour == ir::Behaviour::kSetMaxRegisters && !take_registers(group)) return false;
  collective(group, row);
  for (size_t lane = 0; lane < group.size(); ++lane)
    if (named(lane) && group[lane].state == State::kRow) group[lane].state = State::kReady;
  return true;
}

void HostBlock::collective(std::span<Fiber> group, const ir::Instruction& row) {
  using ir::Behaviour;
  if (row.behaviour == Behaviour::kShuffle) return shuffle(group);
  if (row.behaviour == Behaviour::kWgmmaFence) return fence_products(group);
  if (row.behaviour == Behaviour::kWgmmaCommit) ++warpgroup(group).group;
  if (row.behaviour == Behaviour::kWgmmaWait) return finish_products(group, group[0].arguments[0]);
  if (row.behaviour != Behaviour::kCompute) return;
  if (row.completion == ir::Completion::kWgmmaGroup) return issue_product(group, row);
  TCC_CHECK(row.completion == ir::Completion::kImmediate, "{} completes later", row.name);
  compute_tiles(group, row);
}

// The place of a tile's element in one thread; nullptr after a finding.
unsigned char* HostBlock::tile_element(Fiber& f, const ir::Instruction& row, size_t operand, const Spot& spot,
                                       bool reads) {
  const ir::OperandSpec& spec = row.operands[operand];
  const device::Operand& at = f.operands[operand];
  if (at.region == nullptr) return static_cast<unsigned char*>(at.registers) + spot.element * ir::type_bytes(spec.type);
  const device::Region& r = *at.region;
  const long long n = at.offset + spot.element + spot.row * at.pitch;
  if (n < 0 || n >= r.elements) {
    fail(f, fmt::format("element {} of {} is outside", n, r.name));
    return nullptr;
  }
  if (at.offset * r.element_bytes % spec.alignment != 0 || at.pitch * r.element_bytes % spec.alignment != 0)
    fail(f, fmt::format("element {} of {} is not aligned for {}", at.offset, r.name, row.name));
  if (reads && r.state(n) != r.defined)
    fail(f, fmt::format("element {} of {} is read {}", n, r.name,
                        r.state(n) == device::kPending ? "before the copy to it has been waited for"
                                                       : "and nothing has written it"));
  if (!reads && r.stamps != nullptr) {
    for (long long i = n * r.element_bytes; i < (n + 1) * r.element_bytes; ++i) {
      if (r.reading[i] != 0 || r.contents[i] == device::kPending)
        fail(f, fmt::format("element {} of {} is written while a copy or product has not been waited for", n, r.name));
      r.stamps[i] = stamp_of(f);
    }
  }
  if (!reads) r.mark(n, 1, r.defined);
  return r.data + n * r.element_bytes;
}

// A matrix in memory without a layout over lanes is named by all of them.
bool HostBlock::agree_on_matrices(std::span<Fiber> group, const ir::Instruction& row) {
  for (size_t o = 0; o < row.operands.size(); ++o)
    for (const Fiber& f : group) {
      const device::Operand &mine = f.operands[o], &first = group[0].operands[o];
      if (!row.operands[o].layout.empty() ||
          (mine.region == first.region && mine.offset == first.offset && mine.pitch == first.pitch))
        continue;
      fail(f, fmt::format("lanes name different matrices to {}", row.name));
      return false;
    }
  return true;
}

void HostBlock::compute_tiles(std::span<Fiber> group, const ir::Instruction& row) {
  if (!agree_on_matrices(group, row)) return;
  std::vector<std::vector<unsigned char>> tiles;
  std::vector<void*> pointers;
  for (size_t o = 0; o < row.operands.size(); ++o) {
    const ir::OperandSpec& spec = row.operands[o];
    const auto bytes = static_cast<size_t>(ir::type_bytes(spec.type));
    const std::vector<Spot>& spots = spots_of(spec);
    std::vector<unsigned char>& tile = tiles.emplace_back(spots.size() * bytes, 0xff);
    pointers.push_back(tile.data());
    if (spec.access == ir::Access::kWrite) continue;
    for (size_t i = 0; i < spots.size(); ++i) {
      const unsigned char* from = tile_element(group[spots[i].lane], row, o, spots[i], true);
      if (failed_) return;
      std::memcpy(tile.data() + i * bytes, from, bytes);
    }
  }
  group[0].compute(pointers.data(), group[0].arguments.data());
  for (size_t o = 0; o < row.operands.size(); ++o) {
    const ir::OperandSpec& spec = row.operands[o];
    if (spec.access == ir::Access::kRead) continue;
    const auto bytes = static_cast<size_t>(ir::type_bytes(spec.type));
    const std::vector<Spot>& spots = spots_of(spec);
    for (size_t i = 0; i < spots.size(); ++i) {
      unsigned char* to = tile_element(group[spots[i].lane], row, o, spots[i], false);
      if (failed_) return;
      std::memcpy(to, tiles[o].data() + i * bytes, bytes);
    }
  }
}

// PTX manual, "shfl.sync": a source outside of the segment, or that does not exist, leaves a lane its own value.
void HostBlock::shuffle(std::span<Fiber> group) {
  std::vector<uint32_t> values(group.size());
  for (size_t i = 0; i < group.size(); ++i) std::memcpy(&values[i], group[i].operands[1].registers, 4);
  for (size_t i = 0; i < group.size(); ++i) {
    const long long mode = group[i].arguments[0], by = group[i].arguments[1], width = group[i].arguments[2];
    const auto lane = static_cast<long long>(i);
    const long long first = lane / width * width;
    long long source = lane;
    if (mode == 0) source = first + by % width;
    if (mode == 1) source = lane - by;
    if (mode == 2) source = lane + by;
    if (mode == 3) source = lane ^ by;
    if (source < first || source >= first + width || source >= static_cast<long long>(group.size())) source = lane;
    std::memcpy(group[i].operands[0].registers, &values[static_cast<size_t>(source)], 4);
  }
}

bool HostBlock::resolve_barriers() {
  std::map<long long, std::vector<Fiber*>> waiting;
  for (Fiber& f : fibers_)
    if (f.state == State::kBarrier) waiting[f.arguments[0]].push_back(&f);
  bool any = false;
  for (auto& [number, threads] : waiting) {
    const long long count = threads[0]->arguments[1];
    for (const Fiber* t : threads)
      if (t->arguments[1] != count || static_cast<long long>(threads.size()) > count) {
        fail(*t, fmt::format("barrier {} is for {} and for {} threads; {} wait", number, count, t->arguments[1],
                             threads.size()));
        return true;
      }
    if (static_cast<long long>(threads.size()) < count) continue;
    for (const Fiber* t : threads) {
      const auto first = static_cast<size_t>(t - fibers_.data()) / 32 * 32;
      for (size_t i = first; i < std::min(fibers_.size(), first + 32); ++i)
        if (fibers_[i].state != State::kBarrier || fibers_[i].line != t->line) {
          fail(*t, fmt::format("divergent barrier {}: lane {} of the warp is not at it", number, i % 32));
          return true;
        }
    }
    for (Fiber* t : threads) t->state = State::kReady;
    any = true;
  }
  return any;
}

bool HostBlock::resolve_mbarriers() {
  bool any = false;
  for (Fiber& f : fibers_) {
    if (f.state != State::kMbarrier) continue;
    const Mbarrier& m = mbarriers_.at(place_of(f.operands[0]));
    if (m.phase % 2 == f.arguments[0] % 2) continue;
    f.state = State::kReady;
    any = true;
  }
  return any;
}

// One finding for each place where threads wait.
void HostBlock::explain_deadlock() {
  std::map<std::pair<int, int>, int> said;
  for (Fiber& f : fibers_) {
    if (f.state == State::kDone || said[{static_cast<int>(f.state), f.line}]++ > 0) continue;
    const ir::Instruction& row = ir::instruction(f.row);
    int together = 0, done = 0;
    for (const Fiber& o : fibers_) {
      together += o.state == f.state && o.line == f.line;
      done += o.state == State::kDone;
    }
    std::string missing;
    if (f.state == State::kMbarrier) {
      const Mbarrier& m = mbarriers_.at(place_of(f.operands[0]));
      long long under_way = 0;
      for (const BoxCopy& c : m.copies) under_way += c.bytes;
      missing = fmt::format("; phase {} of the barrier lacks {} of {} arrivals and {} bytes", m.phase, m.pending,
                            m.expected, m.bytes - under_way);
    }
    finding(f, fmt::format("deadlock: {} threads wait at {} for ever, {} of {} have ended{}", together, row.name, done,
                           fibers_.size(), missing));
  }
}

}  // namespace tcc::testing
