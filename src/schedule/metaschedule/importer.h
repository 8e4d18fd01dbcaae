// A MetaSchedule trace on its way to one of ours: the state, and one function for each kind of instruction.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "schedule/metaschedule/index_map.h"
#include "tcc/schedule/metaschedule.h"

namespace tcc::schedule {

class MetaImporter {
 public:
  using Json = nlohmann::json;

  explicit MetaImporter(std::string_view file) : file_(file) {}
  Result<ImportedTrace> run(const Json& json);

 private:
  struct Kind {
    std::string_view name;
    Result<void> (MetaImporter::*import)();
  };
  static std::span<const Kind> kinds();

  // --- the file as a whole (importer.cpp) ----------------------------------------------------------------------------
  Result<void> check(const Json& json);
  Result<void> read_decisions(const Json& list, size_t instructions);
  void find_copies_made_ahead(const Json& rows);
  Result<void> instructions(const Json& rows, size_t begin, size_t end);
  Result<void> instruction();

  // --- parts of an instruction (importer.cpp) ------------------------------------------------------------------------
  tl::unexpected<Error> fail(const std::string& why, const std::string& hint = {}) const;
  void note(const std::string& what);
  Result<Input> variable_at(size_t i, const char* what);
  Result<Input> value_at(size_t i);  // a variable, a number, null or "None"
  Result<std::vector<Input>> all_inputs(const char* what);
  Result<int64_t> integer_attr(size_t i);
  Result<std::string> text_attr(size_t i);
  Result<int64_t> scope_attr(size_t i);
  Result<std::vector<int64_t>> integers(const Json& list, const char* what);
  Result<const Json*> decision();
  Result<void> require_outputs(size_t n);
  Result<void> emit(Op op, std::vector<Input> inputs, std::vector<int64_t> attrs = {}, std::string text = {},
                    std::vector<int64_t> decision = {});
  Result<void> plain(Op op, size_t inputs, size_t outputs);
  // Another name of a variable.
  Result<void> name_again(const Json& name, int variable);

  // --- queries, sampling and loops (import_loops.cpp) ----------------------------------------------------------------
  Result<void> get_block();
  Result<void> query(Op op);
  Result<void> get_loops() { return query(Op::kGetLoops); }
  Result<void> get_producers() { return query(Op::kGetProducers); }
  Result<void> get_consumers() { return query(Op::kGetConsumers); }
  Result<void> get_child_blocks();
  Result<void> get_output_blocks() { return emit(Op::kGetOutputBlocks, {}); }
  Result<void> sample_perfect_tile();
  Result<void> sample_partitioned_tile();
  Result<void> sample_categorical();
  Result<void> sample_compute_location();
  void tiles_whole(const Input& loop, const std::vector<int64_t>& factors);
  void inherit(const Json& from);
  Result<void> split();
  Result<void> fuse();
  Result<void> reorder() { return plain(Op::kReorder, inputs_->size(), 0); }
  Result<void> parallel() { return plain(Op::kParallel, 1, 0); }
  Result<void> vectorize() { return plain(Op::kVectorize, 1, 0); }
  Result<void> unroll() { return plain(Op::kUnroll, 1, 0); }
  Result<void> bind();
  Result<void> add_unit_loop() { return plain(Op::kAddUnitLoop, 1, 1); }
  Result<void> annotate();
  Result<void> unannotate();

  // --- blocks and buffers (import_blocks.cpp) ------------------------------------------------------------------------
  Result<void> compute_inline() { return plain(Op::kComputeInline, 1, 0); }
  Result<void> reverse_compute_inline() { return plain(Op::kReverseComputeInline, 1, 0); }
  Result<void> compute_at() { return move(Op::kComputeAt); }
  Result<void> reverse_compute_at() { return move(Op::kReverseComputeAt); }
  Result<void> move(Op op);
  Result<Input> cached_block();
  Result<int64_t> only_result(size_t attr);
  Result<int64_t> read_number(size_t attr, const Input& block);
  Result<int64_t> buffer_number(const Input& block);
  Result<void> cache_read();
  Result<void> cache_write();
  Result<void> read_at();
  Result<void> write_at();
  Result<void> reindex();
  Result<void> decompose_reduction();
  Result<void> decompose_padding() { return plain(Op::kDecomposePadding, 2, 1); }
  Result<void> rfactor();
  Result<void> set_scope();
  Result<void> storage_align();
  Result<void> blockize() { return plain(Op::kBlockize, 1, 1); }
  Result<void> tensorize();
  Result<void> pad_einsum();
  Result<IndexMap> index_map(const Json& text);
  Result<void> transform_layout();
  Result<void> transform_block_layout();

  std::string file_;
  ImportedTrace out_;
  std::map<size_t, const Json*> decisions_;
  std::map<std::string, int> variables_;
  std::map<std::string, Input> block_of_;  // of loop variables
  std::set<std::string> roots_;            // the variables that hold the root block
  std::map<int64_t, std::string> names_;   // of the blocks that variables of ours hold
  std::map<std::string, int64_t> made_;    // variables of ours by the names that TVM gives to the blocks it makes
  std::set<std::string> decomposed_;       // names of blocks whose initialization is split off
  std::set<std::string> made_ahead_;       // variables that hold copies of weights in a layout of their own
  size_t number_ = 0;
  std::string name_;
  const Json *inputs_ = nullptr, *attrs_ = nullptr, *outputs_ = nullptr;
};

}  // namespace tcc::schedule
