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
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "space/gpu.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int64_t kWidest = 16;  // bytes of an access
constexpr int64_t kTerms = 64;   // of a window, which are written out
constexpr int64_t kSpan = 64;    // elements of a row in registers
constexpr int kAttempts = 8;

struct Windows {
  size_t along = 0;            // iterator of neighboring results
  std::vector<size_t> terms;   // iterators of the sum, that of the window along `along` last
  bool overlap = false;        // there is one
  int64_t span = 0, step = 1;  // elements beyond those of the first result's window, and between neighbors
  int64_t widest = 1;          // results of a thread
  int64_t results = 1;
};

std::optional<Windows> find_windows(const NaiveNest& nest) {
  if (!nest.is_reduction() || nest.block->init == nullptr || nest.operands.size() != 1) return std::nullopt;
  const analysis::Operand& operand = nest.operands[0];
  Windows out;
  bool found = false, windows = false;
  int64_t terms = 1;
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    if (nest.reduce[i]) {
      terms *= nest.extents[i];
      windows |= nest.window(i).has_value();
    } else {
      out.results *= nest.extents[i];
      if (nest.extents[i] > 1 && nest.result.stride[i] == 1) out.along = i, found = true;
    }
  }
  if (!found || !windows || terms > kTerms) return std::nullopt;
  const std::optional<int64_t> step = operand.stride[out.along];
  std::optional<size_t> last;
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    if (!nest.reduce[i]) continue;
    const auto window = nest.window(i);
    if (window && window->iterator == out.along)
      last = i;
    else
      out.terms.push_back(i);
  }
  if (last) out.terms.push_back(*last);
  out.overlap = last.has_value();
  if (!step || *step < 1 || (!out.overlap && *step != 1)) return std::nullopt;
  out.step = *step;
  if (last) out.span = (nest.extents[*last] - 1) * operand.stride[*last].value_or(kSpan) + 1;
  // Vectors of the results, which come in as floats or rounded to what the reader stores.
  int64_t bytes = type_bytes(operand.load->type);
  out.widest = kWidest / std::max<int64_t>(bytes, 1);
  while (out.widest > 1 && nest.extents[out.along] % out.widest != 0) out.widest /= 2;
  while (out.widest > 1 && (out.widest - 1) * out.step + out.span > kSpan) out.widest /= 2;
  return out.widest < 2 ? std::nullopt : std::optional(out);
}

bool schedule_windows(Schedule& s, const NaiveNest& nest, const Windows& w, const target::Target& target,
                      const GpuSpaceOptions& options) {
  BlockRv block = s.get_block(nest.name);
  const std::optional<BlockRv> reader = localise(s, nest, block);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!reader || !s.ok() || loops.size() != nest.extents.size()) return false;
  std::vector<int64_t> threads;
  for (int64_t n : options.stream_threads)
    if (n <= target.cuda.max_threads_per_block &&
        n * w.widest <= std::max(w.results, options.stream_threads.front() * w.widest))
      threads.push_back(n);
  if (threads.empty()) return false;
  const ExprRv vector = w.widest < 4 ? schedule::lit(w.widest) : sample_uniform(s, {w.widest / 2, w.widest});
  std::vector<LoopRv> parts = s.split(loops[w.along], std::array{ExprRv{}, vector});
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
  s.vectorize(leaving.back());
  if (!w.overlap) {
    s.vectorize(parts[1]);
    return s.ok();
  }
  s.unroll(parts[1]);
  BlockRv row = s.cache_read(block, 0, Scope::kLocal);
  s.compute_at(row, terms.size() > 1 ? terms[terms.size() - 2] : bound[1]);
  std::vector<LoopRv> elements = s.get_loops(row);
  if (!s.ok() || elements.empty()) return false;
  s.vectorize(elements.back());
  return s.ok();
}

}  // namespace

Ways gpu_windows(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  Ways ways;
  for (const std::string& name : unscheduled_blocks(state.kernel())) {
    const Block* block = find_block(state.kernel().root, schedule::find_block_by_name(state.kernel(), name));
    const std::optional<NaiveNest> nest = block != nullptr ? naive_nest(state.kernel(), *block) : std::nullopt;
    const std::optional<Windows> windows = nest ? find_windows(*nest) : std::nullopt;
    if (!windows) continue;
    for (int attempt = 0, made = 0; attempt < kAttempts && made == 0; ++attempt)
      made = ways.attempt(state, [&](Schedule& s) { return schedule_windows(s, *nest, *windows, target, options.gpu); })
                 ? 1
                 : 0;
    break;
  }
  return std::move(ways.or_also(state));
}

}  // namespace tcc::space
