// Import of MetaSchedule's traces.
//
//   [[[name, inputs, attributes, outputs], ...], [[instruction, decision], ...]]
//
// Inputs are names of random variables (b# blocks, l# loops, v# integers), numbers, null or "None" ("inferred"), quoted
// strings, or lists of these. Each instruction becomes one of ours. Hints to TVM's postprocessors on the root block,
// and flags about unit loops, have no counterpart and do not change what is computed: they are left out and noted.
// Anything else that cannot be said is an error, so that an imported schedule is the one that was written. What
// comes after EnterPostproc was written by TVM's postprocessors, which may be left out by MetaSchedule's own rules of
// replay (section 4): it is read as well, and left out as a whole, with a note that says why, where one of it cannot be
// said.
#include "schedule/metaschedule/importer.h"

#include <array>

#include "tcc/support/text.h"

namespace tcc::schedule {
namespace {

constexpr size_t kMaxInstructions = 4096;

std::optional<int64_t> scope_from(const std::string& name) {
  if (name == "global") return static_cast<int64_t>(ir::Scope::kGlobal);
  if (name == "shared" || name == "shared.dyn") return static_cast<int64_t>(ir::Scope::kShared);
  if (name == "local") return static_cast<int64_t>(ir::Scope::kLocal);
  return std::nullopt;
}

}  // namespace

Result<ImportedTrace> MetaImporter::run(const Json& json) {
  TCC_TRY_VOID(check(json));
  find_copies_made_ahead(json[0]);
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

Result<void> MetaImporter::check(const Json& json) {
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

Result<void> MetaImporter::read_decisions(const Json& list, size_t instructions) {
  for (const Json& d : list) {
    if (!d.is_array() || d.size() != 2 || !d[0].is_number_integer() || d[0].get<int64_t>() < 0 ||
        static_cast<size_t>(d[0].get<int64_t>()) >= instructions)
      return input_error("{}: a decision is [number of an instruction, value]", file_);
    decisions_[static_cast<size_t>(d[0].get<int64_t>())] = &d[1];
  }
  return {};
}

// TVM copies a weight, marks the copy and gives it a layout: when it builds the whole program it makes such copies
// ahead. Here the weight itself takes the layout.
void MetaImporter::find_copies_made_ahead(const Json& rows) {
  for (const Json& row : rows)
    if (row[0] == "Annotate" && row[1].size() == 2 && row[1][0].is_string() && row[2].size() == 1 &&
        row[2][0] == "meta_schedule.layout_rewrite_preproc")
      made_ahead_.insert(row[1][0].get<std::string>());
}

Result<void> MetaImporter::instructions(const Json& rows, size_t begin, size_t end) {
  for (number_ = begin; number_ < end; ++number_) {
    name_ = rows[number_][0].get<std::string>();
    inputs_ = &rows[number_][1];
    attrs_ = &rows[number_][2];
    outputs_ = &rows[number_][3];
    TCC_TRY_VOID(instruction());
  }
  return {};
}

tl::unexpected<Error> MetaImporter::fail(const std::string& why, const std::string& hint) const {
  return make_error(ErrorClass::kInput,
                    fmt::format("{}: instruction {} ({}): {}", file_, number_, sanitize(name_, 40), why), hint);
}

void MetaImporter::note(const std::string& what) {
  out_.notes.push_back(fmt::format("instruction {} ({}): {}", number_, name_, what));
}

Result<Input> MetaImporter::variable_at(size_t i, const char* what) {
  if (i >= inputs_->size() || !(*inputs_)[i].is_string()) return fail(fmt::format("input {} is to be {}", i, what));
  std::string v = (*inputs_)[i].get<std::string>();
  if (roots_.contains(v)) return fail("the root block has no counterpart here", "name the block that is meant");
  if (made_ahead_.contains(v))
    return fail(
        fmt::format("'{}', a copy of a weight in a layout of its own, is not a block of the kernel", sanitize(v, 40)));
  auto it = variables_.find(v);
  if (it == variables_.end()) return fail(fmt::format("'{}' is not defined before it", sanitize(v, 40)));
  return variable(it->second);
}

Result<Input> MetaImporter::value_at(size_t i) {
  if (i >= inputs_->size()) return fail(fmt::format("input {} is missing", i));
  const Json& v = (*inputs_)[i];
  if (v.is_null() || v == "None") return kInferred;
  if (v.is_number_integer()) return literal(v.get<int64_t>());
  return variable_at(i, "a variable, a number or null");
}

Result<std::vector<Input>> MetaImporter::all_inputs(const char* what) {
  std::vector<Input> out;
  for (size_t i = 0; i < inputs_->size(); ++i) {
    TCC_TRY(Input in, variable_at(i, what));
    out.push_back(in);
  }
  return out;
}

Result<int64_t> MetaImporter::integer_attr(size_t i) {
  if (i >= attrs_->size() || !(*attrs_)[i].is_number_integer())
    return fail(fmt::format("attribute {} is to be an integer", i));
  return (*attrs_)[i].get<int64_t>();
}

Result<std::string> MetaImporter::text_attr(size_t i) {
  if (i >= attrs_->size() || !(*attrs_)[i].is_string()) return fail(fmt::format("attribute {} is to be a text", i));
  return (*attrs_)[i].get<std::string>();
}

Result<int64_t> MetaImporter::scope_attr(size_t i) {
  TCC_TRY(std::string name, text_attr(i));
  std::optional<int64_t> scope = scope_from(name);
  if (!scope)
    return fail(fmt::format("no scope here is like '{}'", sanitize(name, 40)), "known: global, shared, local");
  return *scope;
}

Result<std::vector<int64_t>> MetaImporter::integers(const Json& list, const char* what) {
  std::vector<int64_t> out;
  if (!list.is_array()) return fail(fmt::format("{} is to be a list of integers", what));
  for (const Json& v : list) {
    if (!v.is_number_integer()) return fail(fmt::format("{} is to be a list of integers", what));
    out.push_back(v.get<int64_t>());
  }
  return out;
}

Result<const MetaImporter::Json*> MetaImporter::decision() {
  auto it = decisions_.find(number_);
  if (it == decisions_.end()) return fail("has no decision", "export the trace with its decisions");
  return it->second;
}

Result<void> MetaImporter::require_outputs(size_t n) {
  if (outputs_->size() != n) return fail(fmt::format("has {} outputs instead of {}", outputs_->size(), n));
  return {};
}

Result<void> MetaImporter::emit(Op op, std::vector<Input> inputs, std::vector<int64_t> attrs, std::string text,
                                std::vector<int64_t> decision) {
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

Result<void> MetaImporter::plain(Op op, size_t inputs, size_t outputs) {
  if (inputs_->size() != inputs) return fail(fmt::format("has {} inputs instead of {}", inputs_->size(), inputs));
  TCC_TRY(std::vector<Input> all, all_inputs("a block or loop"));
  TCC_TRY_VOID(require_outputs(outputs));
  return emit(op, std::move(all));
}

Result<void> MetaImporter::name_again(const Json& name, int variable) {
  if (!name.is_string()) return fail("an output is the name of a variable");
  if (!variables_.emplace(name.get<std::string>(), variable).second)
    return fail(fmt::format("'{}' is defined a second time", sanitize(name.get<std::string>(), 40)));
  return {};
}

std::span<const MetaImporter::Kind> MetaImporter::kinds() {
  static constexpr std::array kAll = {
      Kind{"GetBlock", &MetaImporter::get_block},
      Kind{"GetSBlock", &MetaImporter::get_block},  // the later name
      Kind{"GetLoops", &MetaImporter::get_loops},
      Kind{"GetProducers", &MetaImporter::get_producers},
      Kind{"GetConsumers", &MetaImporter::get_consumers},
      Kind{"GetChildBlocks", &MetaImporter::get_child_blocks},
      Kind{"GetOutputBlocks", &MetaImporter::get_output_blocks},
      Kind{"SamplePerfectTile", &MetaImporter::sample_perfect_tile},
      Kind{"SamplePartitionedTile", &MetaImporter::sample_partitioned_tile},
      Kind{"SampleCategorical", &MetaImporter::sample_categorical},
      Kind{"SampleComputeLocation", &MetaImporter::sample_compute_location},
      Kind{"Split", &MetaImporter::split},
      Kind{"Fuse", &MetaImporter::fuse},
      Kind{"Reorder", &MetaImporter::reorder},
      Kind{"Parallel", &MetaImporter::parallel},
      Kind{"Vectorize", &MetaImporter::vectorize},
      Kind{"Unroll", &MetaImporter::unroll},
      Kind{"Bind", &MetaImporter::bind},
      Kind{"ComputeInline", &MetaImporter::compute_inline},
      Kind{"ReverseComputeInline", &MetaImporter::reverse_compute_inline},
      Kind{"ComputeAt", &MetaImporter::compute_at},
      Kind{"ReverseComputeAt", &MetaImporter::reverse_compute_at},
      Kind{"CacheRead", &MetaImporter::cache_read},
      Kind{"CacheWrite", &MetaImporter::cache_write},
      Kind{"ReadAt", &MetaImporter::read_at},
      Kind{"WriteAt", &MetaImporter::write_at},
      Kind{"ReIndex", &MetaImporter::reindex},
      Kind{"DecomposeReduction", &MetaImporter::decompose_reduction},
      Kind{"DecomposePadding", &MetaImporter::decompose_padding},
      Kind{"RFactor", &MetaImporter::rfactor},
      Kind{"Annotate", &MetaImporter::annotate},
      Kind{"Unannotate", &MetaImporter::unannotate},
      Kind{"SetScope", &MetaImporter::set_scope},
      Kind{"StorageAlign", &MetaImporter::storage_align},
      Kind{"AddUnitLoop", &MetaImporter::add_unit_loop},
      Kind{"Blockize", &MetaImporter::blockize},
      Kind{"Tensorize", &MetaImporter::tensorize},
      Kind{"PadEinsum", &MetaImporter::pad_einsum},
      Kind{"TransformLayout", &MetaImporter::transform_layout},
      Kind{"TransformBlockLayout", &MetaImporter::transform_block_layout},
  };
  return kAll;
}

Result<void> MetaImporter::instruction() {
  for (const Kind& kind : kinds())
    if (kind.name == name_) return (this->*kind.import)();
  std::vector<std::string> known;
  for (const Kind& kind : kinds()) known.emplace_back(kind.name);
  return fail("no primitive here does this", suggest(name_, known));
}

bool looks_like_metaschedule(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '[';
}

Result<ImportedTrace> trace_from_metaschedule(std::string_view text, std::string_view file) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return input_error("{}: not a MetaSchedule trace: no JSON", file);
  return MetaImporter(file).run(json);
}

}  // namespace tcc::schedule
