#include "tcc/lower/pass.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::lower {

using namespace ir;

namespace {

std::map<target::TargetKind, const Pipeline*>& registry() {
  static std::map<target::TargetKind, const Pipeline*> instance = {{target::TargetKind::kCpu, &cpu_pipeline()},
                                                                   {target::TargetKind::kCuda, &cuda_pipeline()}};
  return instance;
}

// A pass must give what its row promises: in the preset `dev`, each result is looked at.
void check_result(const Pass& pass, Kernel k) {
#ifdef TCC_CHECK_PASSES
  const std::string missing = missing_for(k, pass.gives);
  TCC_CHECK(missing.empty(), "{} gives {}, and the next pass needs {}", pass.name, form_name(pass.gives), missing);
  if (pass.gives == Form::kAllocated) k.stage = Stage::kNest;  // whose rules it keeps already
  check_verified(k, std::string(pass.name).c_str());
#else
  (void)pass;
  (void)k;
#endif
}

}  // namespace

std::string_view form_name(Form form) {
#define TCC_X(name, text) text,
  static constexpr std::string_view kNames[] = {TCC_LOWER_FORMS(TCC_X)};
#undef TCC_X
  return kNames[static_cast<size_t>(form)];
}

std::string missing_for(const Kernel& k, Form form) {
  bool blocks = false, inits = false, allocs = false;
  visit(k.root, [&](Stmt s) {
    blocks |= s->kind == StmtKind::kBlock;
    allocs |= s->kind == StmtKind::kAlloc;
    if (const Block* block = as<Block>(s)) inits |= block->init != nullptr;
    return true;
  });
  switch (form) {
    case Form::kBlocks:
      return k.stage < Stage::kNest ? "" : "a kernel at stage built or scheduled";
    case Form::kNoInits:
      if (k.stage >= Stage::kNest) return "a kernel at stage built or scheduled";
      return inits ? "blocks without init: run place_inits first" : "";
    case Form::kLoops:
      if (blocks) return "a kernel without blocks: run inline_blocks first";
      return allocs ? "a kernel whose temporaries are not allocated yet" : "";
    case Form::kAllocated:
      return blocks ? "a kernel without blocks: run inline_blocks first" : "";
    case Form::kFolded:
    case Form::kNest:
      return k.stage == Stage::kNest ? "" : "a kernel at stage nest: use --to nest first";
    case Form::kLowered:
      return k.stage == Stage::kLowered ? "" : "a kernel at stage lowered: use --to lowered first";
  }
  return "";
}

const Pipeline& pipeline_of(const target::Target& target) {
  auto found = registry().find(target.kind);
  TCC_CHECK(found != registry().end(), "no pipeline for target '{}'", target.name);
  return *found->second;
}

std::vector<const Pipeline*> pipelines() {
  std::vector<const Pipeline*> all;
  for (const auto& [kind, pipeline] : registry()) all.push_back(pipeline);
  return all;
}

void add_pipeline(target::TargetKind kind, const Pipeline* pipeline) {
  TCC_CHECK(!pipeline->passes.empty() && pipeline->passes.back().gives == Form::kLowered && pipeline->check_limits,
            "the pipeline '{}' is not whole", pipeline->name);
  registry()[kind] = pipeline;
}

const Pass* find_pass(const Pipeline& pipeline, std::string_view name) {
  auto found =
      std::find_if(pipeline.passes.begin(), pipeline.passes.end(), [&](const Pass& pass) { return pass.name == name; });
  return found == pipeline.passes.end() ? nullptr : &*found;
}

tl::unexpected<Error> unknown_pass(const Pipeline& pipeline, std::string_view name) {
  std::vector<std::string> known;
  for (const Pass& pass : pipeline.passes)
    if (std::find(known.begin(), known.end(), pass.name) == known.end()) known.emplace_back(pass.name);
  const std::string nearest = suggest(name, known);
  return make_error(
      ErrorClass::kUsage,
      fmt::format("unknown pass '{}': the lowering for {} has no such pass", sanitize(name, 40), pipeline.name),
      nearest.empty() ? fmt::format("its passes are {}", fmt::join(known, ", ")) : nearest);
}

Legal<Kernel> run_pass(const Pass& pass, const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  if (kernel.arena != arena) arena->keep_alive(kernel.arena);
  Kernel k = kernel;
  k.arena = arena;
  Legal<Kernel> result = pass.run(k, target, arena);
  if (!result) return result;
  if (pass.gives == Form::kLowered) result->stage = Stage::kLowered;
  check_result(pass, *result);
  return result;
}

}  // namespace tcc::lower
