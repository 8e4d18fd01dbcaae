// Reductions over windows, such as poolings: a thread has V neighboring results of a row, which leave as one vector.
//
//   for n, c, y, x { for ky, kx { out[n, c, y, x] = max(out[..], in[n, c, 2*y + ky, 2*x + kx]) } }
//
//   grid b { thread.x t {                                                            (n, c, y, x0) = b*T + t
//     acc[V] = -inf
//     ky unrolled { v vectorized { row[v] = in[n, c, 2*y + ky, 2*x0*V + v] }         what the windows of V results span
//                   kx unrolled { i unrolled { acc[i] = max(acc[i], row[2*i + kx]) } } }
//     i vectorized { out[n, c, y, x0*V + i] = acc[i] } } }
//
// Windows along the contiguous dimension overlap, so a row of them is loaded once into registers (lowering loads what
// is not aligned at its ends by itself, lower/gpu/align_vectors.h). Where the contiguous dimension has no window, such
// as the channels of images with channels last, the terms themselves are vectors.
//
// Rows whose length no wide vector divides begin at another place within a vector each. There a thread has V results
// below each other, and neighboring threads have neighboring columns:
//
//   grid b { thread.x t {                                                            (n, c, y0, x) = b*T + t
//     kx unrolled { v unrolled { column[v] = in[n, c, 2*y0*V + v, 2*x + kx] }
//                   ky unrolled { i unrolled { acc[i] = max(acc[i], column[2*i + ky]) } } }
//     i unrolled { out[n, c, y0*V + i, x] = acc[i] } } }
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "space/gpu.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int64_t kTerms = 64;   // of a window, which are written out
constexpr int64_t kSpan = 64;    // elements of a row in registers
constexpr int64_t kColumn = 16;  // results of a thread below each other
constexpr int64_t kShortColumn = 4;
constexpr size_t kCounts = 4;  // of results of a thread to choose from
constexpr int kAttempts = 8;

struct Windows {
  size_t along = 0;             // iterator of neighboring results
  std::vector<size_t> terms;    // iterators of the sum, that of the window along `along` last
  bool overlap = false;         // there is one
  bool vectors = true;          // neighbors are neighbors in memory
  int64_t span = 0, step = 1;   // elements beyond those of the first result's window, and between neighbors
  std::vector<int64_t> counts;  // results of a thread, ascending
  int64_t results = 1;

  // Elements that the windows of that many neighbors span.
  int64_t spanned(int64_t count) const { return (count - 1) * step + span; }
};

// The iterator along which results are contiguous, of a block that reduces windows of one operand; nullopt: another
// block.
std::optional<size_t> contiguous_iterator(const NaiveNest& nest) {
  if (!nest.is_reduction() || nest.block->init == nullptr || nest.operands.size() != 1) return std::nullopt;
  std::optional<size_t> found;
  bool windows = false;
  int64_t terms = 1;
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    if (nest.reduce[i]) {
      terms *= nest.extents[i];
      windows |= nest.window(i).has_value();
    } else if (nest.extents[i] > 1 && nest.result.stride[i] == 1) {
      found = i;
    }
  }
  return windows && terms <= kTerms ? found : std::nullopt;
}

// The windows along one iterator of the results.
Windows windows_along(const NaiveNest& nest, size_t along) {
  Windows out;
  out.along = along;
  std::optional<size_t> last;
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    if (!nest.reduce[i]) {
      out.results *= nest.extents[i];
      continue;
    }
    const auto window = nest.window(i);
    if (window && window->iterator == along)
      last = i, out.step = window->step, out.span = (nest.extents[i] - 1) * window->dilation + 1;
    else
      out.terms.push_back(i);
  }
  if (last) out.terms.push_back(*last);
  out.overlap = last.has_value();
  return out;
}

// Neighbors in a row, in vectors. nullopt: the row has no vectors.
std::optional<Windows> windows_of_rows(const NaiveNest& nest, size_t contiguous) {
  Windows out = windows_along(nest, contiguous);
  const std::optional<int64_t> step = nest.operands[0].stride[contiguous];
  if (!step || *step < 1 || (!out.overlap && *step != 1)) return std::nullopt;
  out.step = *step;
  // Vectors of the results, which come in as floats or rounded to what the reader stores.
  int64_t widest = kMaxAccessBytes / std::max<int64_t>(type_bytes(nest.operands[0].load->type), 1);
  while (widest > 1 && nest.extents[contiguous] % widest != 0) widest /= 2;
  while (widest > 1 && out.spanned(widest) > kSpan) widest /= 2;
  if (widest < 2) return std::nullopt;
  if (widest >= 4) out.counts.push_back(widest / 2);
  out.counts.push_back(widest);
  return out;
}

// Neighbors in a column. Returns nullopt where no window spans several rows.
std::optional<Windows> windows_of_columns(const NaiveNest& nest, size_t contiguous) {
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    const auto window = nest.reduce[i] ? nest.window(i) : std::nullopt;
    if (!window || window->iterator == contiguous || window->step < 1) continue;
    Windows out = windows_along(nest, window->iterator);
    out.vectors = false;
    const int64_t extent = nest.extents[out.along];
    // Columns that the strips divide; else those that they fill but for a sixteenth.
    for (const bool whole : {true, false}) {
      for (int64_t n = std::min(kColumn, extent); n >= 2; --n) {
        const int64_t overhang = (extent + n - 1) / n * n - extent;
        const bool fits = whole ? overhang == 0 : 16 * overhang <= extent;
        if (fits && out.spanned(n) <= kSpan && out.counts.size() < kCounts) out.counts.insert(out.counts.begin(), n);
      }
      if (!out.counts.empty() && out.counts.back() >= kShortColumn) return out;
    }
    if (!out.counts.empty()) return out;
  }
  return std::nullopt;
}

std::vector<Windows> find_windows(const NaiveNest& nest) {
  std::vector<Windows> out;
  const std::optional<size_t> contiguous = contiguous_iterator(nest);
  if (!contiguous) return out;
  if (std::optional<Windows> rows = windows_of_rows(nest, *contiguous)) out.push_back(std::move(*rows));
  const int64_t bytes = type_bytes(nest.operands[0].load->type);
  if (out.empty() || out[0].counts.back() * bytes < kMaxAccessBytes)
    if (std::optional<Windows> columns = windows_of_columns(nest, *contiguous)) out.push_back(std::move(*columns));
  return out;
}

bool schedule_windows(Schedule& s, const NaiveNest& nest, const Windows& w, const target::Target& target,
                      const GpuSpaceOptions& options) {
  BlockRv block = s.get_block(nest.name);
  const std::optional<BlockRv> reader = localise(s, nest, block);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!reader || !s.ok() || loops.size() != nest.extents.size()) return false;
  std::vector<int64_t> threads;
  const int64_t most = w.counts.back();
  for (int64_t n : options.stream_threads)
    if (n <= target.cuda.max_threads_per_block &&
        n * most <= std::max(w.results, options.stream_threads.front() * most))
      threads.push_back(n);
  if (threads.empty()) return false;
  std::vector<LoopRv> parts = s.split(loops[w.along], std::array{ExprRv{}, sample_uniform(s, w.counts)});
  if (!s.ok()) return false;
  std::vector<LoopRv> around, terms = pick(loops, w.terms);
  for (size_t i = 0; i < loops.size(); ++i)
    if (!nest.reduce[i]) around.push_back(i == w.along ? parts[0] : loops[i]);
  std::vector<LoopRv> order = around;
  order.insert(order.end(), terms.begin(), terms.end());
  order.push_back(parts[1]);
  s.reorder(order);
  LoopRv all = fuse_all(s, around);
  std::vector<LoopRv> bound = s.split(all, std::array{ExprRv{}, sample_uniform(s, threads)});
  if (!s.ok()) return false;
  s.bind(bound[0], Axis::kGridX);
  s.bind(bound[1], Axis::kThreadX);
  for (LoopRv l : terms) s.unroll(l);
  s.reverse_compute_at(*reader, bound[1]);
  std::vector<LoopRv> leaving = s.get_loops(*reader);
  if (!s.ok() || leaving.size() < 3) return false;
  for (size_t i = 2; i < leaving.size() && !w.vectors; ++i) s.unroll(leaving[i]);
  if (w.vectors) s.vectorize(leaving.back());
  if (!w.overlap) {
    s.vectorize(parts[1]);
    return s.ok();
  }
  s.unroll(parts[1]);
  BlockRv row = s.cache_read(block, 0, Scope::kLocal);
  s.compute_at(row, terms.size() > 1 ? terms[terms.size() - 2] : bound[1]);
  std::vector<LoopRv> elements = s.get_loops(row);
  if (!s.ok() || elements.empty()) return false;
  if (w.vectors) {
    s.vectorize(elements.back());
    return s.ok();
  }
  const size_t depth = 1 + terms.size();  // grid, thread and the terms but for the last one
  for (size_t i = depth; i < elements.size(); ++i) s.unroll(elements[i]);
  return s.ok();
}

}  // namespace

Ways gpu_windows(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  Ways ways;
  for (const std::string& name : unscheduled_blocks(state.kernel())) {
    const Block* block = find_block(state.kernel().root, schedule::find_block_by_name(state.kernel(), name));
    const std::optional<NaiveNest> nest = block != nullptr ? naive_nest(state.kernel(), *block) : std::nullopt;
    const std::vector<Windows> found = nest ? find_windows(*nest) : std::vector<Windows>();
    if (found.empty()) continue;
    for (const Windows& windows : found)
      for (int attempt = 0, made = 0; attempt < kAttempts && made == 0; ++attempt)
        made =
            ways.attempt(state, [&](Schedule& s) { return schedule_windows(s, *nest, windows, target, options.gpu); })
                ? 1
                : 0;
    break;
  }
  return std::move(ways.or_also(state));
}

}  // namespace tcc::space
