// tensorize: the loops below and including one loop, around a single block, become one instruction of the table.
//
// The instruction says what it does as IR (ir/instr.h). That text and the block's body are compared as trees under each
// assignment of the block's loops to the instruction's loops of equal extents (TensorIR, Feng et al., ASPLOS 2023,
// section 4.1, has the same comparison). Operand X of the instruction matches accesses Y[.., b + e] for one base b that
// does not move inside, where e are the instruction's own indices; the call then gets Y at b.

#include "common.h"
#include "tcc/ir/instr.h"

namespace tcc::schedule {
namespace {

struct Chain {
  std::vector<const Loop*> loops;  // outermost first
  const Block* block = nullptr;
};

Legal<Chain> chain_below(const Kernel& k, Stmt top, Id name) {
  Chain chain;
  for (Stmt s = top; s != nullptr;) {
    if (const Loop* l = as<Loop>(s)) {
      if (!is_int(l->extent)) return reject(RejectReason::kNotConstant, "extent of " + describe(k, l->id));
      if (l->loop_kind != LoopKind::kSerial || !l->annotations.empty())
        return reject(RejectReason::kLoopKindTaken, describe(k, l->id) + " has a kind or an annotation");
      chain.loops.push_back(l);
      s = l->body;
    } else if (const Block* block = as<Block>(s)) {
      chain.block = block;
      break;
    } else {
      return reject(RejectReason::kNotALoopChain, "several statements below " + describe(k, name));
    }
  }
  const Block& block = *chain.block;
  if (block.init != nullptr)
    return reject(RejectReason::kReductionOrder, describe(k, block.id) + " still has its initialization");
  // Whole instructions may be left out, parts of them may not.
  for (const Loop* l : chain.loops)
    if (block.predicate != nullptr && mentions(block.predicate, l->id))
      return reject(RejectReason::kBadInstruction, describe(k, block.id) + " has a predicate: pad it to whole tiles");
  // Ordered iterations may be around the instruction, not in it.
  for (const Iter& it : block.iters) {
    bool inside = it.kind != IterKind::kCarried;
    for (const Loop* l : chain.loops) inside |= mentions(it.binding, l->id);
    if (inside && it.kind != IterKind::kSpatial && it.kind != IterKind::kReduce)
      return reject(RejectReason::kReductionOrder, describe(k, it.id) + " is ordered");
  }
  return chain;
}

// The instruction's semantics: loops of constant extents around one store.
struct Pattern {
  std::vector<const Loop*> loops;
  const Store* store = nullptr;
};

std::optional<Pattern> pattern_of(int32_t row) {
  Pattern p;
  Stmt s = instruction_semantics(row).root;
  for (; as<Loop>(s) != nullptr; s = as<Loop>(s)->body) {
    p.loops.push_back(as<Loop>(s));
    if (!is_int(as<Loop>(s)->extent)) return std::nullopt;
  }
  p.store = as<Store>(s);
  if (p.store == nullptr || p.store->predicate != nullptr) return std::nullopt;
  return p;
}

class Matcher {
 public:
  Matcher(const Kernel& k, Builder& b, int32_t row, const Chain& chain, const analysis::Ranges& ranges)
      : k_(k), b_(b), row_(row), spec_(instruction(row)), semantics_(instruction_semantics(row)), ranges_(ranges) {
    for (const Loop* l : chain.loops) inner_.push_back(l->id);
  }

  // `vars`: the pattern's loop variables as those of the chain. On success operands() holds every operand.
  bool match(const Pattern& pattern, const Store& actual, const Substitution& vars) {
    vars_ = &vars;
    bases_.assign(spec_.operands.size(), {});
    found_.assign(spec_.operands.size(), kNoId);
    if (!operand(pattern.store->buffer, pattern.store->indices, actual.buffer, actual.indices) ||
        !expr(pattern.store->value, actual.value))
      return false;
    for (size_t i = 0; i < found_.size(); ++i) {
      if (found_[i] == kNoId) return false;
      for (size_t j = 0; j < i; ++j)
        if (found_[i] == found_[j]) return false;
    }
    return true;
  }
  std::vector<Operand> operands() {
    std::vector<Operand> out;
    for (size_t i = 0; i < found_.size(); ++i) out.push_back({found_[i], b_.arena().copy(bases_[i])});
    return out;
  }

 private:
  bool scope_fits(Scope have, Scope want) const {
    return have == want || (want == Scope::kGlobal && (have == Scope::kWorkspace || have == Scope::kConst));
  }

  bool operand(Id pattern_buffer, std::span<const Expr> pattern, Id buffer, std::span<const Expr> actual) {
    size_t i = 0;
    while (i < semantics_.buffers.size() && semantics_.buffers[i]->id != pattern_buffer) ++i;
    if (i >= spec_.operands.size()) return false;
    const OperandSpec& want = spec_.operands[i];
    const Buffer* have = k_.buffer(buffer);
    if (have == nullptr || have->type != want.type || !scope_fits(have->scope, want.scope)) return false;
    if (actual.size() < pattern.size()) return false;
    size_t lead = actual.size() - pattern.size();
    std::vector<Expr> base;
    for (size_t d = 0; d < actual.size(); ++d) {
      Expr e = actual[d];
      if (d >= lead) e = b_.sub(e, substitute(b_, pattern[d - lead], *vars_));
      e = analysis::simplify(b_, e, ranges_);
      if (mentions_any(e, inner_)) return false;
      base.push_back(e);
    }
    if (found_[i] == kNoId) {
      found_[i] = buffer;
      bases_[i] = std::move(base);
      return true;
    }
    return found_[i] == buffer && equal(base, bases_[i]);
  }

  bool expr(Expr p, Expr a) {
    if (p->kind != a->kind || p->type != a->type) return false;
    if (const Load* load = as<Load>(p)) {
      const Load* other = as<Load>(a);
      return load->predicate == nullptr && other->predicate == nullptr &&
             operand(load->buffer, load->indices, other->buffer, other->indices);
    }
    if (const Unary* unary = as<Unary>(p)) return expr(unary->a, as<Unary>(a)->a);
    if (const Binary* op = as<Binary>(p)) {
      const Binary* other = as<Binary>(a);
      bool swaps = p->kind == ExprKind::kAdd || p->kind == ExprKind::kMul;
      auto bases = bases_;
      auto found = found_;
      if (expr(op->a, other->a) && expr(op->b, other->b)) return true;
      bases_ = bases;
      found_ = found;
      return swaps && expr(op->a, other->b) && expr(op->b, other->a);
    }
    return equal(p, a);
  }

  const Kernel& k_;
  Builder& b_;
  int32_t row_;
  const ir::Instruction& spec_;
  const Kernel& semantics_;
  const analysis::Ranges& ranges_;
  std::vector<Id> inner_;
  const Substitution* vars_ = nullptr;
  std::vector<std::vector<Expr>> bases_;  // by operand
  std::vector<Id> found_;
};

// Tries every assignment of the chain's loops to the pattern's.
bool match_any(Builder& b, Matcher& matcher, const Pattern& pattern, const Chain& chain, const Store& actual) {
  std::vector<size_t> order(chain.loops.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    Substitution vars;
    bool fits = true;
    for (size_t i = 0; i < order.size() && fits; ++i) {
      fits = int_value(pattern.loops[i]->extent) == int_value(chain.loops[order[i]]->extent);
      vars.set(pattern.loops[i]->id, b.var(chain.loops[order[i]]->id));
    }
    if (fits && matcher.match(pattern, actual, vars)) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

// The block of the call: an iterator for each loop around it that the operands move with, or that is ordered. A loop
// that fed a reduction feeds one still; one that fed several kinds cannot be told apart.
Legal<Stmt> call_block(Editor& edit, const Chain& chain, std::span<const Loop* const> around, int32_t row,
                       std::vector<Operand> operands) {
  Builder& b = edit.b;
  std::vector<Iter> iters;
  Substitution rename;
  for (const Loop* l : around) {
    bool used = false, spatial = false, reduce = false, carried = false;
    for (const Operand& o : operands)
      for (Expr e : o.indices) used |= mentions(e, l->id);
    for (const Iter& it : chain.block->iters)
      if (mentions(it.binding, l->id))
        (it.kind == IterKind::kReduce ? reduce : it.kind == IterKind::kCarried ? carried : spatial) = true;
    if (spatial + reduce + carried > 1)
      return reject(RejectReason::kNotAffine, describe(edit.k, l->id) + " feeds iterators of several kinds");
    if (!used && !carried) continue;
    Id id = edit.fresh(l->id, 0);
    iters.push_back({id,
                     reduce    ? IterKind::kReduce
                     : carried ? IterKind::kCarried
                               : IterKind::kSpatial,
                     l->extent, b.var(l->id)});
    rename.set(l->id, b.var(id));
  }
  for (Operand& o : operands) o.indices = b.arena().copy(substitute(b, o.indices, rename));
  return b.block(chain.block->id, iters, b.instr(row, operands, {}), nullptr, chain.block->predicate,
                 chain.block->reducer, chain.block->annotations);
}

}  // namespace

Legal<Kernel> tensorize(const Kernel& k, Id id, std::string_view instruction_name) {
  Path path = find_path(k.root, id);
  if (!path.found()) return unknown(k, "loop or block", id);
  const Block* outer = as<Block>(path.nodes.back());  // made by blockize
  int32_t row = find_instruction(instruction_name);
  auto refuse = [&](const std::string& why) {
    return reject(RejectReason::kBadInstruction, fmt::format("{}: {}", instruction_name, why));
  };
  if (row < 0) return refuse("not in the table");
  const ir::Instruction& spec = instruction(row);
  // A warp's or warpgroup's instruction takes whole tiles of local buffers here; the lowering gives its lanes their
  // registers, and places the waits for what is not complete at once.
  const bool group = spec.participants == Participants::kWarpgroup;
  bool plain = spec.behaviour == Behaviour::kCompute && spec.num_args == 0 &&
               spec.completion == (group ? Completion::kWgmmaGroup : Completion::kImmediate) &&
               spec.participants != Participants::kBlock;
  for (const OperandSpec& o : spec.operands)
    plain &= o.layout.empty() ? spec.participants == Participants::kThread || (group && o.scope == Scope::kShared)
                              : o.scope == Scope::kLocal && o.rank == 2;
  std::optional<Pattern> pattern = plain ? pattern_of(row) : std::nullopt;
  if (!pattern) return refuse("only products and other instructions without arguments can take the place of loops");
  if (outer != nullptr && as<Loop>(outer->body) == nullptr)
    return reject(RejectReason::kNotALoopChain,
                  describe(k, id) + " holds no loops: blockize the loops around it first");
  if (outer != nullptr && outer->init != nullptr)
    return reject(RejectReason::kReductionOrder, describe(k, id) + " still has its initialization");
  TCC_TRY(Chain chain, chain_below(k, outer != nullptr ? outer->body : path.nodes.back(), id));
  if (chain.loops.size() != pattern->loops.size())
    return refuse(fmt::format("has {} loops instead of {}", pattern->loops.size(), chain.loops.size()));
  const Store* body = as<Store>(chain.block->body);
  if (body == nullptr || body->predicate != nullptr) return refuse("the block is more than one store");

  Editor edit(k);
  Substitution bindings;
  for (const Iter& it : chain.block->iters) bindings.set(it.id, it.binding);
  const Store* actual = as<Store>(substitute(edit.b, body, bindings));
  analysis::Ranges ranges = all_ranges(k);
  Matcher matcher(k, edit.b, row, chain, ranges);
  if (!match_any(edit.b, matcher, *pattern, chain, *actual))
    return refuse("does not do what " + describe(k, chain.block->id) + " does");
  if (outer != nullptr) {
    Stmt call = edit.b.block(outer->id, outer->iters, edit.b.instr(row, matcher.operands(), {}), nullptr,
                             outer->predicate, outer->reducer, outer->annotations);
    return edit.finish(replace_at(edit.b, path, call));
  }
  path.nodes.pop_back();
  std::vector<const Loop*> around = loops_on(path);
  TCC_TRY(Stmt call, call_block(edit, chain, around, row, matcher.operands()));
  return edit.finish(replace_at(edit.b, find_path(k.root, id), call));
}

}  // namespace tcc::schedule
