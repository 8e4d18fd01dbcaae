// Barriers in shared memory and bulk tensor copies among fibers. A load's destination is poison until the barrier's
// phase completes, which is when no thread can go on without it; a store reads shared memory when its thread waits for
// it. The asynchronous proxy sees what threads wrote only behind a fence by the writer or by who issues.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulation/host_block.h"

namespace tcc::testing {

using emulation::kSwizzleBytes;

long long HostBlock::place_of(const device::Operand& o) const {
  return o.region->data - arena_ + o.offset * o.region->element_bytes;
}

HostBlock* HostBlock::peer(const Fiber& f, long long rank) {
  if (rank >= 0 && rank < std::ssize(cluster_)) return cluster_[static_cast<size_t>(rank)].get();
  fail(f, fmt::format("the cluster has no block {}", rank));
  return nullptr;
}

// --- barriers --------------------------------------------------------------------------------------------------------

void HostBlock::make_barrier(Fiber& f) {
  const device::Operand& o = f.operands[0];
  checked_word(o);
  Mbarrier& m = mbarriers_[place_of(o)];
  m = {};
  m.expected = m.pending = f.arguments[0];
  m.owner = &f;
  o.region->mark(o.offset, 1, o.region->defined);
}

// A flag between blocks: the count of arrivals, then how many make a phase, as on the device.
unsigned* HostBlock::flag_of(const Fiber& f) {
  const device::Operand& o = f.operands[0];
  if (o.region->state(o.offset) != o.region->defined) fault(device::Fault::kUndefined, o.region, o.offset);
  return reinterpret_cast<unsigned*>(checked_word(o));
}
void HostBlock::make_flag(Fiber& f) {
  const device::Operand& o = f.operands[0];
  auto* flag = reinterpret_cast<unsigned*>(checked_word(o));
  flag[0] = 0;
  flag[1] = static_cast<unsigned>(f.arguments[0]);
  o.region->mark(o.offset, 1, o.region->defined);
}
bool HostBlock::flag_is_up(const Fiber& f) {
  const unsigned* flag = flag_of(f);
  return flag[0] / flag[1] % 2 != static_cast<unsigned>(f.arguments[0]);
}
bool HostBlock::resolve_flags() {
  bool any = false;
  for (Fiber& f : fibers_) {
    if (f.state != State::kFlag || !flag_is_up(f)) continue;
    f.state = State::kReady;
    any = true;
  }
  return any;
}

HostBlock::Mbarrier* HostBlock::barrier_at(const Fiber& f, HostBlock& owner, long long place) {
  const auto found = owner.mbarriers_.find(place);
  if (found == owner.mbarriers_.end()) {
    fail(f, fmt::format("the barrier at byte {} of shared memory has not been initialized", place));
    return nullptr;
  }
  if (&owner != this && !found->second.published) {
    fail(f, "no fence.mbarrier_init behind the barrier's initialization");
    return nullptr;
  }
  return &found->second;
}

void HostBlock::arrive(Fiber& f, const ir::Instruction& row) {
  const bool expects = row.behaviour == ir::Behaviour::kMbarrierExpectTx;
  HostBlock* owner = !expects && row.num_args == 1 ? peer(f, f.arguments[0]) : this;
  if (owner == nullptr) return;
  if (owner->ended()) return fail(f, "an arrival in a block that has ended");
  Mbarrier* m = barrier_at(f, *owner, place_of(f.operands[0]));
  if (m == nullptr) return;
  if (m->pending == 0) return fail(f, fmt::format("more than {} arrivals in one phase of the barrier", m->expected));
  if (expects) m->bytes += f.arguments[0];
  if (--m->pending == 0 && m->bytes == 0 && m->copies.empty()) m->pending = m->expected, ++m->phase;
}

void HostBlock::publish(const Fiber& f) {
  for (auto& [place, m] : mbarriers_) m.published |= m.owner == &f;
}

void HostBlock::fence(Fiber& f) {
  f.fenced = ++fences_;
  host_.stamp = stamp_of(f);
}

bool HostBlock::land_copies() {
  bool any = false;
  for (auto& [place, m] : mbarriers_) {
    if (m.pending != 0 || m.copies.empty()) continue;
    long long under_way = 0;
    for (const BoxCopy& c : m.copies) under_way += c.bytes;
    if (under_way > m.bytes) {
      fail(*m.copies.back().issuer,
           fmt::format("the barrier expects {} bytes and {} are under way", m.bytes, under_way));
      return false;
    }
    if (under_way < m.bytes) continue;
    for (const BoxCopy& c : m.copies) land(c);
    m.copies.clear();
    m.bytes = 0;
    m.pending = m.expected;
    ++m.phase;
    any = true;
  }
  return any;
}

// --- bulk copies -----------------------------------------------------------------------------------------------------

// Before an asynchronous access to a piece of shared memory.
bool HostBlock::may_touch(const Fiber& f, const device::Region& region, long long place, bool reads) {
  const long long begin = region.data - arena_, end = begin + region.elements * region.element_bytes;
  if (place < begin || place + kSwizzleBytes > end) {
    fail(f, fmt::format("byte {} of {} is outside", place - begin, region.name));
    return false;
  }
  const auto at = static_cast<size_t>(place);
  for (size_t i = at; i < at + kSwizzleBytes; ++i) {
    const auto byte = [&] { return fmt::format("byte {} of {}", static_cast<long long>(i) - begin, region.name); };
    if (contents_[i] == device::kPending) {
      fail(f, fmt::format("{}: a copy to it has not been waited for", byte()));
    } else if (reads && contents_[i] != region.defined) {
      fail(f, fmt::format("{} is read and nothing has written it", byte()));
    } else if (!reads && reading_[i] != 0) {
      fail(f, fmt::format("{}: it is read by a product or bulk copy that has not been waited for", byte()));
    } else if (stamps_[i] != 0) {
      const unsigned count = stamps_[i] & ((1u << kFenceBits) - 1);
      const Fiber& writer = fibers_[(stamps_[i] >> kFenceBits) - 1];
      if (writer.fenced <= count && f.fenced <= count)
        fail(f, fmt::format("{}: no fence.proxy.async between the write by thread {} and this asynchronous access",
                            byte(), &writer - fibers_.data()));
    }
    if (failed_) return false;
  }
  return true;
}

std::optional<HostBlock::BoxCopy> HostBlock::read_box(Fiber& f, const device::Operand& shared,
                                                      const device::Operand& box) {
  const auto& b = *static_cast<const device::Box*>(box.registers);
  const codegen::TensorMap& map = launch_.shape.tensor_maps[static_cast<size_t>(b.map)];
  BoxCopy c;
  c.map = &map;
  c.tensor = &launch_.parameters[static_cast<size_t>(map.buffer)];
  c.region = shared.region;
  c.shared = place_of(shared);
  c.bytes = emulation::box_bytes(map);
  c.issuer = &f;
  std::copy_n(b.at, b.rank, c.at.begin());
  if (b.rank != std::ssize(map.box)) fail(f, fmt::format("the tensor has {} dimensions", map.box.size()));
  if (c.shared % 128 != 0) fail(f, fmt::format("byte {} of shared memory is not a multiple of 128", c.shared));
  if (failed_) return std::nullopt;
  return c;
}

void HostBlock::start_load(Fiber& f, const ir::Instruction& row) {
  const auto copy = read_box(f, f.operands[0], f.operands[2]);
  if (!copy) return;
  const long long barrier = place_of(f.operands[1]);
  if (row.multicast_arg < 0) return receive(f, *this, *copy, barrier);
  const long long mask = f.arguments[static_cast<size_t>(row.multicast_arg)];
  for (long long rank = 0; rank < 16 && !failed_; ++rank)
    if (((mask >> rank) & 1) != 0)
      if (HostBlock* target = peer(f, rank); target != nullptr) receive(f, *target, *copy, barrier);
}

void HostBlock::receive(Fiber& f, HostBlock& target, BoxCopy copy, long long barrier) {
  Mbarrier* m = barrier_at(f, target, barrier);
  if (m == nullptr) return;
  if (!m->published) return fail(f, "no fence.mbarrier_init behind the barrier's initialization");
  const size_t number = copy.region->defined - device::kDefined;
  copy.region = &target.shared_.at(number);
  emulation::for_pieces(*copy.map, copy.at, copy.shared, [&](int64_t to, int64_t, int64_t, int64_t) {
    if (failed_) return;
    if (!target.may_touch(&target == this ? f : *m->owner, *copy.region, to, false)) {
      failed_ = true;
      return;
    }
    std::fill_n(target.contents_.begin() + to, kSwizzleBytes, device::kPending);
    std::fill_n(target.stamps_.begin() + to, kSwizzleBytes, 0);
    std::memset(target.arena_ + to, 0xff, kSwizzleBytes);
  });
  if (!failed_) m->copies.push_back(copy);
}

void HostBlock::land(const BoxCopy& c) {
  const int64_t element = ir::type_bytes(c.map->type);
  emulation::for_pieces(*c.map, c.at, c.shared, [&](int64_t to, int64_t from, int64_t begin, int64_t end) {
    std::memset(arena_ + to, 0, kSwizzleBytes);
    for (int64_t e = begin; e < end; ++e) {
      const int64_t at = from + e * element;
      if (c.tensor->contents[at] != c.tensor->defined)
        return fail(*c.issuer, fmt::format("byte {} of {} is read and nothing has written it", at, c.tensor->name));
      std::memcpy(arena_ + to + e * element, c.tensor->data + at, static_cast<size_t>(element));
    }
    emulation::round_piece(*c.map, arena_ + to);
    std::fill_n(contents_.begin() + to, kSwizzleBytes, c.region->defined);
  });
}

void HostBlock::start_store(Fiber& f) {
  auto copy = read_box(f, f.operands[1], f.operands[0]);
  if (!copy) return;
  emulation::for_pieces(*copy->map, copy->at, copy->shared, [&](int64_t from, int64_t, int64_t, int64_t) {
    if (failed_ || !may_touch(f, *copy->region, from, true)) return;
    for (int64_t i = from; i < from + kSwizzleBytes; ++i) ++reading_[static_cast<size_t>(i)];
  });
  copy->group = f.box_group;
  f.boxes.push_back(*copy);
}

void HostBlock::finish_stores(Fiber& f, long long keep) {
  const auto stays = [&](const BoxCopy& c) { return c.group >= f.box_group - keep; };
  for (const BoxCopy& c : f.boxes) {
    if (stays(c)) continue;
    const int64_t element = ir::type_bytes(c.map->type);
    emulation::for_pieces(*c.map, c.at, c.shared, [&](int64_t from, int64_t to, int64_t begin, int64_t end) {
      for (int64_t i = from; i < from + kSwizzleBytes; ++i) --reading_[static_cast<size_t>(i)];
      for (int64_t e = begin; e < end; ++e) {
        std::memcpy(c.tensor->data + to + e * element, arena_ + from + e * element, static_cast<size_t>(element));
        c.tensor->mark((to + e * element) / c.tensor->element_bytes, 1, c.tensor->defined);
      }
    });
  }
  std::erase_if(f.boxes, [&](const BoxCopy& c) { return !stays(c); });
}

void HostBlock::check_end() {
  for (Fiber& f : fibers_)
    if (!f.boxes.empty()) fail(f, "the thread has ended while its bulk copy reads the block's shared memory");
  for (size_t g = 0; g < warpgroups_.size(); ++g)
    if (!warpgroups_[g].products.empty())
      fail(fibers_[g * 128], "the warpgroup has ended while its product is not waited for");
  for (auto& [place, m] : mbarriers_)
    if (!m.copies.empty()) fail(*m.copies[0].issuer, "the block has ended while a bulk copy to it is under way");
}

}  // namespace tcc::testing
