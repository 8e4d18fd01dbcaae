// What a task is, for tables. TenSet's embedding are flags for words in the text of a task's computation; here they are
// read off the plain kernel and the kind of its anchor.
#include <algorithm>

#include "features/workspace.h"
#include "tcc/ir/query.h"

namespace tcc::features {
namespace {

using namespace ir;

// Maxima and minima that pass NaN on are selections: x < y || isnan(y) ? y : x. 1: a maximum, -1: a minimum.
int extremum(const Select& s) {
  Expr condition = s.condition;
  if (condition->kind == ExprKind::kOr) condition = static_cast<const Binary*>(condition)->a;
  if (condition->kind != ExprKind::kLt) return 0;
  const Binary& less = *static_cast<const Binary*>(condition);
  if (equal(less.a, s.b) && equal(less.b, s.a)) return 1;
  return equal(less.a, s.a) && equal(less.b, s.b) ? -1 : 0;
}

// Kinds of computation that occur in the task.
std::array<float, kTaskWords> words_of(const task::Task& task) {
  enum Word {
    kHasMax,
    kHasMin,
    kHasAdd,
    kHasConv,
    kHasWinograd,
    kHasDepthwise,
    kHasDense,
    kHasSoftmax,
    kHasOtherCompute
  };
  std::array<float, kTaskWords> words = {};
  visit(task.kernel.root, [&](Stmt s) {
    const Store* store = as<Store>(s);
    if (store == nullptr) return true;
    auto look = [&](Expr e, bool adds) {
      visit(e, [&](Expr x) {
        const Select* select = as<Select>(x);
        const int which = select != nullptr ? extremum(*select) : 0;
        if (x->kind == ExprKind::kMax || which > 0) words[kHasMax] = 1;
        if (x->kind == ExprKind::kMin || which < 0) words[kHasMin] = 1;
        if (adds && x->kind == ExprKind::kAdd && is_float(x->type)) words[kHasAdd] = 1;
        return x->kind != ExprKind::kLoad;
      });
    };
    // The addition of a sum is its reducer, not an operator of the task.
    look(store->value, false);
    const Expr term = update_term(*store);
    look(term != nullptr ? term : store->value, true);
    return true;
  });
  using enum task::AnchorKind;
  switch (task.anchor) {
    case kConv:
      words[task.anchor_block.starts_with("winograd") ? kHasWinograd : kHasConv] = 1;
      break;
    case kDepthwiseConv:
      words[kHasDepthwise] = 1;
      break;
    case kGemm:
      words[kHasDense] = 1;
      break;
    case kAttention:
      words[kHasDense] = words[kHasSoftmax] = 1;
      break;
    case kSoftmax:
      words[kHasSoftmax] = 1;
      break;
    case kPool:
    case kReduction:
    case kElementwise:
    case kMove:
      words[kHasOtherCompute] = 1;
      break;
  }
  return words;
}

void list_blocks(const Kernel& kernel, Stmt s, std::vector<int64_t>& extents, TaskFacts& out) {
  const Loop* l = as<Loop>(s);
  if (l != nullptr) extents.push_back(is_int(l->extent) ? int_value(l->extent) : 0);
  if (const Block* b = as<Block>(s)) out.blocks.push_back({name_hint(kernel, b->id), extents});
  visit_children(s, [&](Stmt child) { list_blocks(kernel, child, extents, out); });
  if (l != nullptr) extents.pop_back();
}

}  // namespace

// Facts: arithmetic, kind and operators, operations of the plain kernel by kind, extents of the anchor's loops.
TaskFacts make_task_facts(const task::Task& task) {
  TaskFacts out = {};
  out.words = words_of(task);
  std::vector<int64_t> extents;
  list_blocks(task.kernel, task.kernel.root, extents, out);
  double words = 0, weight = 1;
  for (float w : out.words) words += static_cast<double>(w) * weight, weight *= 2;
  OpCounts ops = {};
  double bytes = 0;
  visit(task.kernel.root, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) count_operations(store->value, ops);
    return true;
  });
  for (const Buffer* b : task.kernel.buffers) {
    double size = b->role == BufferRole::kTemp ? 0 : static_cast<double>(type_bytes(b->type));
    for (Expr e : b->shape) size *= is_int(e) ? static_cast<double>(int_value(e)) : 1;
    bytes += size;
  }
  auto of = [&](OpKind kind) { return ops.real[static_cast<size_t>(kind)]; };
  const double facts[] = {task.flops,
                          bytes,
                          static_cast<double>(task.anchor) + 1,
                          words,
                          of(OpKind::kAddSub) + 16 * of(OpKind::kMul),
                          of(OpKind::kMath) + 16 * of(OpKind::kDiv) + 256 * (ops.select + of(OpKind::kCompare))};
  std::copy(std::begin(facts), std::end(facts), out.facts.begin());
  size_t next = std::size(facts);
  for (const TaskFacts::Block& b : out.blocks)
    if (b.name == task.anchor_block)
      for (size_t i = 0; i < b.extents.size() && next < out.facts.size(); ++i)
        out.facts[next++] = static_cast<double>(b.extents[i]);
  return out;
}

}  // namespace tcc::features
