// Import of MetaSchedule's traces.
//
//   [[[name, inputs, attributes, outputs], ...], [[instruction, decision], ...]]
//
// Inputs are names of random variables (b# blocks, l# loops, v# integers), numbers, null or "None" ("inferred"), quoted
// strings, or lists of these. Each instruction becomes one of ours. Hints to TVM's postprocessors on the root block,
// and flags about unit loops, have no counterpart and do not change what is computed: they are left out and noted.
// Anything else that cannot be said is an error, so that an imported schedule is the one that was written. What stands
// behind EnterPostproc was written by TVM's postprocessors, which may be left out by MetaSchedule's own rules of replay
// (section 4): it is read as well, and left out as a whole, with a note that says why, where one of it cannot be said.
#include "tcc/schedule/metaschedule.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tcc/support/text.h"

namespace tcc::schedule {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxInstructions = 4096;
constexpr int64_t kFreshInnermost = 64;  // of a tile whose own limit says something else: for fresh draws only
constexpr int64_t kRead = 0;

std::optional<int64_t> scope_from(const std::string& name) {
  if (name == "global") return static_cast<int64_t>(ir::Scope::kGlobal);
  if (name == "shared" || name == "shared.dyn") return static_cast<int64_t>(ir::Scope::kShared);
  if (name == "local") return static_cast<int64_t>(ir::Scope::kLocal);
  return std::nullopt;
}

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

class Importer {
 public:
  explicit Importer(std::string_view file) : file_(file) {}

  Result<ImportedTrace> run(const Json& json) {
    TCC_TRY_VOID(check(json));
    size_t end = json[0].size();
    for (size_t i = 0; i < json[0].size(); ++i)
      if (json[0][i][0] == "EnterPostproc") end = std::min(end, i);
    TCC_TRY_VOID(instructions(json[0], 0, end));
    out_.scheduled = out_.trace.instructions.size();
    if (end == json[0].size()) return std::move(out_);
    ImportedTrace scheduled = out_;
    if (Result<void> done = instructions(json[0], end + 1, json[0].size()); !done) {
      scheduled.notes.push_back(
          fmt::format("instructions from {} on, of postprocessors, are left out: {}", end, done.error().message));
      return scheduled;
    }
    return std::move(out_);
  }

 private:
  struct Kind {
    std::string_view name;
    Result<void> (Importer::*import)();
  };

  Result<void> check(const Json& json) {
    if (!json.is_array() || json.size() != 2 || !json[0].is_array() || !json[1].is_array())
      return input_error("{}: not a MetaSchedule trace: [instructions, decisions] is expected", file_);
    if (json[0].size() > kMaxInstructions) return input_error("{}: more than {} instructions", file_, kMaxInstructions);
    for (size_t i = 0; i < json[0].size(); ++i) {
      const Json& row = json[0][i];
      if (!row.is_array() || row.size() != 4 || !row[0].is_string() || !row[1].is_array() || !row[2].is_array() ||
          !row[3].is_array())
        return input_error("{}: instruction {}: [name, inputs, attributes, outputs] is expected", file_, i);
    }
    return read_decisions(json[1], json[0].size());
  }
  Result<void> instructions(const Json& rows, size_t begin, size_t end) {
    for (number_ = begin; number_ < end; ++number_) {
      name_ = rows[number_][0].get<std::string>();
      inputs_ = &rows[number_][1];
      attrs_ = &rows[number_][2];
      outputs_ = &rows[number_][3];
      TCC_TRY_VOID(instruction());
    }
    return {};
  }

  tl::unexpected<Error> fail(const std::string& why, const std::string& hint = {}) const {
    return make_error(ErrorClass::kInput,
                      fmt::format("{}: instruction {} ({}): {}", file_, number_, sanitize(name_, 40), why), hint);
  }
  void note(const std::string& what) {
    out_.notes.push_back(fmt::format("instruction {} ({}): {}", number_, name_, what));
  }

  Result<void> read_decisions(const Json& list, size_t instructions) {
    for (const Json& d : list) {
      if (!d.is_array() || d.size() != 2 || !d[0].is_number_integer() || d[0].get<int64_t>() < 0 ||
          static_cast<size_t>(d[0].get<int64_t>()) >= instructions)
        return input_error("{}: a decision is [number of an instruction, value]", file_);
      decisions_[static_cast<size_t>(d[0].get<int64_t>())] = &d[1];
    }
    return {};
  }

  // --- parts of an instruction ---------------------------------------------------------------------------------------
  Result<Input> variable_at(size_t i, const char* what) {
    if (i >= inputs_->size() || !(*inputs_)[i].is_string()) return fail(fmt::format("input {} is to be {}", i, what));
    std::string v = (*inputs_)[i].get<std::string>();
    if (roots_.contains(v)) return fail("the root block has no counterpart here", "name the block that is meant");
    auto it = variables_.find(v);
    if (it == variables_.end()) return fail(fmt::format("'{}' is not defined before it", sanitize(v, 40)));
    return variable(it->second);
  }
  // A variable, a number, null or "None".
  Result<Input> value_at(size_t i) {
    if (i >= inputs_->size()) return fail(fmt::format("input {} is missing", i));
    const Json& v = (*inputs_)[i];
    if (v.is_null() || v == "None") return kInferred;
    if (v.is_number_integer()) return literal(v.get<int64_t>());
    return variable_at(i, "a variable, a number or null");
  }
  Result<int64_t> integer_attr(size_t i) {
    if (i >= attrs_->size() || !(*attrs_)[i].is_number_integer())
      return fail(fmt::format("attribute {} is to be an integer", i));
    return (*attrs_)[i].get<int64_t>();
  }
  Result<std::string> text_attr(size_t i) {
    if (i >= attrs_->size() || !(*attrs_)[i].is_string()) return fail(fmt::format("attribute {} is to be a text", i));
    return (*attrs_)[i].get<std::string>();
  }
  Result<int64_t> scope_attr(size_t i) {
    TCC_TRY(std::string name, text_attr(i));
    std::optional<int64_t> scope = scope_from(name);
    if (!scope)
      return fail(fmt::format("no scope here is like '{}'", sanitize(name, 40)), "known: global, shared, local");
    return *scope;
  }
  Result<void> require_outputs(size_t n) {
    if (outputs_->size() != n) return fail(fmt::format("has {} outputs instead of {}", outputs_->size(), n));
    return {};
  }
  // Variables of all inputs.
  Result<std::vector<Input>> all_inputs(const char* what) {
    std::vector<Input> out;
    for (size_t i = 0; i < inputs_->size(); ++i) {
      TCC_TRY(Input in, variable_at(i, what));
      out.push_back(in);
    }
    return out;
  }

  Result<void> emit(Op op, std::vector<Input> inputs, std::vector<int64_t> attrs = {}, std::string text = {},
                    std::vector<int64_t> decision = {}) {
    Trace& t = out_.trace;
    Instruction in{op,
                   std::move(inputs),
                   std::move(attrs),
                   std::move(text),
                   t.variables,
                   static_cast<int>(outputs_->size()),
                   -1,
                   static_cast<int>(decision.size())};
    if (!decision.empty()) in.decision = static_cast<int>(t.decisions.size());
    t.decisions.insert(t.decisions.end(), decision.begin(), decision.end());
    for (const Json& v : *outputs_) {
      if (!v.is_string()) return fail("an output is the name of a variable");
      if (!variables_.emplace(v.get<std::string>(), t.variables).second)
        return fail(fmt::format("'{}' is defined a second time", sanitize(v.get<std::string>(), 40)));
      ++t.variables;
    }
    t.instructions.push_back(std::move(in));
    out_.numbers.push_back(static_cast<int64_t>(number_));
    return {};
  }

  // Another name of a variable.
  Result<void> name_again(const Json& name, int variable) {
    if (!name.is_string()) return fail("an output is the name of a variable");
    if (!variables_.emplace(name.get<std::string>(), variable).second)
      return fail(fmt::format("'{}' is defined a second time", sanitize(name.get<std::string>(), 40)));
    return {};
  }

  Result<void> instruction();

  // --- instructions --------------------------------------------------------------------------------------------------
  Result<void> get_block() {
    TCC_TRY(std::string block, text_attr(0));
    TCC_TRY_VOID(require_outputs(1));
    if (block == "root") {
      if (!(*outputs_)[0].is_string()) return fail("an output is the name of a variable");
      roots_.insert((*outputs_)[0].get<std::string>());
      return {};
    }
    if (block.find('"') != std::string::npos || block.find('\n') != std::string::npos)
      return fail("the block's name has a quotation mark or an end of line");
    return emit(Op::kGetBlock, {}, {}, block);
  }
  Result<void> query(Op op) {
    TCC_TRY(Input from, variable_at(0, "a block"));
    if (op == Op::kGetLoops)
      for (const Json& v : *outputs_)
        if (v.is_string()) block_of_[v.get<std::string>()] = from;
    return emit(op, {from});
  }
  Result<void> get_loops() { return query(Op::kGetLoops); }
  Result<void> get_producers() { return query(Op::kGetProducers); }
  Result<void> get_consumers() { return query(Op::kGetConsumers); }
  Result<void> get_child_blocks() {
    const bool of_root = !inputs_->empty() && (*inputs_)[0].is_string() && roots_.contains((*inputs_)[0]);
    return of_root ? emit(Op::kGetChildBlocks, {}) : query(Op::kGetChildBlocks);
  }
  Result<void> get_output_blocks() { return emit(Op::kGetOutputBlocks, {}); }

  Result<std::vector<int64_t>> integers(const Json& list, const char* what) {
    std::vector<int64_t> out;
    if (!list.is_array()) return fail(fmt::format("{} is to be a list of integers", what));
    for (const Json& v : list) {
      if (!v.is_number_integer()) return fail(fmt::format("{} is to be a list of integers", what));
      out.push_back(v.get<int64_t>());
    }
    return out;
  }
  Result<const Json*> decision() {
    auto it = decisions_.find(number_);
    if (it == decisions_.end()) return fail("has no decision", "export the trace with its decisions");
    return it->second;
  }
  Result<void> sample_perfect_tile() {
    TCC_TRY(Input loop, variable_at(0, "a loop"));
    TCC_TRY(int64_t n, integer_attr(0));
    TCC_TRY(int64_t innermost, integer_attr(1));
    TCC_TRY(const Json* chosen, decision());
    TCC_TRY(std::vector<int64_t> factors, integers(*chosen, "the decision"));
    if (n < 1 || factors.size() != static_cast<size_t>(n) || innermost < 1)
      return fail(fmt::format("{} factors are decided instead of {}", factors.size(), n));
    TCC_TRY_VOID(require_outputs(factors.size()));
    return emit(Op::kSamplePerfectTile, {loop}, {n, innermost}, {}, factors);
  }
  // The outer and the inner factors are a partition of their own: the decision says it, and holds the list as above.
  Result<void> sample_partitioned_tile() {
    TCC_TRY(Input loop, variable_at(0, "a loop"));
    TCC_TRY(int64_t n, integer_attr(0));
    TCC_TRY(const Json* chosen, decision());
    TCC_TRY(std::vector<int64_t> factors, integers(*chosen, "the decision"));
    if (n < 1 || factors.size() != static_cast<size_t>(n))
      return fail(fmt::format("{} factors are decided instead of {}", factors.size(), n));
    TCC_TRY_VOID(require_outputs(factors.size()));
    note("other decisions need not keep the partition");
    return emit(Op::kSamplePerfectTile, {loop}, {n, std::max(kFreshInnermost, factors.back())}, {}, factors);
  }
  Result<void> sample_categorical() {
    if (attrs_->size() != 2 || !(*attrs_)[1].is_array()) return fail("candidates and probabilities are expected");
    TCC_TRY(std::vector<int64_t> attrs, integers((*attrs_)[0], "the list of candidates"));
    if (attrs.empty() || (*attrs_)[1].size() != attrs.size())
      return fail("there are not as many probabilities as candidates");
    for (const Json& p : (*attrs_)[1]) {
      if (!p.is_number() || !(p.get<double>() >= 0) || p.get<double>() > 1) return fail("a probability is from 0 to 1");
      attrs.push_back(static_cast<int64_t>(p.get<double>() * 1e6 + 0.5));
    }
    TCC_TRY(const Json* chosen, decision());
    if (!chosen->is_number_integer()) return fail("the decision is to be the index of a candidate");
    TCC_TRY_VOID(require_outputs(1));
    return emit(Op::kSampleCategorical, {}, std::move(attrs), {}, {chosen->get<int64_t>()});
  }
  Result<void> sample_compute_location() {
    TCC_TRY(Input block, variable_at(0, "a block"));
    TCC_TRY(const Json* chosen, decision());
    if (!chosen->is_number_integer()) return fail("the decision is to be a place");
    TCC_TRY_VOID(require_outputs(1));
    return emit(Op::kSampleComputeLocation, {block}, {}, {}, {chosen->get<int64_t>()});
  }

  // New loops belong to the block of the old one: rfactor needs to know it.
  void inherit(const Json& from) {
    if (!from.is_string()) return;
    auto it = block_of_.find(from.get<std::string>());
    if (it == block_of_.end()) return;
    Input block = it->second;
    for (const Json& v : *outputs_)
      if (v.is_string()) block_of_.insert_or_assign(v.get<std::string>(), block);
  }
  Result<void> split() {
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
  Result<void> fuse() {
    TCC_TRY(std::vector<Input> loops, all_inputs("a loop"));
    TCC_TRY_VOID(require_outputs(1));
    if (!inputs_->empty()) inherit((*inputs_)[0]);
    if (loops.size() == 1) return name_again((*outputs_)[0], static_cast<int>(loops[0].value));
    return emit(Op::kFuse, std::move(loops));
  }
  Result<void> plain(Op op, size_t inputs, size_t outputs) {
    if (inputs_->size() != inputs) return fail(fmt::format("has {} inputs instead of {}", inputs_->size(), inputs));
    TCC_TRY(std::vector<Input> all, all_inputs("a block or loop"));
    TCC_TRY_VOID(require_outputs(outputs));
    return emit(op, std::move(all));
  }
  Result<void> reorder() { return plain(Op::kReorder, inputs_->size(), 0); }
  Result<void> parallel() { return plain(Op::kParallel, 1, 0); }
  Result<void> vectorize() { return plain(Op::kVectorize, 1, 0); }
  Result<void> unroll() { return plain(Op::kUnroll, 1, 0); }
  Result<void> bind() {
    TCC_TRY(Input loop, variable_at(0, "a loop"));
    TCC_TRY(std::string axis, text_attr(0));
    std::optional<int64_t> ours = axis_from(axis);
    if (!ours) return fail(fmt::format("unknown axis '{}'", sanitize(axis, 40)));
    TCC_TRY_VOID(require_outputs(0));
    return emit(Op::kBind, {loop}, {*ours});
  }
  Result<void> compute_inline() { return plain(Op::kComputeInline, 1, 0); }
  Result<void> reverse_compute_inline() { return plain(Op::kReverseComputeInline, 1, 0); }
  Result<void> compute_at() { return move(Op::kComputeAt); }
  Result<void> reverse_compute_at() { return move(Op::kReverseComputeAt); }
  Result<void> move(Op op) {
    if (attrs_->size() > 1 && (*attrs_)[1] != -1) note("the position among the statements of the loop is chosen anew");
    return plain(op, 2, 0);
  }
  // [block], or [block, consumers]: none is named, or just the block itself.
  Result<Input> cached_block() {
    TCC_TRY(Input block, variable_at(0, "a block"));
    if (inputs_->size() < 2) return block;
    const Json& consumers = (*inputs_)[1];
    if (!consumers.is_array()) return fail("input 1 is to be a list of blocks");
    for (const Json& consumer : consumers)
      if (consumer != (*inputs_)[0])
        return fail(fmt::format("the consumer '{}' is named: only the block itself can be the one that uses the copy",
                                sanitize(consumer.is_string() ? consumer.get<std::string>() : consumer.dump(), 40)));
    return block;
  }
  Result<void> cache_read() {
    TCC_TRY(Input block, cached_block());
    if (inputs_->size() > 1 && (*inputs_)[1].empty()) note("readers other than the block go on reading the original");
    TCC_TRY(int64_t index, integer_attr(0));
    TCC_TRY(int64_t scope, scope_attr(1));
    TCC_TRY_VOID(require_outputs(1));
    return emit(Op::kCacheRead, {block}, {index, scope});
  }
  Result<int64_t> only_result(size_t attr) {
    TCC_TRY(int64_t index, integer_attr(attr));
    if (index != 0) return fail(fmt::format("result {} of a block: blocks have one", index));
    return index;
  }
  Result<void> cache_write() {
    TCC_TRY(Input block, cached_block());
    TCC_TRY([[maybe_unused]] int64_t index, only_result(0));
    TCC_TRY(int64_t scope, scope_attr(1));
    TCC_TRY_VOID(require_outputs(1));
    return emit(Op::kCacheWrite, {block}, {scope});
  }
  Result<void> read_at() {
    TCC_TRY(Input loop, variable_at(0, "a loop"));
    TCC_TRY(Input block, variable_at(1, "a block"));
    TCC_TRY(int64_t index, integer_attr(0));
    TCC_TRY(int64_t scope, scope_attr(1));
    TCC_TRY_VOID(require_outputs(1));
    return emit(Op::kReadAt, {block, loop}, {index, scope});
  }
  Result<void> write_at() {
    TCC_TRY(Input loop, variable_at(0, "a loop"));
    TCC_TRY(Input block, variable_at(1, "a block"));
    TCC_TRY([[maybe_unused]] int64_t index, only_result(0));
    TCC_TRY(int64_t scope, scope_attr(1));
    TCC_TRY_VOID(require_outputs(1));
    return emit(Op::kWriteAt, {block, loop}, {scope});
  }
  Result<void> reindex() {
    TCC_TRY(Input block, variable_at(0, "a block"));
    TCC_TRY(int64_t index, integer_attr(0));
    TCC_TRY(int64_t kind, integer_attr(1));
    if (kind != kRead && index != 0) return fail(fmt::format("result {} of a block: blocks have one", index));
    TCC_TRY_VOID(require_outputs(1));
    return emit(Op::kReindex, {block}, {kind == kRead ? index : -1});
  }
  Result<void> decompose_reduction() { return plain(Op::kDecomposeReduction, 2, 1); }
  Result<void> decompose_padding() { return plain(Op::kDecomposePadding, 2, 1); }
  Result<void> rfactor() {
    TCC_TRY(Input loop, variable_at(0, "a loop"));
    auto it = block_of_.find((*inputs_)[0].get<std::string>());
    if (it == block_of_.end()) return fail("it is not known which block the loop belongs to");
    TCC_TRY_VOID(require_outputs(1));
    note("the new dimension of the partial results is the last one");
    return emit(Op::kRfactor, {it->second, loop});
  }
  Result<void> annotate() {
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
  Result<void> unannotate() {
    TCC_TRY(std::string key, text_attr(0));
    if (std::optional<int64_t> ours = annotation_from(key)) {
      TCC_TRY(Input where, variable_at(0, "a block or loop"));
      TCC_TRY_VOID(require_outputs(0));
      return emit(Op::kUnannotate, {where}, {*ours});
    }
    if (!is_hint(key)) return fail(fmt::format("no annotation here is like '{}'", sanitize(key, 60)));
    return {};
  }
  Result<void> set_scope() {
    TCC_TRY(Input block, variable_at(0, "a block"));
    TCC_TRY([[maybe_unused]] int64_t index, only_result(0));
    TCC_TRY(int64_t scope, scope_attr(1));
    TCC_TRY_VOID(require_outputs(0));
    return emit(Op::kSetScope, {block}, {scope});
  }
  Result<void> storage_align() {
    TCC_TRY(Input block, variable_at(0, "a block"));
    TCC_TRY([[maybe_unused]] int64_t index, only_result(0));
    std::vector<int64_t> attrs;
    for (size_t i = 1; i < 4; ++i) {
      TCC_TRY(int64_t a, integer_attr(i));
      attrs.push_back(a);
    }
    TCC_TRY_VOID(require_outputs(0));
    return emit(Op::kStorageAlign, {block}, std::move(attrs));
  }
  Result<void> add_unit_loop() { return plain(Op::kAddUnitLoop, 1, 1); }
  Result<void> blockize() { return plain(Op::kBlockize, 1, 1); }
  Result<void> tensorize() {
    TCC_TRY(Input where, variable_at(0, "a block or loop"));
    TCC_TRY(std::string name, text_attr(0));
    if (name.find('"') != std::string::npos || name.find('\n') != std::string::npos)
      return fail("the instruction's name has a quotation mark or an end of line");
    TCC_TRY_VOID(require_outputs(0));
    return emit(Op::kTensorize, {where}, {}, name);
  }
  Result<void> pad_einsum() {
    TCC_TRY(Input block, variable_at(0, "a block"));
    if (attrs_->size() != 1) return fail("a list of multiples is expected");
    TCC_TRY(std::vector<int64_t> multiples, integers((*attrs_)[0], "the list of multiples"));
    TCC_TRY_VOID(require_outputs(0));
    return emit(Op::kPadEinsum, {block}, std::move(multiples));
  }

  static constexpr size_t kKinds = 38;
  static const std::array<Kind, kKinds>& kinds();

  std::string file_;
  ImportedTrace out_;
  std::map<size_t, const Json*> decisions_;
  std::map<std::string, int> variables_;
  std::map<std::string, Input> block_of_;  // of loop variables
  std::set<std::string> roots_;            // the variables that hold the root block
  size_t number_ = 0;
  std::string name_;
  const Json *inputs_ = nullptr, *attrs_ = nullptr, *outputs_ = nullptr;
};

const std::array<Importer::Kind, Importer::kKinds>& Importer::kinds() {
  static constexpr std::array<Kind, kKinds> kAll = {{
      {"GetBlock", &Importer::get_block},
      {"GetSBlock", &Importer::get_block},  // the later name
      {"GetLoops", &Importer::get_loops},
      {"GetProducers", &Importer::get_producers},
      {"GetConsumers", &Importer::get_consumers},
      {"GetChildBlocks", &Importer::get_child_blocks},
      {"GetOutputBlocks", &Importer::get_output_blocks},
      {"SamplePerfectTile", &Importer::sample_perfect_tile},
      {"SamplePartitionedTile", &Importer::sample_partitioned_tile},
      {"SampleCategorical", &Importer::sample_categorical},
      {"SampleComputeLocation", &Importer::sample_compute_location},
      {"Split", &Importer::split},
      {"Fuse", &Importer::fuse},
      {"Reorder", &Importer::reorder},
      {"Parallel", &Importer::parallel},
      {"Vectorize", &Importer::vectorize},
      {"Unroll", &Importer::unroll},
      {"Bind", &Importer::bind},
      {"ComputeInline", &Importer::compute_inline},
      {"ReverseComputeInline", &Importer::reverse_compute_inline},
      {"ComputeAt", &Importer::compute_at},
      {"ReverseComputeAt", &Importer::reverse_compute_at},
      {"CacheRead", &Importer::cache_read},
      {"CacheWrite", &Importer::cache_write},
      {"ReadAt", &Importer::read_at},
      {"WriteAt", &Importer::write_at},
      {"ReIndex", &Importer::reindex},
      {"DecomposeReduction", &Importer::decompose_reduction},
      {"DecomposePadding", &Importer::decompose_padding},
      {"RFactor", &Importer::rfactor},
      {"Annotate", &Importer::annotate},
      {"Unannotate", &Importer::unannotate},
      {"SetScope", &Importer::set_scope},
      {"StorageAlign", &Importer::storage_align},
      {"AddUnitLoop", &Importer::add_unit_loop},
      {"Blockize", &Importer::blockize},
      {"Tensorize", &Importer::tensorize},
      {"PadEinsum", &Importer::pad_einsum},
  }};
  return kAll;
}

Result<void> Importer::instruction() {
  for (const Kind& kind : kinds())
    if (kind.name == name_) return (this->*kind.import)();
  std::vector<std::string> known;
  for (const Kind& kind : kinds()) known.emplace_back(kind.name);
  return fail("no primitive here does this", suggest(name_, known));
}

}  // namespace

bool looks_like_metaschedule(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '[';
}

Result<ImportedTrace> trace_from_metaschedule(std::string_view text, std::string_view file) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return input_error("{}: not a MetaSchedule trace: no JSON", file);
  return Importer(file).run(json);
}

}  // namespace tcc::schedule
