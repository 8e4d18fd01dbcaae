// Auto-bind: every block that nothing has scheduled gets a launch of its own. Its spatial loops are fused and dealt out
// to at most max_blocks blocks of threads; larger extents leave a serial loop in each thread, whose steps are the size
// of the grid, so that neighbouring threads always touch neighbouring elements. Reductions keep their sum in a
// register.
#include <algorithm>

#include "space/gpu.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

using namespace ir;
using schedule::BlockRv;
using schedule::ExprRv;
using schedule::lit;
using schedule::LoopRv;
using schedule::Schedule;

class GpuBind : public Module {
 public:
  const char* name() const override { return "gpu_bind"; }

  std::vector<Schedule> apply(const Schedule& state, const target::Target& target,
                              const SpaceOptions& options) const override {
    Schedule s = state;
    for (const std::string& name : unscheduled_blocks(s.kernel())) {
      for (bool reduction : {true, false}) {
        Schedule trial = s;
        if (!bind_block(trial, name, reduction, target, options.gpu)) continue;
        s = std::move(trial);
        break;
      }
    }
    return {std::move(s)};
  }

 private:
  // The spatial loops and their extents, outermost first; other loops in `rest`.
  struct Loops {
    std::vector<LoopRv> spatial, rest;
    int64_t extent = 1;
  };

  static std::optional<Loops> sort_loops(Schedule& s, BlockRv block) {
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

  static bool bind_block(Schedule& s, const std::string& name, bool reduction, const target::Target& target,
                         const GpuSpaceOptions& options) {
    BlockRv block = s.get_block(name);
    const Block* found = s.ok() ? find_block(s.kernel().root, s.id(block)) : nullptr;
    if (found == nullptr || (reduction && found->init == nullptr)) return false;
    BlockRv result;
    if (reduction) result = s.cache_write(block, Scope::kLocal);
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
    if (reduction) s.reverse_compute_at(result, inner);
    return s.ok();
  }
};

}  // namespace

std::unique_ptr<Module> make_gpu_bind() {
  return std::make_unique<GpuBind>();
}

}  // namespace tcc::space
