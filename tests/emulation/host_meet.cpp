// Where the fibers of a block meet: collectives of warps, barriers, and what is said when somebody does not come.
#include <fmt/format.h>

#include <cstring>

#include "emulation/host_block.h"
#include "tcc/ir/layout.h"
#include "tcc/support/check.h"

namespace tcc::testing {
namespace {

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

// Where the elements of an operand's tile are, in row-major order: the lane and the element after the lane's first.
struct Spot {
  size_t lane;
  long long element;
};
const std::vector<Spot>& spots_of(const ir::OperandSpec& spec) {
  static std::map<const ir::OperandSpec*, std::vector<Spot>> known;
  std::vector<Spot>& spots = known[&spec];
  if (!spots.empty()) return spots;
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

}  // namespace

bool HostBlock::resolve_groups(size_t begin, size_t end) {
  bool any = false;
  for (size_t i = begin; i < end && !failed_; ++i) {
    if (fibers_[i].state != State::kRow) continue;
    const ir::Instruction& row = ir::instruction(fibers_[i].row);
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
    finding(first, "the mask does not name the lane itself");
    failed_ = true;
    return false;
  }
  for (size_t lane = 0; lane < group.size(); ++lane) {
    const Fiber& f = group[lane];
    if (named(lane) && (f.state != State::kRow || f.row != number || f.line != line)) return false;
  }
  if (row.behaviour == ir::Behaviour::kCompute && group.size() < span_of(row, fibers_.size())) {
    finding(first, fmt::format("{} needs {} threads, {} exist", row.name, span_of(row, fibers_.size()), group.size()));
    failed_ = true;
    return false;
  }
  collective(group, row);
  for (size_t lane = 0; lane < group.size(); ++lane)
    if (named(lane) && group[lane].state == State::kRow) group[lane].state = State::kReady;
  return true;
}

void HostBlock::collective(std::span<Fiber> group, const ir::Instruction& row) {
  if (row.behaviour == ir::Behaviour::kShuffle) return shuffle(group);
  if (row.behaviour != ir::Behaviour::kCompute) return;
  TCC_CHECK(row.completion == ir::Completion::kImmediate, "{} completes later", row.name);
  compute_tiles(group, row);
}

void HostBlock::compute_tiles(std::span<Fiber> group, const ir::Instruction& row) {
  std::vector<std::vector<unsigned char>> tiles;
  std::vector<void*> pointers;
  // The place of a tile's element; nullptr after a finding.
  auto element = [&](size_t o, const Spot& spot, bool reads) -> unsigned char* {
    const ir::OperandSpec& spec = row.operands[o];
    Fiber& f = group[spot.lane];
    const device::Operand& at = f.operands[o];
    if (at.region == nullptr)
      return static_cast<unsigned char*>(at.registers) + spot.element * ir::type_bytes(spec.type);
    const long long n = at.offset + spot.element;
    if (n < 0 || n >= at.region->elements) {
      finding(f, fmt::format("element {} of {} is outside", n, at.region->name));
      failed_ = true;
      return nullptr;
    }
    if (at.offset * at.region->element_bytes % spec.alignment != 0) {
      finding(f, fmt::format("element {} of {} is not aligned for {}", at.offset, at.region->name, row.name));
      failed_ = true;
    }
    if (reads && at.region->state(n) != at.region->defined) {
      const bool pending = at.region->state(n) == device::kPending;
      finding(f, fmt::format("element {} of {} is read {}", n, at.region->name,
                             pending ? "before the copy to it has been waited for" : "and nothing has written it"));
      failed_ = true;
    }
    if (!reads) at.region->mark(n, 1, at.region->defined);
    return at.region->data + n * at.region->element_bytes;
  };
  for (size_t o = 0; o < row.operands.size(); ++o) {
    const ir::OperandSpec& spec = row.operands[o];
    const auto bytes = static_cast<size_t>(ir::type_bytes(spec.type));
    const std::vector<Spot>& spots = spots_of(spec);
    std::vector<unsigned char>& tile = tiles.emplace_back(spots.size() * bytes, 0xff);
    pointers.push_back(tile.data());
    if (spec.access == ir::Access::kWrite) continue;
    for (size_t i = 0; i < spots.size(); ++i) {
      const unsigned char* from = element(o, spots[i], true);
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
      unsigned char* to = element(o, spots[i], false);
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
        finding(*t, fmt::format("barrier {} is for {} and for {} threads; {} wait", number, count, t->arguments[1],
                                threads.size()));
        failed_ = true;
        return true;
      }
    if (static_cast<long long>(threads.size()) < count) continue;
    for (const Fiber* t : threads) {
      const auto first = static_cast<size_t>(t - fibers_.data()) / 32 * 32;
      for (size_t i = first; i < std::min(fibers_.size(), first + 32); ++i)
        if (fibers_[i].state != State::kBarrier || fibers_[i].line != t->line) {
          finding(*t, fmt::format("divergent barrier {}: lane {} of the warp is not at it", number, i % 32));
          failed_ = true;
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
    const device::Operand& o = f.operands[0];
    const Mbarrier& m = mbarriers_.at(o.region->data + o.offset * o.region->element_bytes);
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
    finding(f, fmt::format("deadlock: {} threads wait at {} for ever, {} of {} have ended", together, row.name, done,
                           fibers_.size()));
  }
}

}  // namespace tcc::testing
