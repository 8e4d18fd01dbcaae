// The passes of the lowering as data: each target has one ordered table, and everything that names, runs, checks or
// documents passes reads it (lower(), tcc-opt, --dump-after, docs/architecture.md).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::analysis {
class ColumnBuilder;
struct NestColumns;
}  // namespace tcc::analysis

namespace tcc::lower {

struct LimitColumns;

// What a kernel looks like between two passes.
// clang-format off
#define TCC_LOWER_FORMS(X)                                                               \
  X(Blocks,    "blocks")    /* Stage::kBuilt or kScheduled: blocks, some with inits */    \
  X(NoInits,   "no_inits")  /* blocks without inits */                                    \
  X(Loops,     "loops")     /* no blocks; temporaries have no Alloc yet */                \
  X(Allocated, "allocated") /* every temporary has one Alloc and the size that it needs */ \
  X(Folded,    "folded")    /* Stage::kNest: expressions are simple, unit loops are gone */ \
  X(Nest,      "nest")      /* the same, within the target's limits */                    \
  X(Lowered,   "lowered")   /* Stage::kLowered: ready to print as code */
// clang-format on
enum class Form : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_LOWER_FORMS(TCC_X)
#undef TCC_X
};
std::string_view form_name(Form form);
// Why `kernel` is not in this form, as what a pass needs ("a kernel at stage nest: use --to nest first"); "" = it is.
std::string missing_for(const ir::Kernel& kernel, Form form);

struct Pass {
  std::string_view name;
  Form needs, gives;
  // New nodes go to the arena, which keeps the kernel's own alive.
  ir::Legal<ir::Kernel> (*run)(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);
  // Only tidies up: lower() skips it where nothing has changed since it ran last.
  bool tidies = false;
};

// How kernels are lowered for one kind of target.
struct Pipeline {
  std::string_view name;         // "cpu", "cuda"
  std::span<const Pass> passes;  // each needs what the one before it gives; the last one gives Form::kLowered
  // Reads a kernel at Nest: extents, footprints and thread counts against the target. One of the passes calls it.
  ir::Legal<void> (*check_limits)(const ir::Kernel& nest, const target::Target& target) = nullptr;
  // The same for all candidates of a sketch at once: limit_columns() (limit_columns.h). nullptr: kernels are checked.
  bool (*limit_columns)(analysis::ColumnBuilder& b, const ir::Kernel& nest, const analysis::NestColumns& columns,
                        const target::Target& target, LimitColumns& out, std::string& why) = nullptr;
};

// The pipeline of the target's kind. TCC_CHECK: there is one.
const Pipeline& pipeline_of(const target::Target& target);
const Pipeline& cpu_pipeline();
const Pipeline& cuda_pipeline();
// Every pipeline, CPU and CUDA first.
std::vector<const Pipeline*> pipelines();
// Adds the pipeline of a further kind of target, or replaces that of a known one; `pipeline` must outlive all lowering.
// Call it before the first kernel of that kind is lowered, from one thread.
void add_pipeline(target::TargetKind kind, const Pipeline* pipeline);

// The passes up to Nest that every target shares: place_inits, inline_blocks, compact_buffers, fold.
std::span<const Pass> common_passes();

// The pass of this name in the pipeline; nullptr: it has no such pass.
const Pass* find_pass(const Pipeline& pipeline, std::string_view name);
// The usage error for a name that find_pass() does not know, with the nearest one that it does.
tl::unexpected<Error> unknown_pass(const Pipeline& pipeline, std::string_view name);

// Runs one pass: arenas, the stage of the result, and the checks of the preset `dev`.
ir::Legal<ir::Kernel> run_pass(const Pass& pass, const ir::Kernel& kernel, const target::Target& target,
                               const ArenaPtr& arena);

// Sees the kernel after each pass that ran.
using PassObserver = std::function<void(const Pass& pass, const ir::Kernel& kernel)>;

}  // namespace tcc::lower
