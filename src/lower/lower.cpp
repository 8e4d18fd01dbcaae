// The passes of each target, in order, and the loop that runs them. The header of each pass describes its input,
// its output, and the reason for its place.
#include "tcc/lower/lower.h"

#include <algorithm>
#include <array>

#include "lower/check_limits.h"
#include "lower/compact_buffers.h"
#include "lower/cpu/complete_tiles.h"
#include "lower/cpu/plan_hints.h"
#include "lower/cpu/plan_unrolling.h"
#include "lower/cpu/serialize_small.h"
#include "lower/cpu/shift_tails.h"
#include "lower/cpu/transpose_accesses.h"
#include "lower/gpu/align_vectors.h"
#include "lower/gpu/bind_threads.h"
#include "lower/gpu/choose_access_widths.h"
#include "lower/gpu/distribute_fragments.h"
#include "lower/gpu/expand_pipeline.h"
#include "lower/gpu/expand_roles.h"
#include "lower/gpu/insert_barriers.h"
#include "lower/gpu/pad_copies.h"
#include "lower/gpu/place_gpu_storage.h"
#include "lower/gpu/plan_unrolling.h"
#include "lower/gpu/sink_vthreads.h"
#include "lower/gpu/split_last_wave.h"
#include "lower/gpu/swizzle_shared.h"
#include "lower/gpu/unroll_loops.h"
#include "lower/gpu/vectorize_stores.h"
#include "lower/hoist_accumulators.h"
#include "lower/inline_blocks.h"
#include "lower/limit_columns.h"
#include "lower/order_local_dims.h"
#include "lower/pad_tails.h"
#include "lower/place_inits.h"
#include "lower/promote_registers.h"
#include "lower/share_output.h"
#include "lower/split_launches.h"
#include "lower/split_tails.h"
#include "tcc/lower/nest.h"
#include "tcc/support/result.h"

namespace tcc::lower {

using namespace ir;

namespace {

// A row's function, of a pass that asks for less than the row has to give.
template <auto kPass>
Legal<Kernel> as_row(const Kernel& k, const target::Target& target, const ArenaPtr& arena) {
  using F = decltype(kPass);
  if constexpr (std::is_invocable_v<F, const Kernel&, const target::Target&, const ArenaPtr&>)
    return kPass(k, target, arena);
  else if constexpr (std::is_invocable_v<F, const Kernel&, const ArenaPtr&, RegisterFile>)
    return kPass(k, arena, register_file(target));
  else
    return kPass(k, arena);
}
template <auto kCheck>
Legal<Kernel> checked(const Kernel& k, const target::Target& target, const ArenaPtr&) {
  TCC_TRY_VOID(kCheck(k, target));
  return k;
}
Legal<Kernel> fold_all(const Kernel& k, const target::Target&, const ArenaPtr& arena) {
  return fold(k, {}, arena);
}

using enum Form;

template <size_t A, size_t B>
constexpr std::array<Pass, A + B> join(const std::array<Pass, A>& first, const std::array<Pass, B>& second) {
  std::array<Pass, A + B> all{};
  std::copy(first.begin(), first.end(), all.begin());
  std::copy(second.begin(), second.end(), all.begin() + A);
  return all;
}

// clang-format off

// Blocks become plain loops. All passes up to Nest run for every candidate of a search, the others for finalists.
constexpr std::array kCommon = {
    Pass{"place_inits", kBlocks, kNoInits, as_row<place_inits>},
    Pass{"inline_blocks", kNoInits, kLoops, as_row<inline_blocks>},
    Pass{"compact_buffers", kLoops, kAllocated, as_row<compact_buffers>},
    Pass{"fold", kAllocated, kFolded, fold_all, true},
};

constexpr std::array kCpu = join(kCommon, std::array{
    Pass{"check_limits", kFolded, kNest, checked<check_cpu_limits>},
    // --- Nest ---
    Pass{"share_output", kNest, kNest, as_row<share_output>},
    Pass{"pad_tails", kNest, kNest, as_row<pad_tails>},
    Pass{"shift_tails", kNest, kNest, as_row<shift_tails>},
    Pass{"split_tails", kNest, kNest, as_row<split_tails>},
    Pass{"order_local_dims", kNest, kNest, as_row<order_local_dims>},
    Pass{"promote_registers", kNest, kNest, as_row<promote_registers>},
    Pass{"hoist_local_tiles", kNest, kNest, as_row<hoist_local_tiles>},
    Pass{"split_launches", kNest, kNest, as_row<split_launches>},
    Pass{"serialize_small", kNest, kNest, as_row<serialize_small>},
    // Annotations that the code generator carries out.
    Pass{"plan_unrolling", kNest, kNest, as_row<plan_cpu_unrolling>},
    Pass{"complete_tiles", kNest, kNest, as_row<complete_tiles>},
    Pass{"transpose_accesses", kNest, kNest, as_row<transpose_accesses>},
    Pass{"plan_hints", kNest, kLowered, as_row<plan_hints>},
});

// Sequential code with bound loops in it becomes the code of one thread.
constexpr std::array kCuda = join(kCommon, std::array{
    Pass{"split_last_wave", kFolded, kFolded, as_row<split_last_wave>},
    Pass{"fold", kFolded, kFolded, fold_all, true},
    Pass{"check_limits", kFolded, kNest, checked<check_cuda_limits>},
    // --- Nest ---
    Pass{"pad_copies", kNest, kNest, as_row<pad_copies>},
    Pass{"place_gpu_storage", kNest, kNest, as_row<place_gpu_storage>},
    Pass{"distribute_fragments", kNest, kNest, as_row<distribute_fragments>},
    Pass{"expand_roles", kNest, kNest, as_row<expand_roles>},
    Pass{"sink_vthreads", kNest, kNest, as_row<sink_vthreads>},
    Pass{"bind_threads", kNest, kNest, as_row<bind_threads>},
    Pass{"fold", kNest, kNest, fold_all, true},  // coordinates took the place of loops, rounds that of copies
    Pass{"align_vectors", kNest, kNest, as_row<align_vectors>},
    Pass{"expand_pipeline", kNest, kNest, as_row<expand_pipeline>},
    Pass{"hoist_accumulators", kNest, kNest, as_row<hoist_accumulators>},
    Pass{"swizzle_shared", kNest, kNest, as_row<swizzle_shared>},
    Pass{"insert_barriers", kNest, kNest, as_row<insert_barriers>},
    Pass{"unroll_loops", kNest, kNest, as_row<unroll_loops>},
    Pass{"promote_registers", kNest, kNest, as_row<promote_registers>},
    Pass{"vectorize_stores", kNest, kNest, as_row<vectorize_stores>},
    // Annotations that the code generator carries out.
    Pass{"plan_unrolling", kNest, kNest, as_row<plan_unrolling>},
    Pass{"choose_access_widths", kNest, kLowered, as_row<choose_access_widths>},
});

// clang-format on

constexpr Pipeline kCpuPipeline = {"cpu", kCpu, check_cpu_limits, cpu_limit_columns};
constexpr Pipeline kCudaPipeline = {"cuda", kCuda, check_cuda_limits, cuda_limit_columns};

// Runs `passes` one after the other. `tidy`: a kernel that a pass which tidies has just left.
Legal<Kernel> run_passes(std::span<const Pass> passes, Kernel k, const target::Target& target, const ArenaPtr& arena,
                         const PassObserver& observer, const Kernel* tidy = nullptr) {
  Stmt root = tidy == nullptr ? nullptr : tidy->root;
  const Buffer* const* buffers = tidy == nullptr ? nullptr : tidy->buffers.data();
  for (const Pass& pass : passes) {
    if (pass.tidies && k.root == root && k.buffers.data() == buffers) continue;
    TCC_TRY(k, run_pass(pass, k, target, arena));
    if (pass.tidies) root = k.root, buffers = k.buffers.data();
    if (observer) observer(pass, k);
  }
  return k;
}

// The first pass that gives `form`.
std::span<const Pass>::iterator first_giving(std::span<const Pass> passes, Form form) {
  return std::find_if(passes.begin(), passes.end(), [&](const Pass& p) { return p.gives == form; });
}

}  // namespace

std::span<const Pass> common_passes() {
  return kCommon;
}
const Pipeline& cpu_pipeline() {
  return kCpuPipeline;
}
const Pipeline& cuda_pipeline() {
  return kCudaPipeline;
}

Legal<Kernel> lower(const Kernel& kernel, const target::Target& target, Stage stop, const ArenaPtr& arena,
                    const PassObserver& observer) {
  const std::span<const Pass> passes = pipeline_of(target).passes;
  const auto nest = first_giving(passes, kNest) + 1;
  const auto begin = kernel.stage < Stage::kNest ? passes.begin() : nest;
  const auto end = stop == Stage::kNest ? nest : passes.end();
  arena->keep_alive(kernel.arena);
  Kernel k = kernel;
  k.arena = arena;
  return run_passes({begin, end}, k, target, arena, observer);
}

Legal<Kernel> build_nest(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  const std::span<const Pass> passes = pipeline_of(target).passes;
  return run_passes({passes.begin(), first_giving(passes, kFolded)}, kernel, target, arena, nullptr);
}

Legal<Kernel> finish_nest(const Kernel& kernel, const Substitution& decisions, const target::Target& target,
                          const ArenaPtr& arena) {
  const std::span<const Pass> passes = pipeline_of(target).passes;
  const Kernel folded = fold(kernel, decisions, arena);
  return run_passes({first_giving(passes, kFolded) + 1, first_giving(passes, kNest) + 1}, folded, target, arena,
                    nullptr, &folded);
}

bool limit_columns(analysis::ColumnBuilder& b, const Kernel& nest, const analysis::NestColumns& columns,
                   const target::Target& target, LimitColumns& out, std::string& why) {
  const Pipeline& pipeline = pipeline_of(target);
  if (pipeline.limit_columns != nullptr) return pipeline.limit_columns(b, nest, columns, target, out, why);
  why = fmt::format("the limits of '{}' have no columns", pipeline.name);
  return false;
}

Legal<void> check_limits(const Kernel& nest, const target::Target& target) {
  return pipeline_of(target).check_limits(nest, target);
}

}  // namespace tcc::lower
