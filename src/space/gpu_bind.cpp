// Auto-bind: every block that nothing has scheduled gets a launch of its own. Its spatial loops are fused and
// distributed to at most max_blocks blocks of threads; larger extents leave a serial loop in each thread, whose steps
// are the size of the grid, so that neighboring threads always touch neighboring elements. Reductions keep their sum
// in a register. Windows have a second form: tiles of each spatial loop for blocks, threads and the results of a
// thread, so that neighbors in all directions share what their windows overlap in.
#include <algorithm>

#include "space/contraction.h"
#include "space/gpu.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

// It may have gone along with another block.
bool is_open(const Schedule& s, const std::string& name) {
  const std::vector<std::string> open = unscheduled_blocks(s.kernel());
  return std::find(open.begin(), open.end(), name) != open.end();
}

// The spatial loops and their extents, outermost first; other loops in `rest`.
struct Loops {
  std::vector<LoopRv> spatial, rest;
  int64_t extent = 1;
};

std::optional<Loops> sort_loops(Schedule& s, BlockRv block) {
  Loops out;
  std::vector<LoopRv> loops = s.get_loops(block);
  const Block* found = s.ok() ? find_block(s.kernel().root, s.id(block)) : nullptr;
  if (found == nullptr) return std::nullopt;
  for (LoopRv l : loops) {
    const Loop* loop = find_loop(s.kernel().root, s.id(l));
    bool spatial = is_int(loop->extent);
    for (const Iter& it : found->iters) spatial &= it.kind == IterKind::kSpatial || !mentions(it.binding, loop->id);
    (spatial ? out.spatial : out.rest).push_back(l);
    if (spatial) out.extent *= int_value(loop->extent);
  }
  return out;
}

// A block's sum stays in a register, from which its only reader takes it or a copy of its own.
enum class Sum { kWithReader, kAlone, kNone };

std::optional<BlockRv> keep_sum(Schedule& s, BlockRv block, Sum sum) {
  const Block* found = s.ok() ? find_block(s.kernel().root, s.id(block)) : nullptr;
  if (found == nullptr || found->init == nullptr) return std::nullopt;
  if (sum == Sum::kAlone) return s.cache_write(block, Scope::kLocal);
  std::optional<NaiveNest> nest = naive_nest(s.kernel(), *found);
  return nest && !schedule::consumers_of(s.kernel(), found->id).empty() ? localise(s, *nest, block) : std::nullopt;
}

// There are results for blocks of many threads on all multiprocessors. Small blocks would leave most threads of a
// multiprocessor unused: it holds few blocks.
bool fills_device(int64_t results, const target::Target& target, const GpuSpaceOptions& options) {
  return results >= options.stream_threads.front() * std::max<int64_t>(target.cuda.sm_count, 1);
}

// A reduction over a window, or over all of an image: every spatial loop in tiles, those of one loop alone in one
// part more, by which a thread's results are far apart.
bool bind_tiles(Schedule& s, const std::string& name, Sum sum, const target::Target& target,
                const GpuSpaceOptions& options) {
  BlockRv block = s.get_block(name);
  std::optional<BlockRv> result = keep_sum(s, block, sum);
  std::optional<Loops> loops = result && s.ok() ? sort_loops(s, block) : std::nullopt;
  if (!loops || loops->rest.size() < 2) return false;
  std::vector<LoopRv> unit, moving;
  for (LoopRv l : loops->spatial)
    (int_value(find_loop(s.kernel().root, s.id(l))->extent) == 1 ? unit : moving).push_back(l);
  if (moving.empty()) return false;
  std::vector<LoopRv> grid = unit, serial, thread, inner;
  for (LoopRv l : moving) {
    const int count = moving.size() == 1 ? 4 : 3;
    std::vector<LoopRv> parts = s.split(l, s.sample_perfect_tile(l, count, options.max_innermost));
    if (!s.ok()) return false;
    grid.push_back(parts.front());
    if (count == 4) serial.push_back(parts[1]);
    thread.push_back(parts[parts.size() - 2]);
    inner.push_back(parts.back());
  }
  std::vector<LoopRv> order;
  for (const std::vector<LoopRv>* group : {&grid, &thread, &serial, &inner, &loops->rest})
    order.insert(order.end(), group->begin(), group->end());
  s.reorder(order);
  LoopRv blocks = fuse_all(s, grid);
  s.bind(blocks, Axis::kGridX);
  if (fills_device(loops->extent, target, options))
    s.annotate(blocks, AnnotationKey::kMinThreads, lit(options.stream_threads.front()));
  s.bind(fuse_all(s, thread), Axis::kThreadX);
  s.reverse_compute_at(*result, inner.back());
  s.annotate(loops->rest.front(), AnnotationKey::kUnrollMax, sample_uniform(s, options.row_unroll));
  return s.ok();
}

bool bind_block(Schedule& s, const std::string& name, Sum sum, const target::Target& target,
                const GpuSpaceOptions& options) {
  BlockRv block = s.get_block(name);
  std::optional<BlockRv> result;
  if (sum != Sum::kNone && !(result = keep_sum(s, block, sum))) return false;
  std::optional<Loops> loops = s.ok() ? sort_loops(s, block) : std::nullopt;
  if (!loops || loops->spatial.empty()) return false;
  if (!loops->rest.empty()) {
    std::vector<LoopRv> order = loops->spatial;
    order.insert(order.end(), loops->rest.begin(), loops->rest.end());
    s.reorder(order);
  }
  LoopRv all = fuse_all(s, loops->spatial);
  std::vector<int64_t> threads;
  for (int64_t n : options.bind_threads)
    if (n <= std::min(loops->extent, target.cuda.max_threads_per_block)) threads.push_back(n);
  if (fills_device(loops->extent, target, options))
    std::erase_if(threads, [&](int64_t n) { return n < options.stream_threads.front(); });
  if (threads.empty()) threads.push_back(loops->extent);
  ExprRv factor = sample_uniform(s, threads);
  LoopRv grid, thread, inner;
  // The serial loop is there for every draw of the factor, or for none.
  if (loops->extent > options.max_blocks * threads.back()) {
    std::vector<LoopRv> parts = s.split(all, std::vector<ExprRv>{{}, lit(options.max_blocks), factor});
    if (!s.ok()) return false;
    s.reorder(std::vector<LoopRv>{parts[1], parts[2], parts[0]});
    grid = parts[1], thread = parts[2], inner = parts[0];
  } else {
    std::vector<LoopRv> parts = s.split(all, std::vector<ExprRv>{{}, factor});
    if (!s.ok()) return false;
    grid = parts[0], thread = parts[1], inner = thread;
  }
  s.bind(grid, Axis::kGridX);
  s.bind(thread, Axis::kThreadX);
  if (result) s.reverse_compute_at(*result, inner);
  if (result && loops->rest.size() > 1)
    s.annotate(loops->rest.front(), AnnotationKey::kUnrollMax, sample_uniform(s, options.row_unroll));
  return s.ok();
}

}  // namespace

Ways gpu_bind(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  Ways ways(state);
  std::vector<Schedule>& out = ways.states;
  for (const std::string& name : unscheduled_blocks(state.kernel())) {
    for (Sum sum : {Sum::kWithReader, Sum::kAlone}) {
      Schedule tiled = out[0];
      if (out.size() == 1 && is_open(tiled, name) && bind_tiles(tiled, name, sum, target, options.gpu))
        out.push_back(std::move(tiled));
    }
    for (Schedule& s : out)
      for (Sum sum : {Sum::kWithReader, Sum::kAlone, Sum::kNone}) {
        Schedule trial = s;
        if (is_open(s, name) && bind_block(trial, name, sum, target, options.gpu)) s = std::move(trial);
      }
  }
  return ways;
}

}  // namespace tcc::space
