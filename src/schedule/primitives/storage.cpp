// set_scope and storage_align: where an intermediate result lives, and how its rows are spaced.
#include "common.h"
#include "tcc/ir/instr.h"

namespace tcc::schedule {
namespace {

// The temporary that a block writes.
Legal<const Buffer*> own_temporary(const Kernel& k, Id block_id) {
  if (find_block(k.root, block_id) == nullptr) return unknown(k, "block", block_id);
  std::vector<Id> written;
  for (const Buffer* b : k.buffers)
    if (writes_buffer(find_block(k.root, block_id)->body, b->id)) written.push_back(b->id);
  const Buffer* buffer = written.size() == 1 ? k.buffer(written[0]) : nullptr;
  if (buffer == nullptr)
    return reject(RejectReason::kManyWriters, describe(k, block_id) + " does not write exactly one buffer");
  if (buffer->role != BufferRole::kTemp)
    return reject(RejectReason::kIsOutput,
                  describe(k, buffer->id) + " is a parameter of the kernel, not an intermediate result");
  return buffer;
}

bool scope_fits(Scope have, Scope want) {
  if (have == want) return true;
  if (want == Scope::kGlobal) return have == Scope::kWorkspace || have == Scope::kConst;
  return want == Scope::kShared && have == Scope::kClusterShared;
}

}  // namespace

Legal<Kernel> set_scope(const Kernel& k, Id block_id, Scope scope) {
  TCC_TRY(const Buffer* buffer, own_temporary(k, block_id));
  if (scope == Scope::kConst)
    return reject(RejectReason::kBadFactor,
                  fmt::format("{} cannot be written in scope {}", describe(k, buffer->id), scope_name(scope)));
  Legal<void> verdict = {};
  visit(k.root, [&](Stmt s) {
    const InstrCall* call = as<InstrCall>(s);
    if (call == nullptr) return verdict.has_value();
    const tcc::ir::Instruction& spec = instruction(call->instr);
    for (size_t i = 0; i < call->operands.size(); ++i)
      if (call->operands[i].buffer == buffer->id && !scope_fits(scope, spec.operands[i].scope))
        verdict = reject(RejectReason::kBadInstruction,
                         fmt::format("{} wants its operand {} in scope {}", spec.name, describe(k, buffer->id),
                                     scope_name(spec.operands[i].scope)));
    return verdict.has_value();
  });
  TCC_TRY_VOID(verdict);
  Editor edit(k);
  Buffer changed = *buffer;
  changed.scope = scope;
  edit.replace_buffer(changed);
  return edit.finish(k.root);
}

Legal<Kernel> storage_align(const Kernel& k, Id block_id, int64_t dim, int64_t factor, int64_t offset) {
  constexpr int64_t kLargest = 1 << 20;
  TCC_TRY(const Buffer* buffer, own_temporary(k, block_id));
  std::string name = describe(k, buffer->id);
  if (dim < 0 || static_cast<size_t>(dim) >= buffer->shape.size())
    return reject(RejectReason::kBadFactor,
                  fmt::format("{} has {} dimensions, there is no dimension {}", name, buffer->shape.size(), dim));
  if (factor < 1 || factor > kLargest || offset < 0 || offset > kLargest)
    return reject(RejectReason::kBadFactor,
                  fmt::format("stride {} * k + {}: the factor is 1 to 2^20, the offset 0 to 2^20", factor, offset));
  if (buffer->layout != nullptr)
    return reject(RejectReason::kBadFactor, name + " has a layout already, which says where its elements are");
  for (Expr e : buffer->shape) {
    const bool fixed = !mentions_any(e, [&](Id id) {
      const Scalar* s = k.scalar(id);
      return s == nullptr || s->role != ScalarRole::kDecision;
    });
    if (!fixed) return reject(RejectReason::kNotConstant, "the shape of " + name + " is known at run time only");
  }
  Editor edit(k);
  Buffer changed = *buffer;
  changed.padding = {static_cast<int32_t>(dim), static_cast<int32_t>(factor), static_cast<int32_t>(offset)};
  edit.replace_buffer(changed);
  return edit.finish(k.root);
}

}  // namespace tcc::schedule
