// Queries, sampling, loops and annotations.
#include <algorithm>

#include "schedule/metaschedule/importer.h"
#include "tcc/support/text.h"

namespace tcc::schedule {
namespace {

using PlainJson = nlohmann::json;

constexpr int64_t kFreshInnermost = 64;  // of a tile whose own limit says something else: for fresh draws only

std::optional<int64_t> axis_from(const std::string& name) {
  static const std::map<std::string, ir::Axis> kAxes = {
      {"blockIdx.x", ir::Axis::kGridX},    {"blockIdx.y", ir::Axis::kGridY},    {"blockIdx.z", ir::Axis::kGridZ},
      {"threadIdx.x", ir::Axis::kThreadX}, {"threadIdx.y", ir::Axis::kThreadY}, {"threadIdx.z", ir::Axis::kThreadZ},
      {"vthread", ir::Axis::kVthread},     {"vthread.x", ir::Axis::kVthread},   {"vthread.y", ir::Axis::kVthread},
      {"vthread.z", ir::Axis::kVthread},
  };
  auto it = kAxes.find(name);
  if (it == kAxes.end()) return std::nullopt;
  return static_cast<int64_t>(it->second);
}

std::optional<int64_t> annotation_from(const std::string& key) {
  if (key == "meta_schedule.cooperative_fetch") return static_cast<int64_t>(ir::AnnotationKey::kCooperativeFetch);
  if (key == "pragma_auto_unroll_max_step") return static_cast<int64_t>(ir::AnnotationKey::kUnrollMax);
  return std::nullopt;
}
// Of no effect by themselves: they speak to rules and postprocessors, or choose among equal programs.
bool is_hint(const std::string& key) {
  return key.starts_with("meta_schedule.") || key.starts_with("software_pipeline_") ||
         key == "pragma_unroll_explicit" || key == "tir.manifest_shared_memory_local_stage" ||
         key == "double_buffer_scope";
}

}  // namespace

Result<void> MetaImporter::get_block() {
  TCC_TRY(std::string block, text_attr(0));
  TCC_TRY_VOID(require_outputs(1));
  if (block == "root") {
    if (!(*outputs_)[0].is_string()) return fail("an output is the name of a variable");
    roots_.insert((*outputs_)[0].get<std::string>());
    return {};
  }
  if (block.find('"') != std::string::npos || block.find('\n') != std::string::npos)
    return fail("the block's name has a quotation mark or an end of line");
  if (auto made = made_.find(block); made != made_.end())
    return name_again((*outputs_)[0], static_cast<int>(made->second));
  names_[out_.trace.variables] = block;
  return emit(Op::kGetBlock, {}, {}, block);
}

Result<void> MetaImporter::query(Op op) {
  TCC_TRY(Input from, variable_at(0, "a block"));
  if (op == Op::kGetLoops)
    for (const PlainJson& v : *outputs_)
      if (v.is_string()) block_of_[v.get<std::string>()] = from;
  return emit(op, {from});
}

Result<void> MetaImporter::get_child_blocks() {
  const bool of_root = !inputs_->empty() && (*inputs_)[0].is_string() && roots_.contains((*inputs_)[0]);
  return of_root ? emit(Op::kGetChildBlocks, {}) : query(Op::kGetChildBlocks);
}

// The factors of a perfect tile tell the extent of the loop.
void MetaImporter::tiles_whole(const Input& loop, const std::vector<int64_t>& factors) {
  constexpr int64_t kMax = int64_t{1} << 48;
  int64_t extent = 1;
  for (int64_t f : factors) {
    if (f < 1 || f > kMax / extent) return;
    extent *= f;
  }
  out_.extents[static_cast<int>(loop.value)] = extent;
}
Result<void> MetaImporter::sample_perfect_tile() {
  TCC_TRY(Input loop, variable_at(0, "a loop"));
  TCC_TRY(int64_t n, integer_attr(0));
  TCC_TRY(int64_t innermost, integer_attr(1));
  TCC_TRY(const PlainJson* chosen, decision());
  TCC_TRY(std::vector<int64_t> factors, integers(*chosen, "the decision"));
  if (n < 1 || factors.size() != static_cast<size_t>(n) || innermost < 1)
    return fail(fmt::format("{} factors are decided instead of {}", factors.size(), n));
  TCC_TRY_VOID(require_outputs(factors.size()));
  tiles_whole(loop, factors);
  return emit(Op::kSamplePerfectTile, {loop}, {n, innermost}, {}, factors);
}

Result<void> MetaImporter::sample_partitioned_tile() {
  TCC_TRY(Input loop, variable_at(0, "a loop"));
  TCC_TRY(int64_t n, integer_attr(0));
  TCC_TRY(const PlainJson* chosen, decision());
  TCC_TRY(std::vector<int64_t> factors, integers(*chosen, "the decision"));
  if (n < 1 || factors.size() != static_cast<size_t>(n))
    return fail(fmt::format("{} factors are decided instead of {}", factors.size(), n));
  TCC_TRY_VOID(require_outputs(factors.size()));
  tiles_whole(loop, factors);
  note("other decisions need not keep the partition");
  return emit(Op::kSamplePerfectTile, {loop}, {n, std::max(kFreshInnermost, factors.back())}, {}, factors);
}

Result<void> MetaImporter::sample_categorical() {
  if (attrs_->size() != 2 || !(*attrs_)[1].is_array()) return fail("candidates and probabilities are expected");
  TCC_TRY(std::vector<int64_t> attrs, integers((*attrs_)[0], "the list of candidates"));
  if (attrs.empty() || (*attrs_)[1].size() != attrs.size())
    return fail("there are not as many probabilities as candidates");
  for (const PlainJson& p : (*attrs_)[1]) {
    if (!p.is_number() || !(p.get<double>() >= 0) || p.get<double>() > 1) return fail("a probability is from 0 to 1");
    attrs.push_back(static_cast<int64_t>(p.get<double>() * 1e6 + 0.5));
  }
  TCC_TRY(const PlainJson* chosen, decision());
  if (!chosen->is_number_integer()) return fail("the decision is to be the index of a candidate");
  TCC_TRY_VOID(require_outputs(1));
  return emit(Op::kSampleCategorical, {}, std::move(attrs), {}, {chosen->get<int64_t>()});
}

Result<void> MetaImporter::sample_compute_location() {
  TCC_TRY(Input block, variable_at(0, "a block"));
  TCC_TRY(const PlainJson* chosen, decision());
  if (!chosen->is_number_integer()) return fail("the decision is to be a place");
  TCC_TRY_VOID(require_outputs(1));
  return emit(Op::kSampleComputeLocation, {block}, {}, {}, {chosen->get<int64_t>()});
}

void MetaImporter::inherit(const PlainJson& from) {
  if (!from.is_string()) return;
  auto it = block_of_.find(from.get<std::string>());
  if (it == block_of_.end()) return;
  Input block = it->second;
  for (const PlainJson& v : *outputs_)
    if (v.is_string()) block_of_.insert_or_assign(v.get<std::string>(), block);
}

Result<void> MetaImporter::split() {
  std::vector<Input> inputs;
  TCC_TRY(Input loop, variable_at(0, "a loop"));
  inputs.push_back(loop);
  for (size_t i = 1; i < inputs_->size(); ++i) {
    TCC_TRY(Input factor, value_at(i));
    inputs.push_back(factor);
  }
  TCC_TRY_VOID(require_outputs(inputs.size() - 1));
  inherit((*inputs_)[0]);
  return emit(Op::kSplit, std::move(inputs));
}

Result<void> MetaImporter::fuse() {
  TCC_TRY(std::vector<Input> loops, all_inputs("a loop"));
  TCC_TRY_VOID(require_outputs(1));
  if (!inputs_->empty()) inherit((*inputs_)[0]);
  if (loops.size() == 1) return name_again((*outputs_)[0], static_cast<int>(loops[0].value));
  return emit(Op::kFuse, std::move(loops));
}

Result<void> MetaImporter::bind() {
  TCC_TRY(Input loop, variable_at(0, "a loop"));
  TCC_TRY(std::string axis, text_attr(0));
  std::optional<int64_t> ours = axis_from(axis);
  if (!ours) return fail(fmt::format("unknown axis '{}'", sanitize(axis, 40)));
  TCC_TRY_VOID(require_outputs(0));
  return emit(Op::kBind, {loop}, {*ours});
}

Result<void> MetaImporter::annotate() {
  TCC_TRY(std::string key, text_attr(0));
  if (std::optional<int64_t> ours = annotation_from(key)) {
    TCC_TRY(Input where, variable_at(0, "a block or loop"));
    TCC_TRY(Input value, value_at(1));
    TCC_TRY_VOID(require_outputs(0));
    return emit(Op::kAnnotate, {where, value}, {*ours});
  }
  if (!is_hint(key)) return fail(fmt::format("no annotation here is like '{}'", sanitize(key, 60)));
  note(fmt::format("the hint '{}' is left out", key));
  return {};
}

Result<void> MetaImporter::unannotate() {
  TCC_TRY(std::string key, text_attr(0));
  if (std::optional<int64_t> ours = annotation_from(key)) {
    TCC_TRY(Input where, variable_at(0, "a block or loop"));
    TCC_TRY_VOID(require_outputs(0));
    return emit(Op::kUnannotate, {where}, {*ours});
  }
  if (!is_hint(key)) return fail(fmt::format("no annotation here is like '{}'", sanitize(key, 60)));
  return {};
}

}  // namespace tcc::schedule
