// Blocks, copies, scopes and layouts.
#include "schedule/metaschedule/importer.h"
#include "tcc/support/text.h"

namespace tcc::schedule {
namespace {

constexpr int64_t kRead = 0;

}  // namespace

Result<void> MetaImporter::move(Op op) {
  if (attrs_->size() > 1 && (*attrs_)[1] != -1) note("the position among the statements of the loop is chosen anew");
  return plain(op, 2, 0);
}

Result<Input> MetaImporter::cached_block() {
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

Result<int64_t> MetaImporter::only_result(size_t attr) {
  TCC_TRY(int64_t index, integer_attr(attr));
  if (index != 0) return fail(fmt::format("result {} of a block: blocks have one", index));
  return index;
}

// The number of a read. TVM counts an update's own result as its read 0; here a block's own result is not a read.
Result<int64_t> MetaImporter::read_number(size_t attr, const Input& block) {
  TCC_TRY(int64_t index, integer_attr(attr));
  auto name = names_.find(block.value);
  if (name == names_.end() || !decomposed_.contains(name->second)) return index;
  if (index == 0) return fail("read 0 is the block's own result", "name the read by the number that TVM gives it");
  return index - 1;
}
Result<void> MetaImporter::cache_read() {
  TCC_TRY(Input block, cached_block());
  if (outputs_->size() == 1 && (*outputs_)[0].is_string() && made_ahead_.contains((*outputs_)[0])) {
    note("the weight itself takes the layout of its copy, ahead");
    return {};
  }
  if (inputs_->size() > 1 && (*inputs_)[1].empty()) note("readers other than the block go on reading the original");
  TCC_TRY(int64_t index, read_number(0, block));
  TCC_TRY(int64_t scope, scope_attr(1));
  TCC_TRY_VOID(require_outputs(1));
  return emit(Op::kCacheRead, {block}, {index, scope});
}

Result<void> MetaImporter::cache_write() {
  TCC_TRY(Input block, cached_block());
  TCC_TRY([[maybe_unused]] int64_t index, only_result(0));
  TCC_TRY(int64_t scope, scope_attr(1));
  TCC_TRY_VOID(require_outputs(1));
  return emit(Op::kCacheWrite, {block}, {scope});
}

Result<void> MetaImporter::read_at() {
  TCC_TRY(Input loop, variable_at(0, "a loop"));
  TCC_TRY(Input block, variable_at(1, "a block"));
  TCC_TRY(int64_t index, read_number(0, block));
  TCC_TRY(int64_t scope, scope_attr(1));
  TCC_TRY_VOID(require_outputs(1));
  return emit(Op::kReadAt, {block, loop}, {index, scope});
}

Result<void> MetaImporter::write_at() {
  TCC_TRY(Input loop, variable_at(0, "a loop"));
  TCC_TRY(Input block, variable_at(1, "a block"));
  TCC_TRY([[maybe_unused]] int64_t index, only_result(0));
  TCC_TRY(int64_t scope, scope_attr(1));
  TCC_TRY_VOID(require_outputs(1));
  return emit(Op::kWriteAt, {block, loop}, {scope});
}

// [number, kind]: of a read, or -1 for the result.
Result<int64_t> MetaImporter::buffer_number(const Input& block) {
  TCC_TRY(int64_t kind, integer_attr(1));
  if (kind == kRead) return read_number(0, block);
  TCC_TRY_VOID(only_result(0));
  return -1;
}
Result<void> MetaImporter::reindex() {
  TCC_TRY(Input block, variable_at(0, "a block"));
  TCC_TRY(int64_t index, buffer_number(block));
  TCC_TRY_VOID(require_outputs(1));
  return emit(Op::kReindex, {block}, {index});
}

// Both parts have names of their own afterwards, by which postprocessors ask for them.
Result<void> MetaImporter::decompose_reduction() {
  TCC_TRY(Input block, variable_at(0, "a block"));
  const int64_t init = out_.trace.variables;
  TCC_TRY_VOID(plain(Op::kDecomposeReduction, 2, 1));
  if (auto name = names_.find(block.value); name != names_.end()) {
    made_[name->second + "_init"] = init;
    made_[name->second + "_update"] = block.value;
    decomposed_.insert(name->second);
  }
  return {};
}
Result<void> MetaImporter::rfactor() {
  TCC_TRY(Input loop, variable_at(0, "a loop"));
  auto it = block_of_.find((*inputs_)[0].get<std::string>());
  if (it == block_of_.end()) return fail("it is not known which block the loop belongs to");
  TCC_TRY_VOID(require_outputs(1));
  note("the new dimension of the partial results is the last one");
  if (auto name = names_.find(it->second.value); name != names_.end()) {
    const std::string made = name->second + "_rf";
    made_[made] = out_.trace.variables;
    names_[out_.trace.variables] = made;
  }
  return emit(Op::kRfactor, {it->second, loop});
}

Result<void> MetaImporter::set_scope() {
  TCC_TRY(Input block, variable_at(0, "a block"));
  TCC_TRY([[maybe_unused]] int64_t index, only_result(0));
  TCC_TRY(int64_t scope, scope_attr(1));
  TCC_TRY_VOID(require_outputs(0));
  return emit(Op::kSetScope, {block}, {scope});
}

Result<void> MetaImporter::storage_align() {
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

Result<void> MetaImporter::tensorize() {
  TCC_TRY(Input where, variable_at(0, "a block or loop"));
  TCC_TRY(std::string name, text_attr(0));
  if (name.find('"') != std::string::npos || name.find('\n') != std::string::npos)
    return fail("the instruction's name has a quotation mark or an end of line");
  TCC_TRY_VOID(require_outputs(0));
  return emit(Op::kTensorize, {where}, {}, name);
}

Result<void> MetaImporter::pad_einsum() {
  TCC_TRY(Input block, variable_at(0, "a block"));
  if (attrs_->size() != 1) return fail("a list of multiples is expected");
  TCC_TRY(std::vector<int64_t> multiples, integers((*attrs_)[0], "the list of multiples"));
  TCC_TRY_VOID(require_outputs(0));
  return emit(Op::kPadEinsum, {block}, std::move(multiples));
}

// The last of the inputs is the map, a text of JSON.
Result<IndexMap> MetaImporter::index_map(const Json& text) {
  if (!text.is_string()) return fail("an index map is a text of JSON");
  Result<IndexMap> map = parse_index_map(text.get<std::string>());
  if (!map)
    return fail(map.error().message, "maps of sums, products, floor quotients and remainders by constants are read");
  return map;
}
Result<void> MetaImporter::transform_layout() {
  TCC_TRY(Input block, variable_at(0, "a block"));
  if (inputs_->size() != 2) return fail("a block and an index map are expected");
  TCC_TRY(IndexMap map, index_map((*inputs_)[1]));
  TCC_TRY(int64_t buffer, buffer_number(block));
  if (attrs_->size() > 2 && !(*attrs_)[2].is_null())
    return fail("the elements that the layout adds have a value", "pad the block with PadEinsum instead");
  TCC_TRY_VOID(require_outputs(0));
  Result<BlockedOrder> layout = blocked_order(map);
  if (!layout) return fail(layout.error().message);
  std::vector<int64_t> attrs = {buffer, static_cast<int64_t>(layout->order.size())};
  attrs.insert(attrs.end(), layout->order.begin(), layout->order.end());
  for (const auto& [dimension, tile] : layout->tiles) attrs.insert(attrs.end(), {dimension, tile});
  out_.ranks[out_.trace.instructions.size()] = map.inputs;
  return emit(Op::kTransformLayout, {block}, std::move(attrs));
}
// The map is an input, or an attribute, as TVM 0.27 writes it.
Result<void> MetaImporter::transform_block_layout() {
  TCC_TRY(Input block, variable_at(0, "a block"));
  if (inputs_->size() + attrs_->size() != 2) return fail("a block and an index map are expected");
  TCC_TRY(IndexMap map, index_map(attrs_->empty() ? (*inputs_)[1] : (*attrs_)[0]));
  TCC_TRY_VOID(require_outputs(0));
  std::vector<int64_t> attrs;
  for (const std::vector<IterDigit>& digits : map.outputs) {
    attrs.push_back(static_cast<int64_t>(digits.size()));
    for (const IterDigit& d : digits) attrs.insert(attrs.end(), {d.iter, d.divisor, d.extent});
  }
  out_.ranks[out_.trace.instructions.size()] = map.inputs;
  return emit(Op::kTransformBlockLayout, {block}, std::move(attrs));
}

}  // namespace tcc::schedule
