// Footprints, traffic and limits of tiles: Roller (Zhu et al., OSDI 2022), section 3, and Gensor, section IV, from its
// released artifact's formulas where the paper gives none (specification of rTiles).
//
// An access of a tile touches, in each dimension, 1 + sum |coefficient| * (elements of the axis - 1) elements, at most
// the buffer's extent: a convolution's halo included.
#include "construct/tiles.h"

#include <algorithm>
#include <cmath>

#include "tcc/support/hash.h"
#include "tcc/target/core_model.h"
#include "tcc/target/limits.h"

namespace tcc::construct {
namespace {

constexpr int64_t kDense = 64;         // sizes of free tiles up to this are all candidates
constexpr size_t kMaxCandidates = 96;  // of one axis
// Shares of a cache that tiles may fill: the rest is for what passes by.
constexpr double kCacheShare = 0.75;
// Roller's limits of a thread's tile and of a block (artifact: 96 words, 32,768 registers, 512 threads).
constexpr double kThreadWords = 96, kBlockThreads = 512;
constexpr double kMaxVthreads = 8;  // as check_limits has it
constexpr int64_t kPartitions = 4;  // warps of a block that Roller asks for, one for each scheduler

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d < n) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Roller's rule of tensor shapes: ceil(n / size) * size <= n * (1 + tolerance).
bool is_tolerable(int64_t n, int64_t size, double tolerance) {
  const double padded = static_cast<double>((n + size - 1) / size) * static_cast<double>(size);
  return padded <= static_cast<double>(n) * (1 + tolerance);
}

// The next multiple that holds `size` elements, or the whole axis.
int64_t multiple_of(int64_t inner, int64_t size, int64_t whole) {
  return (std::min(size, whole) + inner - 1) / inner * inner;
}

std::vector<int64_t> candidates_of(const Axis& axis, double tolerance) {
  if (!axis.is_sampled()) return {1};
  if (!axis.free) return divisors(axis.sampled);
  std::vector<int64_t> out;
  const int64_t n = axis.sampled;
  const int64_t step = n >= axis.multiple ? std::max<int64_t>(axis.multiple, 1) : 1;
  for (int64_t size = step; size <= std::min(n, kDense * step); size += step)
    if (is_tolerable(n, size, tolerance)) out.push_back(size);
  for (int64_t parts = 1; std::ssize(out) < static_cast<int64_t>(kMaxCandidates) && parts <= n; parts *= 2) {
    const int64_t size = ((n + parts - 1) / parts + step - 1) / step * step;
    if (is_tolerable(n, size, tolerance)) out.push_back(size);
  }
  // Where nothing is tolerable, the least that the sampled tile allows.
  if (out.empty()) out.push_back(std::min(step, n));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Machine machine_of(const TileNest& nest, const target::Target& target, int64_t threads) {
  Machine m;
  const int64_t bytes = nest.accesses.empty() ? 4 : nest.accesses.back().bytes;
  m.gpu = target.cuda.sm_count > 0;
  m.memory = std::max(target.memory_bandwidth, 1e9);
  if (m.gpu) {
    const target::CudaInfo& cuda = target.cuda;
    m.workers = std::max<int64_t>(cuda.sm_count, 1);
    m.transaction = cuda.memory_transaction_bytes;
    const auto sms = static_cast<double>(m.workers);
    m.levels[0] = {static_cast<double>(cuda.max_registers_per_thread) * 4,
                   sms * cuda.model.l1_bytes_per_cycle * target.clock_hz};
    m.levels[1] = {static_cast<double>(cuda.shared_per_block), m.memory};
    m.peak = nest.matrix ? std::max({target.peak.fp16, target.peak.bf16, target.peak.tf32}) : target.peak.fp32;
  } else {
    const target::CoreModel& core = target::core_model(target);
    m.workers = std::max<int64_t>(threads, 1);
    m.transaction = target.cpu.cache_line_bytes;
    m.lanes = std::max<int64_t>(target.cpu.vector_bits / 8 / bytes, 1);
    const auto cores = static_cast<double>(m.workers);
    const double clock = std::max(target.clock_hz, 1e9);
    m.levels[0] = {static_cast<double>(target.cpu.num_vector_registers * target.cpu.vector_bits / 8),
                   cores * clock * core.loads_per_cycle * static_cast<double>(target.cpu.vector_bits / 8)};
    m.levels[1] = {kCacheShare * static_cast<double>(target.cpu.l1_bytes), cores * clock * core.l1_bytes_per_cycle};
    m.levels[2] = {kCacheShare * static_cast<double>(target.cpu.l2_bytes), cores * clock * core.l2_bytes_per_cycle};
    m.sums_in_flight = core.sums_in_flight();
    m.peak = 2 * cores * clock * core.fmas_per_cycle * static_cast<double>(m.lanes);
  }
  m.peak = std::max(m.peak, 1e9);
  m.clock = std::max(target.clock_hz, 1e9);
  return m;
}

}  // namespace

uint64_t hash_tiles(const Tiles& tiles) {
  uint64_t h = 0;
  for (const auto& level : tiles.size)
    for (int64_t s : level) h = combine_hash(h, static_cast<uint64_t>(s));
  for (int64_t v : tiles.vthreads) h = combine_hash(h, static_cast<uint64_t>(v));
  return h;
}

Problem::Problem(const TileNest& nest, const target::Target& target, int64_t threads, double tolerance)
    : nest_(nest), target_(target), machine_(machine_of(nest, target, threads)) {
  for (size_t a = 0; a < axes(); ++a) {
    const Axis& axis = nest_.axes[a];
    candidates_[a] = candidates_of(axis, tolerance);
    bool quotient = true;  // the first sampled factor follows from the others
    for (const Factor& f : axis.factors) {
      if (f.slot < 0) continue;
      if (!quotient && f.level < static_cast<int>(levels())) adjustable_[static_cast<size_t>(f.level)] |= 1u << a;
      quotient = false;
    }
  }
  for (size_t a = 0; a < axes(); ++a) {
    const int64_t align = alignment(0, a);
    for (int64_t size : candidates_[a]) {
      if (!within_limit(0, a, size)) break;
      if (size % align == 0 || size == nest_.axes[a].sampled) {
        unaligned_[a] = 0;
        break;
      }
      unaligned_[a] = size;
    }
    const int64_t whole = nest_.axes[a].sampled;
    for (size_t l = 0; l < levels(); ++l) {
      const auto is_multiple = [&, step = alignment(l, a)](int64_t size) { return size < whole && size % step == 0; };
      const bool never =
          nest_.axes[a].is_vector
              ? unaligned_[a] > 0
              : whole > alignment(l, a) && std::none_of(candidates_[a].begin(), candidates_[a].end(), is_multiple);
      if (never) cannot_align_[l] |= 1u << a;
    }
  }
}

Tiles Problem::smallest() const {
  Tiles tiles;
  for (size_t a = 0; a < axes(); ++a) {
    const Axis& axis = nest_.axes[a];
    int64_t size = axis.free ? candidates_[a].front() : 1;
    for (size_t l = 0; l < levels(); ++l) {
      if (axis.is_sampled() && axis.whole <= static_cast<int>(l)) size = axis.sampled;
      tiles.size[l][a] = size;
    }
    tiles.vthreads[a] = 1;
  }
  return tiles;
}

int64_t Problem::alignment(size_t level, size_t axis) const {
  const Axis& a = nest_.axes[axis];
  int64_t elements = 1;
  if (!machine_.gpu && a.is_vector) elements = machine_.lanes;
  for (const Access& access : nest_.accesses)
    if (level > 0 && access.stride[axis] == 1) elements = std::max(elements, machine_.transaction / access.bytes);
  return std::max<int64_t>(elements / std::max<int64_t>(a.unit, 1), 1);
}

bool Problem::is_aligned(size_t level, size_t axis, int64_t size) const {
  if (size % alignment(level, axis) == 0 || size == nest_.axes[axis].sampled) return true;
  if (level == 0) return size == unaligned_[axis];
  return cannot_align(level, axis) && size % std::max<int64_t>(unaligned_[axis], 1) == 0;
}

int64_t Problem::next(const Tiles& tiles, size_t level, size_t axis, const Step& step) const {
  const int64_t now = tiles.size[level][axis], inner = level == 0 ? 1 : tiles.size[level - 1][axis];
  const Axis& a = nest_.axes[axis];
  // Slower levels of free tiles grow to the next multiple.
  const bool follows = a.free && !machine_.gpu;
  auto nests = [&](int64_t size) {
    return step.within == 0 || (follows ? size <= step.within : step.within % size == 0);
  };
  if (a.free && level > 0) {
    // Multiples of the faster tile, doubling; the last one covers the axis.
    const int64_t whole = (a.sampled + inner - 1) / inner * inner;
    for (int64_t size = now * 2; now < whole; size *= 2) {
      size = std::min(size, whole);
      if (size <= step.most && nests(size)) return size;
      if (size == whole) break;
    }
    return 0;
  }
  for (int64_t size : candidates_[axis])
    if (size > now && size <= step.most && size % inner == 0 && size % tiles.vthreads[axis] == 0 && nests(size) &&
        (!step.aligned || is_aligned(level, axis, size)) && within_limit(level, axis, size))
      return size;
  return 0;
}

int64_t Problem::previous(const Tiles& tiles, size_t level, size_t axis, int64_t within) const {
  const int64_t now = tiles.size[level][axis], inner = level == 0 ? 1 : tiles.size[level - 1][axis];
  const Axis& a = nest_.axes[axis];
  const bool follows = a.free && !machine_.gpu;
  auto nests = [&](int64_t size) {
    return size % inner == 0 && (within == 0 || (follows ? size <= within : within % size == 0));
  };
  if (a.free && level > 0) {
    const int64_t half = now / 2 / inner * inner;
    return half >= inner && half < now && nests(half) ? half : 0;
  }
  for (auto it = candidates_[axis].rbegin(); it != candidates_[axis].rend(); ++it)
    if (*it < now && nests(*it) && *it % tiles.vthreads[axis] == 0) return *it;
  return 0;
}

bool Problem::place(Tiles& tiles, size_t level, size_t axis, int64_t size) const {
  if (!adjustable(level, axis) || !within_limit(level, axis, size)) return false;
  const Axis& a = nest_.axes[axis];
  tiles.size[level][axis] = size;
  for (size_t l = level; l-- > 0;) {
    int64_t inner = std::min(tiles.size[l][axis], tiles.size[l + 1][axis]);
    if (!adjustable(l, axis)) return false;
    if (tiles.size[l + 1][axis] % inner != 0) {
      int64_t fits = 0;
      for (int64_t c : candidates_[axis])
        if (c <= inner && tiles.size[l + 1][axis] % c == 0 && within_limit(l, axis, c)) fits = c;
      if (fits == 0) return false;
      inner = fits;
    }
    tiles.size[l][axis] = inner;
  }
  for (size_t l = level + 1; l < levels(); ++l) {
    const int64_t inner = tiles.size[l - 1][axis], now = std::max(tiles.size[l][axis], inner);
    if (!adjustable(l, axis)) {
      tiles.size[l][axis] = follower(l, axis, inner);
    } else if (a.free) {
      tiles.size[l][axis] = multiple_of(inner, now, a.sampled);
    } else {
      int64_t fits = 0;
      for (int64_t c : candidates_[axis])
        if (fits == 0 && c >= now && c % inner == 0) fits = c;
      if (fits == 0) return false;
      tiles.size[l][axis] = fits;
    }
  }
  return true;
}

int64_t Problem::halved(const Tiles& tiles, size_t level, size_t axis) const {
  const int64_t half = (tiles.size[level][axis] + 1) / 2;
  Tiles smaller = tiles;
  while (const int64_t size = previous(smaller, level, axis)) {
    if (size <= half) return size;
    smaller.size[level][axis] = size;
  }
  return 0;
}

int64_t Problem::follower(size_t level, size_t axis, int64_t inner) const {
  return nest_.axes[axis].whole <= static_cast<int>(level) ? nest_.axes[axis].sampled : inner;
}

void Problem::put(Tiles& tiles, size_t level, size_t axis, int64_t size) const {
  tiles.size[level][axis] = size;
  size_t l = level + 1;
  for (; l < levels() && !adjustable(l, axis); ++l) tiles.size[l][axis] = follower(l, axis, size);
  if (!nest_.axes[axis].free || machine_.gpu) return;
  for (; l < levels(); ++l) {
    const int64_t inner = tiles.size[l - 1][axis];
    if (adjustable(l, axis)) tiles.size[l][axis] = multiple_of(inner, tiles.size[l][axis], nest_.axes[axis].sampled);
  }
}

bool Problem::set(Tiles& tiles, size_t level, size_t axis, int64_t size) const {
  if (!within_limit(level, axis, size)) return false;
  tiles.size[level][axis] = size;
  for (size_t l = level + 1; l < levels(); ++l) tiles.size[l][axis] = follower(l, axis, size);
  return true;
}

bool Problem::has_vthreads(size_t axis) const {
  for (const Factor& f : nest_.axes[axis].factors)
    if (f.part == Part::kVthread && f.slot >= 0) return true;
  return false;
}

// The innermost factor has a limit; other factors of the same level take what is beyond it.
bool Problem::within_limit(size_t level, size_t axis, int64_t size) const {
  const Axis& a = nest_.axes[axis];
  int factors = 0;
  for (const Factor& f : a.factors) factors += f.slot >= 0 && f.level == static_cast<int>(level) ? 1 : 0;
  return level > 0 || factors != 1 || size <= a.limit;
}

double Problem::elements(const Tiles& tiles, size_t level, size_t axis) const {
  const Axis& a = nest_.axes[axis];
  if (a.whole <= static_cast<int>(level)) return static_cast<double>(a.extent);
  if (!a.is_sampled()) {
    double size = 1;
    for (const Factor& f : a.factors)
      if (f.level <= static_cast<int>(level)) size *= static_cast<double>(std::max<int64_t>(f.size, 1));
    return std::min(size, static_cast<double>(a.extent));
  }
  return static_cast<double>(a.unit * tiles.size[level][axis]);
}

std::array<double, kMaxAxes> Problem::sizes(const Tiles& tiles, size_t level) const {
  std::array<double, kMaxAxes> out;
  for (size_t a = 0; a < axes(); ++a) out[a] = elements(tiles, level, a);
  return out;
}

double steps_of(const IndexTerm& term, const std::array<double, kMaxAxes>& sizes) {
  double steps = sizes[term.axis];
  if (term.divisor > 1) steps = 1 + std::floor((steps - 1) / static_cast<double>(term.divisor));
  return term.modulus > 0 ? std::min(steps, static_cast<double>(term.modulus)) : steps;
}

double Problem::input_footprint(const Access& access, const std::array<double, kMaxAxes>& sizes) const {
  double bytes = static_cast<double>(access.bytes);
  for (const AccessDim& dim : access.dims) {
    double reach = 1;
    for (const IndexTerm& t : dim.terms)
      reach += static_cast<double>(std::abs(t.coefficient)) * (steps_of(t, sizes) - 1);
    bytes *= dim.whole ? static_cast<double>(dim.extent) : std::min(reach, static_cast<double>(dim.extent));
  }
  return bytes;
}

double Problem::footprint(const Tiles& tiles, size_t level, bool output) const {
  const std::array<double, kMaxAxes> all = sizes(tiles, level);
  double bytes = 0;
  for (const Access& access : nest_.accesses)
    if (output || !access.output) bytes += input_footprint(access, all);
  return bytes;
}

double Problem::count_tiles(const Tiles& tiles, size_t level, bool reductions) const {
  double count = 1;
  for (size_t a = 0; a < axes(); ++a)
    if (reductions || !nest_.axes[a].reduce)
      count *= ceil_div(static_cast<double>(nest_.axes[a].extent), elements(tiles, level, a));
  return count;
}

double Problem::cached_traffic(const Tiles& tiles, size_t level) const {
  std::array<double, kMaxAxes> all = sizes(tiles, level);
  struct Outer {
    int place;
    size_t axis;
    double size;
  };
  std::vector<Outer> loops;
  for (size_t a = 0; a < axes(); ++a) {
    const Axis& axis = nest_.axes[a];
    const auto extent = static_cast<double>(axis.extent);
    if (axis.reduce) {
      all[a] = extent;
      continue;
    }
    all[a] = std::min(all[a], extent);
    for (const Factor& f : axis.factors)
      if (f.level > static_cast<int>(level))
        loops.push_back({f.place, a, f.level == kOutside ? extent : elements(tiles, static_cast<size_t>(f.level), a)});
  }
  std::stable_sort(loops.begin(), loops.end(), [](const Outer& x, const Outer& y) { return x.place > y.place; });
  for (const Outer& loop : loops) {
    std::array<double, kMaxAxes> grown = all;
    grown[loop.axis] = std::max(all[loop.axis], std::min(loop.size, static_cast<double>(nest_.axes[loop.axis].extent)));
    double bytes = 0;
    for (const Access& access : nest_.accesses) bytes += input_footprint(access, grown);
    if (bytes > machine_.levels[level].capacity) break;
    all = grown;
  }
  double bytes = 0, count = 1;
  for (const Access& access : nest_.accesses) bytes += input_footprint(access, all);
  for (size_t a = 0; a < axes(); ++a)
    if (!nest_.axes[a].reduce) count *= ceil_div(static_cast<double>(nest_.axes[a].extent), all[a]);
  return count * bytes;
}

double Problem::traffic(const Tiles& tiles, size_t level, Count count) const {
  std::array<double, kMaxAxes> all = sizes(tiles, level);
  const bool whole = count == Count::kWholeReduction;
  for (size_t a = 0; a < axes() && whole; ++a)
    if (nest_.axes[a].reduce) all[a] = static_cast<double>(nest_.axes[a].extent);
  double inputs = 0, output = 0;
  for (const Access& access : nest_.accesses) (access.output ? output : inputs) += input_footprint(access, all);
  const double spatial = count_tiles(tiles, level, false);
  return spatial * output + (whole ? spatial : count_tiles(tiles, level, true)) * inputs;
}

double Problem::operations(const Tiles& tiles) const {
  double padded = nest_.operations;
  for (size_t a = 0; a < axes(); ++a) {
    const double extent = static_cast<double>(nest_.axes[a].extent);
    const double tile = elements(tiles, 0, a);
    padded *= ceil_div(extent, tile) * tile / extent;
  }
  return padded;
}

double Problem::blocks(const Tiles& tiles) const {
  double count = 1;
  for (size_t a = 0; a < axes(); ++a)
    if (!nest_.axes[a].reduce)
      count *= ceil_div(static_cast<double>(nest_.axes[a].extent), elements(tiles, levels() - 1, a));
  return count;
}

double Problem::threads(const Tiles& tiles) const {
  double count = static_cast<double>(nest_.warp_lanes);
  for (size_t a = 0; a < axes(); ++a)
    if (!nest_.axes[a].reduce) count *= ceil_div(elements(tiles, 1, a), elements(tiles, 0, a));
  return count;
}

double Problem::independent_sums(const Tiles& tiles) const {
  double count = 1;
  for (size_t a = 0; a < axes(); ++a) {
    if (nest_.axes[a].reduce) continue;
    const double size = elements(tiles, 0, a);
    count *= nest_.axes[a].is_vector ? ceil_div(size, static_cast<double>(machine_.lanes)) : size;
  }
  return count;
}

double Problem::register_words(const Tiles& tiles) const {
  std::array<double, kMaxAxes> all = sizes(tiles, 0);
  if (machine_.gpu) {
    double words = 0;
    for (const Access& access : nest_.accesses) {
      const double bytes = access.output ? std::max<double>(4, static_cast<double>(access.bytes)) : 1;
      const double elements = input_footprint(access, all) / static_cast<double>(access.bytes);
      words += elements * (access.output ? bytes : std::max(static_cast<double>(access.bytes), 1.0)) / 4;
    }
    return words / static_cast<double>(nest_.warp_lanes);
  }
  for (size_t a = 0; a < axes(); ++a)
    if (nest_.axes[a].reduce) all[a] = 1;
  size_t vector = axes();
  for (size_t a = 0; a < axes(); ++a)
    if (nest_.axes[a].is_vector) vector = a;
  double registers = 1;  // an element that is broadcast
  for (const Access& access : nest_.accesses) {
    if (access.output)
      registers += independent_sums(tiles);
    else if (vector < axes() && access.stride[vector] != 0)
      registers += ceil_div(all[vector], static_cast<double>(machine_.lanes));
  }
  return registers;
}

double Problem::stages() const {
  return nest_.matrix ? 2 : 1;
}

double Problem::whole_bytes() const {
  std::array<double, kMaxAxes> all;
  for (size_t a = 0; a < axes(); ++a) all[a] = static_cast<double>(nest_.axes[a].extent);
  double bytes = 0;
  for (const Access& access : nest_.accesses) bytes += input_footprint(access, all);
  return bytes;
}

bool Problem::gpu_fits(const Tiles& tiles, size_t level) const {
  double vthreads = 1;
  for (size_t a = 0; a < axes(); ++a) vthreads *= static_cast<double>(tiles.vthreads[a]);
  if (vthreads > kMaxVthreads || register_words(tiles) > kThreadWords) return false;
  if (level == 0) return true;
  const double count = threads(tiles);
  if (count > std::min(kBlockThreads, static_cast<double>(target_.cuda.max_threads_per_block))) return false;
  if (register_words(tiles) * count > static_cast<double>(target_.cuda.registers_per_block) / 2) return false;
  return !nest_.shared || stages() * footprint(tiles, level, false) < machine_.levels[1].capacity;
}

bool Problem::fits(const Tiles& tiles, size_t level) const {
  if (machine_.gpu) return gpu_fits(tiles, level);
  if (level == 0) return register_words(tiles) <= static_cast<double>(target_.cpu.num_vector_registers);
  double sums = 0;  // local buffers are on the stack
  for (const Access& access : nest_.accesses)
    if (access.output) sums = input_footprint(access, sizes(tiles, level));
  return footprint(tiles, level) <= machine_.levels[level].capacity &&
         sums <= static_cast<double>(target::kMaxStackBytes) / 4;
}

bool Problem::fills_warp(const Tiles& tiles) const {
  double results = 1;
  for (const Axis& axis : nest_.axes) results *= axis.reduce ? 1 : static_cast<double>(axis.extent);
  const auto warp = static_cast<double>(target_.cuda.warp_size);
  return !machine_.gpu || results <= 2 * warp || threads(tiles) >= warp;
}

bool Problem::fits_memory(const Tiles& tiles, size_t level) const {
  if (!machine_.gpu) return fits(tiles, level);
  return !nest_.shared || stages() * footprint(tiles, level, false) < machine_.levels[1].capacity;
}

bool Problem::aligned(const Tiles& tiles, size_t level) const {
  if (level == 0 && !machine_.gpu) {
    for (size_t a = 0; a < axes(); ++a)
      if (!is_aligned(0, a, tiles.size[0][a])) return false;
    // Roller's rule of execution units: as many sums at a time as keep the core's arithmetic busy.
    return !nest_.has_reduction() || independent_sums(tiles) >= machine_.sums_in_flight;
  }
  if (level == 0) return true;
  if (machine_.gpu) {
    const auto warps = static_cast<int64_t>(threads(tiles));
    if (warps % (target_.cuda.warp_size * (nest_.has_reuse() ? kPartitions : 1)) != 0) return false;
  }
  // Roller's rule of memory transactions: the contiguous axis of each input is read in whole ones.
  for (const Access& access : nest_.accesses)
    for (size_t a = 0; a < axes(); ++a) {
      if (access.output || access.stride[a] != 1 || cannot_align(level, a)) continue;
      const double size = elements(tiles, level, a);
      const double bytes = size * static_cast<double>(access.bytes);
      if (size < static_cast<double>(nest_.axes[a].extent) &&
          std::fmod(bytes, static_cast<double>(machine_.transaction)) != 0)
        return false;
    }
  return true;
}

bool Problem::compute_bound(const Tiles& tiles, size_t level) const {
  const Count count = level == 0 ? Count::kSteps : Count::kWholeReduction;
  return operations(tiles) / machine_.peak > traffic(tiles, level, count) / machine_.levels[level].bandwidth;
}

}  // namespace tcc::construct
