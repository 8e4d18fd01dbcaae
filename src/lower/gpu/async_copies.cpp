#include "lower/gpu/async_copies.h"

#include <cmath>
#include <numeric>

#include "tcc/analysis/address.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {
namespace {

using namespace ir;

class Starter {
 public:
  Starter(Edit& edit, const analysis::Ranges& ranges, const std::map<Id, int64_t>& versions)
      : edit_(edit), b_(edit.b), ranges_(ranges), versions_(versions) {}

  // nullptr: it contains something else than such copies.
  Stmt rewrite(Stmt s, Expr guard) {
    if (const Seq* seq = as<Seq>(s)) {
      std::vector<Stmt> stmts;
      for (Stmt c : seq->stmts) {
        stmts.push_back(rewrite(c, guard));
        if (stmts.back() == nullptr) return nullptr;
      }
      return b_.seq(stmts);
    }
    if (const If* branch = as<If>(s))
      return branch->else_case == nullptr ? rewrite(branch->then_case, b_.logical_and(guard, branch->condition))
                                          : nullptr;
    if (const Loop* l = as<Loop>(s)) {
      if (l->loop_kind == LoopKind::kVectorized) return piece(l->body, l, guard);
      if (guard != nullptr && may_mention(guard, l->id)) return nullptr;
      Stmt body = rewrite(l->body, nullptr);
      if (body == nullptr) return nullptr;
      body = b_.with_body(*l, body);
      return guard == nullptr ? body : b_.if_then(guard, body);
    }
    return piece(s, nullptr, guard);
  }

 private:
  Expr at_lane(Expr e, const Loop* lanes, int64_t lane) {
    if (e == nullptr || lanes == nullptr) return e;
    Substitution s;
    s.set(lanes->id, b_.integer(lane));
    return analysis::simplify(b_, substitute(b_, e, s), ranges_);
  }

  // The lanes' elements are neighbors and the first is at a multiple of `bytes`.
  bool whole(Id id, std::span<const Expr> indices, const Loop* lanes, int64_t count, int64_t bytes) {
    Buffer buffer = *edit_.k.buffer(id);
    if (buffer.layout != nullptr && !buffer.layout->xors.empty()) return false;
    int64_t divisor = 0;
    Expr flat;
    if (auto v = versions_.find(id); v != versions_.end()) {
      flat = analysis::flat_address(b_, buffer, indices.subspan(1));
      int64_t size = buffer.layout != nullptr ? buffer.layout->size : 1;
      for (Expr e : buffer.shape) size *= buffer.layout == nullptr ? int_value(e) : 1;
      divisor = size;
    } else {
      flat = analysis::flat_address(b_, buffer, indices);
    }
    Expr first = at_lane(flat, lanes, 0);
    for (int64_t lane = 1; lane < count; ++lane)
      if (!is_int(b_.sub(at_lane(flat, lanes, lane), first), lane)) return false;
    divisor = std::gcd(divisor, analysis::known_divisor(edit_.k, first));
    return divisor * type_bytes(buffer.type) % bytes == 0 && buffer.alignment % bytes == 0;
  }

  // How many of the lanes' elements are there: all or none of them, or those in front of an end. nullptr: another form.
  Expr present(Expr predicate, const Loop* lanes, int64_t count) {
    Expr all = nullptr, some = nullptr;
    std::vector<Expr> conjuncts;
    if (predicate != nullptr) split_conjunction(predicate, conjuncts);
    for (Expr c : conjuncts) {
      c = analysis::simplify(b_, c, ranges_);
      Expr first = at_lane(c, lanes, 0);
      bool same = true;
      for (int64_t lane = 1; lane < count && same; ++lane) same = equal(first, at_lane(c, lanes, lane));
      if (!same && (c->kind == ExprKind::kLt || c->kind == ExprKind::kLe) && as<Binary>(c)->a->type == Type::kI64) {
        // left < right, with the lane counted on one side.
        Expr rest = b_.sub(as<Binary>(c)->b, as<Binary>(c)->a);
        if (c->kind == ExprKind::kLe) rest = b_.offset(rest, 1);
        Expr start = at_lane(rest, lanes, 0), end = at_lane(rest, lanes, count - 1);
        const bool falls = is_int(b_.sub(end, start), 1 - count), rises = is_int(b_.sub(end, start), count - 1);
        // 0 < start - lane, and start is a multiple of the count: what holds for the first holds for all of them.
        if (falls && analysis::known_divisor(edit_.k, start) % count == 0) {
          same = true;
        } else if (rises && analysis::known_divisor(edit_.k, b_.offset(start, -1)) % count == 0) {
          same = true;
        } else if (falls && some == nullptr) {
          some = b_.max(b_.integer(0), b_.min(b_.integer(count), start));
          continue;
        }
      }
      if (!same) return nullptr;
      all = b_.logical_and(all, first);
    }
    if (some == nullptr) some = b_.integer(count);
    return all == nullptr ? some : b_.select(all, some, b_.integer(0));
  }

  Stmt piece(Stmt s, const Loop* lanes, Expr guard) {
    for (const If* i = as<If>(s); i != nullptr; i = as<If>(s)) {
      if (i->else_case != nullptr) return nullptr;
      guard = b_.logical_and(guard, i->condition);
      s = i->then_case;
    }
    const Store* store = as<Store>(s);
    const Load* load = store == nullptr ? nullptr : as<Load>(store->value);
    if (load == nullptr || (lanes != nullptr && !is_int(lanes->extent))) return nullptr;
    guard = b_.logical_and(guard, store->predicate);
    const Buffer& from = *edit_.k.buffer(load->buffer);
    const Buffer& to = *edit_.k.buffer(store->buffer);
    const bool memory = from.scope == Scope::kGlobal || from.scope == Scope::kWorkspace || from.scope == Scope::kConst;
    const int64_t count = lanes == nullptr ? 1 : int_value(lanes->extent), bytes = count * type_bytes(to.type);
    if (!memory || from.type != to.type || (bytes != 4 && bytes != 8 && bytes != 16)) return nullptr;
    const int32_t row = find_instruction(
        Family::kCopyAsync, [&](const Instruction& in) { return in.bytes == bytes && in.operands[0].type == to.type; });
    if (row < 0 || !whole(store->buffer, store->indices, lanes, count, bytes) ||
        !whole(load->buffer, load->indices, lanes, count, bytes))
      return nullptr;
    if (load->predicate != nullptr && !is_zero(load->other)) return nullptr;
    Expr elements = present(load->predicate, lanes, count);
    // What is not written at all is so for all lanes together.
    Expr written = present(guard, lanes, count);
    if (elements == nullptr || written == nullptr) return nullptr;
    Expr condition = nullptr;
    if (!is_int(written)) {
      if (written->kind != ExprKind::kSelect || !is_int(as<Select>(written)->a, count)) return nullptr;
      condition = as<Select>(written)->condition;
    }
    auto first = [&](std::span<const Expr> indices) {
      std::vector<Expr> out;
      for (Expr e : indices) out.push_back(at_lane(e, lanes, 0));
      return b_.arena().copy(out);
    };
    const Operand operands[2] = {{store->buffer, first(store->indices)}, {load->buffer, first(load->indices)}};
    Expr size = elements->kind == ExprKind::kSelect
                    ? b_.select(as<Select>(elements)->condition, b_.scale(as<Select>(elements)->a, bytes / count),
                                b_.integer(0))
                    : b_.scale(elements, bytes / count);
    Stmt start = b_.instr(row, operands, std::span<const Expr>(&size, 1));
    return condition == nullptr ? start : b_.if_then(condition, start);
  }

  static bool is_zero(Expr e) {
    if (const FloatConst* f = as<FloatConst>(e)) return f->value == 0 && !std::signbit(f->value);
    return is_int(e, 0);
  }

  Edit& edit_;
  Builder& b_;
  const analysis::Ranges& ranges_;
  const std::map<Id, int64_t>& versions_;
};

}  // namespace

Stmt as_async_copies(Edit& edit, const analysis::Ranges& ranges, Stmt copy, const std::map<Id, int64_t>& versions) {
  return Starter(edit, ranges, versions).rewrite(copy, nullptr);
}

}  // namespace tcc::lower
