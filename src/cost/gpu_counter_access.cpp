// What accesses of memory and of shared memory cost: sectors, lines, banks, and how long a thread waits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include "cost/gpu_counter.h"
#include "cost/gpu_figures.h"
#include "tcc/analysis/address.h"
#include "tcc/analysis/roles.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/gpu_sizes.h"

namespace tcc::cost {

using namespace ir;

namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();
constexpr size_t kMaxQuotients = 64;  // of indices that are remembered

}  // namespace

// A fused loop x is taken apart into indices x // n and x % n of neighboring dimensions. Where they name all elements
// of these dimensions in order, lowered code has x itself in the address. Returns x of as many of the last dimensions
// as it belongs to, and sets `from` to the first of them; nullptr: the last index is another one.
Expr GpuCounter::joined_index(const Buffer& b, std::span<const Expr> indices, size_t& from) {
  from = indices.size();
  if (indices.size() < 2 || b.layout != nullptr || indices.back()->kind != ExprKind::kFloorMod) return nullptr;
  const Expr x = as<Binary>(indices.back())->a;
  Expr rest = x;
  for (size_t d = indices.size(); d-- > 0;) {
    if (rest->kind == ExprKind::kLoad || !is_int(b.shape[d])) return nullptr;
    if (d + 1 < indices.size() && equal(indices[d], rest)) {
      from = d;
      return x;
    }
    if (!equal(indices[d], b_.floor_mod(rest, b.shape[d]))) return nullptr;
    rest = b_.floor_div(rest, b.shape[d]);
  }
  return nullptr;
}

void GpuCounter::look_at(const Buffer& b, std::span<const Expr> indices) {
  Movement& m = movement_;
  m.steps.assign(loops_.size(), 0);
  m.divisor = 0;
  m.constant = 0;
  m.from = made_[static_cast<size_t>(b.id)];
  m.gathers = false;
  m.shared = places_[static_cast<size_t>(b.id)] == Place::kShared;
  bool remainders = false;
  int64_t size = 1;
  auto add = [&](Expr atom, int64_t c) {
    const int64_t step = c * size;
    if (const Var* v = as<Var>(atom)) {
      const int32_t at = depth_[static_cast<size_t>(v->id)];
      if (at < 0) return;
      int64_t& s = m.steps[static_cast<size_t>(at)];
      if (s != kUnknown) s += step;
      return;
    }
    if (is_int(atom)) {
      m.constant += int_value(atom) * step;
      return;
    }
    const Expr whole = without_lane(atom);
    m.divisor = std::gcd(m.divisor, analysis::known_divisor(k_, whole != nullptr ? whole : atom) * step);
    remainders |= atom->kind == ExprKind::kFloorMod;
    m.gathers |= atom->kind == ExprKind::kLoad;
    for (size_t i = 0; i < loops_.size(); ++i)
      if (may_mention(whole != nullptr ? whole : atom, loops_[i].loop->id)) m.steps[i] = kUnknown;
    if (whole != nullptr && atom->kind == ExprKind::kFloorMod && m.steps.back() != kUnknown) m.steps.back() += step;
  };
  auto add_index = [&](Expr e) {
    const Sum* sum = as<Sum>(e);
    if (sum == nullptr) return add(e, 1);
    m.constant += sum->constant * size;
    for (const Term& t : sum->terms) add(t.atom, t.coefficient);
  };
  size_t from = 0;
  if (const Expr x = joined_index(b, indices, from)) add_index(x);
  for (size_t d = indices.size(); d-- > 0;) {
    if (d < from) add_index(indices[d]);
    size *= is_int(b.shape[d]) ? std::max<int64_t>(int_value(b.shape[d]), 1) : 1;
  }
  if (remainders && b.layout == nullptr) m.divisor = std::max(m.divisor, divisor_of_rest(b, indices));
}

// A divisor of what the address has beside its constant and the loops that move it step by step. Remainders are seen
// together with what they are remainders of.
int64_t GpuCounter::divisor_of_rest(const Buffer& b, std::span<const Expr> indices) {
  Expr rest = b_.offset(analysis::flat_address(b_, b, indices), -movement_.constant);
  for (size_t i = 0; i < loops_.size(); ++i)
    if (movement_.steps[i] != kUnknown && movement_.steps[i] != 0)
      rest = b_.sub(rest, b_.scale(b_.var(loops_[i].loop->id), movement_.steps[i]));
  return analysis::known_divisor(k_, rest);
}

// A quotient or a remainder whose number no vector of the innermost loop crosses, without the lane: lowering says
// (m + lane) mod n as m mod n + lane (lower/gpu/edit.h, keep_vectors_whole). nullptr: something else.
Expr GpuCounter::without_lane(Expr atom) {
  if ((atom->kind != ExprKind::kFloorDiv && atom->kind != ExprKind::kFloorMod) || loops_.empty()) return nullptr;
  const Loop& l = *loops_.back().loop;
  const Binary& op = *as<Binary>(atom);
  if (l.loop_kind != LoopKind::kVectorized || !is_int(l.extent) || !is_int(op.b) || !may_mention(op.a, l.id))
    return nullptr;
  const int64_t lanes = int_value(l.extent);
  const Expr rest = b_.sub(op.a, b_.var(l.id));
  if (mentions(rest, l.id) || int_value(op.b) % lanes != 0 || analysis::known_divisor(k_, rest) % lanes != 0)
    return nullptr;
  return atom->kind == ExprKind::kFloorDiv ? b_.floor_div(rest, op.b) : b_.floor_mod(rest, op.b);
}

// Quotients and remainders of an index are computed where the innermost loop that they mention steps, once for equal
// ones. Straight code has one for each of its copies.
void GpuCounter::index(Expr e, double times) {
  if (as<Var>(e) != nullptr || is_int(e)) return;
  visit(e, [&](Expr x) {
    if (x->kind == ExprKind::kLoad) return false;
    if (x->kind != ExprKind::kFloorDiv && x->kind != ExprKind::kFloorMod) return true;
    if (std::find(counted_.begin(), counted_.end(), x->hash) != counted_.end()) return false;
    if (counted_.size() < kMaxQuotients) counted_.push_back(x->hash);
    double n = times;
    const Expr whole = without_lane(x);
    for (size_t i = loops_.size(); i-- > 0 && !may_mention(whole != nullptr ? whole : x, loops_[i].loop->id);) {
      if (loops_[i].bound) break;
      n /= loops_[i].extent;
    }
    Expr by = as<Binary>(x)->b;
    const bool shift = is_int(by) && std::has_single_bit(static_cast<uint64_t>(std::abs(int_value(by))));
    facts_.instructions += warps(n) * index_factor_ * (shift ? 1 : model_.division_instructions);
    return true;
  });
}

// Executions that remain where registers keep the value: over loops that do not move the address, out to the first
// loop that moves it step by step, or to the allocation, whose next iteration holds other values.
double GpuCounter::reused(double times) const {
  size_t i = loops_.size();
  while (i > movement_.from && !loops_[i - 1].bound) {
    --i;
    if (movement_.steps[i] == 0)
      times /= loops_[i].extent;
    else if (!loops_[i].expanded)
      break;
  }
  // Virtual threads become the innermost loops of the statements that differ between them (lower/gpu/sink_vthreads.h):
  // what does not move with them is loaded once, if it is the same for all of them.
  const size_t from = movement_.shared ? 0 : movement_.from;
  while (!copying_ && i-- > from)
    if (loops_[i].loop->axis == Axis::kVthread && movement_.steps[i] == 0) times /= loops_[i].extent;
  return times;
}

// Neighboring elements that the thread itself accesses one after the other.
double GpuCounter::own_run() const {
  double run = 1;
  for (size_t i = loops_.size(); i-- > 0 && !loops_[i].bound;) {
    if (movement_.steps[i] == 0 || loops_[i].extent == 1) continue;
    if (movement_.steps[i] == kUnknown || static_cast<double>(movement_.steps[i]) != run) break;
    run *= loops_[i].extent;
  }
  return run;
}

// Elements of one access in a nest of expanded loops around nothing but one store (lower/gpu/vectorize_stores.h), or in
// a vectorized loop.
double GpuCounter::vector_of(int64_t bytes) const {
  for (size_t i = loops_.size(); i-- > 0 && loops_[i].expanded;) {
    const Around& a = loops_[i];
    const bool vectorized = a.loop->loop_kind == LoopKind::kVectorized;
    if (!vectorized && i < straight_) break;
    if (movement_.steps[i] != 1) continue;
    int64_t divisor = movement_.divisor;
    for (size_t o = 0; o < loops_.size(); ++o)
      if (o != i && movement_.steps[o] != kUnknown) divisor = std::gcd(divisor, movement_.steps[o]);
    const auto extent = static_cast<int64_t>(a.extent);
    const int64_t widest = std::max<int64_t>(kMaxAccessBytes / bytes, 1);
    int64_t width = std::min(int64_t{1} << std::countr_zero(static_cast<uint64_t>(extent)), widest);
    while (width > 1 && std::gcd(divisor, movement_.constant) % width != 0) width /= 2;
    if (!vectorized || !to_registers_) return static_cast<double>(width);
    // Single elements up to a whole vector, and behind the last one (lower/gpu/align_vectors.h).
    int64_t whole = widest;
    while (whole > 1 && divisor % whole != 0) whole /= 2;
    const int64_t head = std::min(floor_mod(-movement_.constant, whole), extent);
    const int64_t accesses = head + (extent - head) / whole + (extent - head) % whole;
    return std::max(static_cast<double>(width), static_cast<double>(extent) / static_cast<double>(accesses));
  }
  return 1;
}

// The bytes at which the first warp's elements begin in the first iteration of all other loops, for addresses that are
// not linear in the thread: rows that wrap around within a warp are neighbors in memory all the same. Empty where an
// address is unknown.
std::vector<int64_t> GpuCounter::first_warp(const Buffer& b, std::span<const Expr> indices) const {
  Assignment at;
  size_t thread = 0;
  int64_t lanes = 1;
  for (const Around& a : loops_) {
    if (a.loop->axis == Axis::kThreadX) thread = at.size(), lanes = static_cast<int64_t>(a.extent);
    at.emplace_back(a.loop->id, 0);
  }
  std::vector<int64_t> out;
  for (int64_t lane = 0; lane < std::min<int64_t>(lanes, target_.cuda.warp_size); ++lane) {
    at[thread].second = lane;
    int64_t address = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      // Lanes that gather are taken to gather from one row.
      bool gathers = false;
      visit(indices[d], [&](Expr e) { return !(gathers = gathers || e->kind == ExprKind::kLoad); });
      const std::optional<int64_t> index = gathers ? 0 : evaluate(indices[d], at);
      if (!index || !is_int(b.shape[d])) return {};
      address = address * int_value(b.shape[d]) + *index;
    }
    out.push_back(address * type_bytes(b.type));
  }
  return out;
}

// The same of a copy that threads share: neighboring threads take neighboring vectors of it.
std::vector<int64_t> GpuCounter::lanes_of_copy(const Buffer& b, std::span<const Expr> indices) const {
  Assignment at;
  size_t copy = loops_.size();
  for (const Around& a : loops_) {
    if (copy == loops_.size() && has_annotation(*a.loop, AnnotationKey::kCooperativeFetch)) copy = at.size();
    at.emplace_back(a.loop->id, 0);
  }
  if (copy == loops_.size()) return {};
  const int64_t vector = std::max<int64_t>(annotation_or(*loops_[copy].loop, AnnotationKey::kCooperativeFetch, 1), 1);
  const int64_t count = std::min<int64_t>({target_.cuda.warp_size, static_cast<int64_t>(facts_.threads),
                                           static_cast<int64_t>(loops_[copy].extent) / vector});
  std::vector<int64_t> out;
  for (int64_t lane = 0; lane < count; ++lane) {
    at[copy].second = lane * vector;
    int64_t address = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      const std::optional<int64_t> index = evaluate(indices[d], at);
      if (!index || !is_int(b.shape[d])) return {};
      address = address * int_value(b.shape[d]) + *index;
    }
    out.push_back(address * type_bytes(b.type));
  }
  return out;
}

// Pieces of memory, of `bytes` each, that a whole warp of such lanes touches, `of_lane` bytes each; one for each lane
// where nothing is known.
double GpuCounter::pieces_of_warp(const std::vector<int64_t>& lanes, int64_t bytes, int64_t of_lane) const {
  const auto warp = static_cast<double>(target_.cuda.warp_size);
  if (lanes.empty()) return warp;
  std::set<int64_t> pieces;
  for (int64_t address : lanes)
    for (int64_t p = floor_div(address, bytes); p <= floor_div(address + of_lane - 1, bytes); ++p) pieces.insert(p);
  return static_cast<double>(pieces.size()) * warp / static_cast<double>(lanes.size());
}

double GpuCounter::access(const Buffer& b, std::span<const Expr> indices, double times, bool loads) {
  const Place where = places_[static_cast<size_t>(b.id)];
  if (where == Place::kRegisters) return 0;
  if (role_ == nullptr || !copying_) {
    size_t from = 0;
    if (const Expr x = joined_index(b, indices, from)) index(x, copying_ ? times / vector_ : times);
    for (Expr e : indices.first(from)) index(e, copying_ ? times / vector_ : times);
  }
  look_at(b, indices);
  const auto bytes = static_cast<double>(type_bytes(b.type));
  double touched = times * bytes;
  for (size_t i = 0; i < loops_.size(); ++i) {
    const Axis axis = loops_[i].loop->axis;
    if (movement_.steps[i] == 0 && !(copying_ && (is_thread(axis) || axis == Axis::kVthread)))
      touched /= loops_[i].extent;
  }
  const double left = reused(times);
  if (where == Place::kShared) {
    // The stores of a producer's boxes are counted with their reads.
    if (copying_ && role_ != nullptr) return 0;
    facts_.shared_accesses += count_shared(b, left);
    return loads ? model_.shared_latency_cycles : 0;
  }
  const double moved = count_memory(b, indices, left);
  auto seen = std::find_if(traffic_.begin(), traffic_.end(), [&](const Traffic& t) { return t.buffer == &b; });
  if (seen == traffic_.end()) seen = traffic_.insert(traffic_.end(), Traffic{&b});
  const double before = std::exchange(seen->touched, seen->touched + touched);
  seen->moved += moved;
  if (!loads) return 0;
  // The second-level cache holds bytes that this launch loaded before, or that other blocks load, too.
  const double missing = before > 0 ? 0 : std::min(1.0, touched / std::max(left * bytes, 1.0));
  return latency(missing, bytes);
}

double GpuCounter::latency(double missing, double bytes) {
  const double clock = target_.clock_hz * 1e-9;
  const double far = clock * (missing * model_.memory_latency_ns + (1 - missing) * model_.l2_latency_ns);
  double batch = copying_ ? pieces_ * vector_ * bytes * std::max(ahead_ - 1, 1.0) : bytes;
  size_t i = loops_.size();
  for (; i-- > 0 && !copying_ && loops_[i].expanded;)
    if (movement_.steps[i] != 0) batch *= loops_[i].extent;
  batch_ += batch;
  if (copying_) return far;
  for (i = loops_.size(); i-- > 0 && !loops_[i].bound;) {
    if (loops_[i].expanded) continue;
    // The value of a loop that does not move the address is loaded before it; steps within a sector find it in the
    // first-level cache.
    if (movement_.steps[i] == 0) return 0;
    if (movement_.steps[i] == kUnknown) return far;
    const double copies = copies_[static_cast<size_t>(loops_[i].loop->id)];
    const double step = std::abs(static_cast<double>(movement_.steps[i])) * bytes * copies;
    const double share = std::min(1.0, step / static_cast<double>(target_.cuda.memory_transaction_bytes));
    return share * far + (1 - share) * model_.l1_latency_cycles;
  }
  return far;
}

// Lines of shared memory: threads that hit one bank wait for each other.
double GpuCounter::count_shared(const Buffer& b, double times) {
  const auto bytes = static_cast<double>(type_bytes(b.type));
  int64_t along = copying_ ? 1 : 0;
  for (size_t i = 0; i < loops_.size() && !copying_; ++i)
    if (loops_[i].loop->axis == Axis::kThreadX) along = movement_.steps[i] == kUnknown ? 1 : movement_.steps[i];
  const double words = std::abs(static_cast<double>(along)) * bytes / 4;
  double conflicts = 1;
  if (words >= 2) {
    const auto whole = static_cast<int64_t>(words);
    conflicts =
        std::min(swizzled_[static_cast<size_t>(b.id)] ? kSwizzledConflicts : 32, static_cast<double>(whole & -whole));
    // Wide accesses of neighbors take turns without a conflict.
    if (own_run() * bytes / 4 >= words) conflicts = 1;
  }
  // Fragments and copies of several elements at a time use the whole width of the banks; others a word a lane.
  const double vector = matrix_    ? static_cast<double>(kMaxAccessBytes) / bytes
                        : copying_ ? vector_
                                   : vector_of(type_bytes(b.type));
  const bool wide = matrix_ || vector * bytes >= 4;
  if (!copying_) facts_.instructions += warps(times) / vector;
  const double shared = copying_ || matrix_ || vector * bytes < kMaxAccessBytes ? 1 : half_warp_share();
  return warps(times) * conflicts * shared * (wide ? bytes / 4 : std::max(1.0, bytes / 4));
}

// Of 16 bytes a lane the banks serve half a warp at a time, and what its lanes share only once: the share of the two
// cycles that 16 different pieces take, a half at least.
double GpuCounter::half_warp_share() const {
  const double half = static_cast<double>(target_.cuda.warp_size) / 2;
  double lanes = 1, different = 1;
  for (const Axis axis : {Axis::kThreadX, Axis::kThreadY, Axis::kThreadZ})
    for (size_t i = 0; i < loops_.size(); ++i) {
      if (loops_[i].loop->axis != axis || lanes >= half) continue;
      const double here = std::min(loops_[i].extent, half / lanes);
      lanes *= here;
      if (movement_.steps[i] != 0) different *= here;
    }
  return std::clamp(different / half, 0.5, 1.0);
}

// Bytes that the access moves to or from the second-level cache.
double GpuCounter::count_memory(const Buffer& b, std::span<const Expr> indices, double times) {
  const auto bytes = static_cast<double>(type_bytes(b.type)), warp = static_cast<double>(target_.cuda.warp_size);
  const auto sector = static_cast<double>(target_.cuda.memory_transaction_bytes);
  const double line = model_.l1_bytes_per_cycle, n = times / std::min(facts_.threads, warp), per_warp = warp * bytes;
  if (role_ != nullptr && analysis::takes_tensor_stores(b)) {
    // Whole rows leave by tensor copies, after they went to shared memory and were read there.
    facts_.instructions += n;
    facts_.shared_accesses += 2 * n * per_warp / line;
    return n * per_warp;
  }
  if (copying_ && role_ != nullptr) {
    // Boxes of a producer go to shared memory past the first-level cache, and take its whole width while they arrive,
    // in each block that they are sent to. Blocks of a cluster that want the same box are sent it once.
    facts_.shared_accesses += n * per_warp / line;
    double moved = n * per_warp;
    for (size_t i = 0; i < loops_.size(); ++i)
      if (is_cluster(loops_[i].loop->axis) && movement_.steps[i] == 0) moved /= loops_[i].extent;
    return moved;
  }
  if (matrix_ && !copying_) {
    // Lanes have eight neighbors of a row between four of them.
    const double rows = per_warp / (kFragmentRow * bytes);
    facts_.shared_accesses += n * rows;
    facts_.instructions += n / 2;
    return n * rows * std::max(sector, kFragmentRow * bytes);
  }
  if (copying_) {
    // The first-level cache looks up a line a cycle. Lanes of a copy that goes element by element have whole vectors
    // between them all the same.
    double lines = vector_ * per_warp / line;
    const bool narrow = vector_ * bytes < kMaxAccessBytes;
    if (const std::vector<int64_t> lanes = narrow ? lanes_of_copy(b, indices) : std::vector<int64_t>(); !lanes.empty())
      lines =
          std::max(lines, kCopyLineCycles *
                              pieces_of_warp(lanes, static_cast<int64_t>(line), static_cast<int64_t>(vector_ * bytes)) *
                              static_cast<double>(lanes.size()) / warp);
    facts_.shared_accesses += n / vector_ * lines;
    const double row = own_run() * bytes;
    return n * per_warp * (row > bytes && row < sector ? sector / row : 1);
  }
  const double vector = vector_of(type_bytes(b.type));
  facts_.instructions += warps(times) / vector;
  int64_t along = 0;
  double across = 1;
  for (size_t i = 0; i < loops_.size(); ++i)
    if (loops_[i].loop->axis == Axis::kThreadX) along = movement_.steps[i], across = loops_[i].extent;
  if (along == kUnknown) {
    const std::vector<int64_t> lanes = first_warp(b, indices);
    const double run = std::min(own_run(), line / bytes);
    auto pieces = [&](double of, double elements) {
      return pieces_of_warp(lanes, static_cast<int64_t>(of), static_cast<int64_t>(elements * bytes));
    };
    facts_.shared_accesses += n * pieces(line, vector) / vector;
    return n * sector * pieces(sector, run) / run;
  }
  // Lanes that are neighbors in thread.x; other rows of threads in a warp are elsewhere.
  const double row = std::min(across, warp), rows = std::max(1.0, std::min(facts_.threads, warp) / row);
  const double run = own_run(), lane = std::abs(static_cast<double>(along)) * bytes, own = run * bytes;
  double moved = std::max(sector, own), lines = 1;
  if (lane > 0 && lane <= own)
    moved = std::max(sector, (row - 1) * lane + own);
  else if (lane > 0)
    moved = row * (lane < sector ? lane : std::ceil(own / sector) * sector);
  if (lane > 0)
    lines = lane <= vector * bytes ? std::max(1.0, ((row - 1) * lane + vector * bytes) / line)
                                   : std::min(row, std::max(1.0, row * lane / line));
  facts_.shared_accesses += n * rows * lines / vector;
  return n * rows * std::max(sector, moved) / run;
}

}  // namespace tcc::cost
