// Elementwise blocks, copies and gathers: a launch of their own, in which threads move vectors.
//
//   for f in N { y[f] = g(x[f]) }
//
//   grid b { threads t { u unrolled { v vectorized { y[((b*U + u)*T + t)*V + v] = g(x[...]) } } } }
//
// V elements of a vector have 16 bytes at most of the narrowest tensor that moves with the results, U vectors of a
// thread are loaded before they are used, and neighboring threads have neighboring vectors. So a multiprocessor has
// T * blocks * U * 16 bytes on their way, as many as the latency of memory asks for (Volkov, "Understanding Latency
// Hiding on GPUs", UC Berkeley 2016, section 4). Operands that do not move with the elements of a vector stay plain
// loads. Results that transpose an operand have a form of their own beside this one (gpu_transpose).
#include <algorithm>

#include "space/gpu.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

class GpuElementwise {
 public:
  static Ways apply(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
    Ways ways;
    Schedule s = state;
    for (const std::string& name : unscheduled_blocks(s.kernel())) {
      const Block* block = find_block(s.kernel().root, schedule::find_block_by_name(s.kernel(), name));
      if (block == nullptr || reads_open_sum(s.kernel(), *block)) continue;
      std::optional<NaiveNest> nest = naive_nest(s.kernel(), *block);
      if (!nest || nest->is_reduction() || nest->extents.empty()) continue;
      Schedule trial = s;
      if (stream(trial, *nest, target, options.gpu))
        s = std::move(trial);
      else if (!trial.ok())
        ways.rejects.add(trial.reject());
    }
    return std::move(ways.or_also(s));
  }

 private:
  // A later module may keep the sum and what reads it together.
  static bool reads_open_sum(const Kernel& k, const Block& block) {
    for (Id id : schedule::producers_of(k, block.id)) {
      const Block* producer = find_block(k.root, id);
      if (producer != nullptr && producer->init != nullptr && is_unscheduled(k, id)) return true;
    }
    return false;
  }

  // Bytes of the narrowest element among the result and the operands that are neighbors where results are.
  static int64_t narrowest(const Kernel& k, const NaiveNest& nest) {
    int64_t bytes = type_bytes(k.buffer(nest.store->buffer)->type);
    for (const analysis::Operand& o : nest.operands) {
      const std::optional<int64_t> step = o.stride.back();
      if (step && *step == 1) bytes = std::min<int64_t>(bytes, type_bytes(k.buffer(o.load->buffer)->type));
    }
    return std::max<int64_t>(bytes, 1);
  }

  static bool stream(Schedule& s, const NaiveNest& nest, const target::Target& target, const GpuSpaceOptions& options) {
    const int64_t widest = kMaxAccessBytes / std::min(narrowest(s.kernel(), nest), kMaxAccessBytes);
    LoopRv all = fuse_all(s, s.get_loops(s.get_block(nest.name)));
    if (!s.ok()) return false;
    const ExprRv vector = sample_widths(s, widest), unroll = sample_uniform(s, options.stream_unroll);
    std::vector<int64_t> threads;
    for (int64_t n : options.stream_threads)
      if (n <= target.cuda.max_threads_per_block) threads.push_back(n);
    if (threads.empty()) return false;
    std::vector<LoopRv> parts =
        s.split(all, std::vector<ExprRv>{{}, unroll, sample_uniform(s, threads), vector});  // grid, u, t, v
    if (!s.ok()) return false;
    s.reorder(std::vector<LoopRv>{parts[0], parts[2], parts[1], parts[3]});
    s.bind(parts[0], Axis::kGridX);
    s.bind(parts[2], Axis::kThreadX);
    s.unroll(parts[1]);
    s.vectorize(parts[3]);
    return s.ok();
  }
};

}  // namespace

Ways gpu_elementwise(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  return GpuElementwise::apply(state, target, options);
}

}  // namespace tcc::space
