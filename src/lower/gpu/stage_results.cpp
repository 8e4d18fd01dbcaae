// For each piece of 64 rows of 128 bytes, in one of two slots (PTX manual, "cp.async.bulk.tensor",
// "fence.proxy.async"):
//
//   one thread: wait until the slot's last copy has read it      } where there was one
//   barrier of the warpgroup                                     }
//   each thread: slot = f(sums)
//   each thread: fence between its stores and the copy; barrier of the warpgroup
//   one thread: output = slot, by a tensor copy
//
// A slot has the layout that TMA calls "128B swizzle": the eight rows that a warp writes at a time differ in the
// bits that choose the 16-byte piece, so stores of 4 bytes meet no bank twice, and those of 8 bytes each bank twice.
#include "lower/gpu/stage_results.h"

#include <bit>

#include "lower/gpu/role_loop.h"
#include "tcc/analysis/ranges.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/target/limits.h"

namespace tcc::lower {

using namespace ir;
using analysis::kStagedBytes;
using analysis::kStagedPieces;
using analysis::kStagedRows;

namespace {}  // namespace

int64_t ResultStage::Nest::pieces() const {
  int64_t n = int_value(runs->extent) / runs_of_piece;
  for (const Loop* l : outer) n *= int_value(l->extent);
  return n;
}

std::optional<ResultStage::Nest> ResultStage::read(Stmt s) const {
  Nest n;
  std::vector<const Loop*> loops;
  while (as<Store>(s) == nullptr) {
    const If* branch = as<If>(s);
    if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind != LoopKind::kBound && is_int(l->extent)) {
      loops.push_back(l);
      s = l->body;
    } else if (branch != nullptr && branch->else_case == nullptr) {
      split_conjunction(branch->condition, n.conditions);
      s = branch->then_case;
    } else {
      return std::nullopt;
    }
  }
  n.store = as<Store>(s);
  n.out = edit_.k.buffer(n.store->buffer);
  split_conjunction(n.store->predicate, n.conditions);
  if (loops.size() < 2 || loops.back()->loop_kind != LoopKind::kVectorized || !analysis::takes_tensor_stores(*n.out))
    return std::nullopt;
  n.run = loops.back();
  n.runs = loops[loops.size() - 2];
  n.outer.assign(loops.begin(), loops.end() - 2);
  n.columns = kStagedBytes / type_bytes(n.out->type);
  const int64_t each = kGroupLanes * int_value(n.run->extent);  // elements of the warpgroup, one run of each thread
  n.runs_of_piece = kStagedRows * n.columns / each;
  if (kStagedRows * n.columns % each != 0 || int_value(n.runs->extent) % n.runs_of_piece != 0) return std::nullopt;
  return n;
}

// Loads from memory happen where the condition holds; what they read otherwise goes nowhere.
Expr ResultStage::guarded(Expr value, Expr condition) {
  Expr out = rewrite_children(b_, value, [&](Expr c) { return guarded(c, condition); });
  const Load* l = as<Load>(out);
  if (l == nullptr || edit_.k.buffer(l->buffer)->scope == Scope::kLocal) return out;
  Expr other = l->other != nullptr ? l->other : b_.constant(0, l->type);
  return b_.load(l->buffer, l->type, l->indices, b_.logical_and(l->predicate, condition), other);
}

// nullopt: rows and columns are not those of a box, or the store leaves out positions inside of the output.
std::optional<ResultStage::Piece> ResultStage::piece(const Nest& n, const Substitution& tile, int64_t number,
                                                     int64_t slot, const Thread& t) {
  const Id runs = edit_.fresh(n.runs->id), run = edit_.fresh(n.run->id);
  Substitution here = tile, origin;
  here.set(n.runs->id, b_.offset(b_.var(runs), number * n.runs_of_piece));
  here.set(n.run->id, b_.var(run));
  analysis::Ranges ranges(edit_.k);
  const std::pair<Id, int64_t> within[] = {
      {t.warp, kGroupWarps}, {t.lane, kWarpLanes}, {runs, n.runs_of_piece}, {run, int_value(n.run->extent)}};
  std::set<Id> moving;
  for (const auto& [id, extent] : within) {
    ranges.set(id, b_.integer(extent));
    origin.set(id, b_.integer(0));
    moving.insert(id);
  }
  const size_t rank = n.store->indices.size();
  Piece out;
  std::vector<Expr> indices, to = {b_.integer(slot), t.group};
  for (size_t d = 0; d < rank; ++d) {
    Expr index = analysis::simplify(b_, substitute(b_, n.store->indices[d], here), ranges);
    Expr first = analysis::simplify(b_, substitute(b_, index, origin), ranges);
    indices.push_back(index);
    out.at.push_back(first);
    if (d + 2 < rank) {
      if (mentions_any(index, moving)) return std::nullopt;
      continue;
    }
    Expr rest = analysis::simplify(b_, b_.sub(index, first), ranges);
    const Interval bounds = ranges.bounds(rest);
    const int64_t extent = d + 2 == rank ? kStagedRows : n.columns;
    if (bounds.low != 0 || bounds.high != extent - 1) return std::nullopt;
    to.push_back(rest);
  }
  Expr condition = nullptr;
  for (Expr c : n.conditions) {
    c = analysis::simplify(b_, substitute(b_, c, here), ranges);
    if (is_int(c) && int_value(c) != 0) continue;
    if (!is_bound(b_, c, indices, n.out->shape, rank - 2)) return std::nullopt;
    condition = b_.logical_and(condition, c);
  }
  Expr value = substitute(b_, n.store->value, here);
  if (condition != nullptr) value = guarded(value, condition);
  out.fill = b_.loop(run, n.run->extent, b_.store(buffer_, to, value), LoopKind::kVectorized);
  out.fill = b_.loop(runs, b_.integer(n.runs_of_piece), out.fill, LoopKind::kUnrolled);
  return out;
}

void ResultStage::make_buffer(const Nest& n) {
  const int64_t shape[] = {kStagedPieces, groups_, kStagedRows, n.columns}, bytes = type_bytes(n.out->type);
  std::vector<Digit> digits;
  std::vector<Expr> extents;
  int64_t stride = 1;
  for (int32_t d = 4; d-- > 0; stride *= shape[d]) digits.insert(digits.begin(), {d, 1, 0, Place::kAddress, stride});
  for (int64_t extent : shape) extents.push_back(b_.integer(extent));
  auto log = [](int64_t x) { return std::countr_zero(static_cast<uint64_t>(x)); };
  const XorField swap{log(n.columns), log(target::kSwizzleBytes / bytes), kStagedBytes / target::kSwizzleBytes - 1};
  Layout layout{};
  layout.shape = shape;
  layout.digits = digits;
  layout.xors = std::span(&swap, 1);
  layout.size = stride;
  Buffer fields{};
  fields.id = buffer_;
  fields.type = n.out->type;
  fields.scope = Scope::kShared;
  fields.role = BufferRole::kTemp;
  fields.shape = extents;
  fields.layout = copy_layout(b_.arena(), layout);
  fields.alignment = kSwizzledTileAlignment;
  edit_.add_buffer(fields);
}

Stmt ResultStage::call(Family family, Behaviour behaviour, std::initializer_list<Expr> args) {
  return b_.instr(instruction_row(family, behaviour), {}, args);
}

Stmt ResultStage::by_one(const Thread& t, Stmt s) {
  Expr zero = b_.integer(0);
  return b_.if_then(b_.logical_and(b_.eq(b_.var(t.warp), zero), b_.eq(b_.var(t.lane), zero)), s);
}

Stmt ResultStage::stage(Stmt nest, const Thread& t, bool again) {
  if (buffer_ != kNoId || as<Loop>(nest) == nullptr) return nullptr;
  const std::optional<Nest> n = read(nest);
  if (!n) return nullptr;
  buffer_ = edit_.fresh_named("results");
  const int64_t pieces = n->pieces(), slots = pieces % kStagedPieces == 0 ? kStagedPieces : 1;
  const int32_t row = find_tensor_copy(n->out->type, Scope::kGlobal);
  // Barrier 0 is that of the whole block.
  auto meet = [&] {
    return call(Family::kSync, Behaviour::kBarSync, {b_.offset(t.group, 1), b_.integer(kGroupLanes)});
  };
  std::vector<Stmt> stmts;
  for (int64_t p = 0; p < pieces; ++p) {
    const int64_t parts = int_value(n->runs->extent) / n->runs_of_piece, slot = p % slots;
    Substitution tile;
    int64_t rest = p / parts;
    for (size_t l = n->outer.size(); l-- > 0;) {
      const int64_t extent = int_value(n->outer[l]->extent);
      tile.set(n->outer[l]->id, b_.integer(rest % extent));
      rest /= extent;
    }
    const std::optional<Piece> one = piece(*n, tile, p % parts, slot, t);
    if (!one) {
      buffer_ = kNoId;
      return nullptr;
    }
    if (again || p >= slots)
      stmts.insert(stmts.end(),
                   {by_one(t, call(Family::kTensorCopy, Behaviour::kCopyWaitRead, {b_.integer(slots - 1)})), meet()});
    const std::vector<Expr> from = {b_.integer(slot), t.group, b_.integer(0), b_.integer(0)};
    const Operand operands[2] = {{n->out->id, b_.arena().copy(one->at)}, {buffer_, b_.arena().copy(from)}};
    const Expr box[2] = {b_.integer(kStagedRows), b_.integer(n->columns)};
    Stmt send[2] = {b_.instr(row, operands, box), call(Family::kTensorCopy, Behaviour::kCopyCommit, {})};
    stmts.insert(stmts.end(),
                 {one->fill, call(Family::kSync, Behaviour::kFenceProxyAsync, {}), meet(), by_one(t, b_.seq(send))});
  }
  make_buffer(*n);
  return b_.seq(stmts);
}

Stmt ResultStage::finish(const Thread& t) {
  return buffer_ == kNoId ? nullptr : by_one(t, call(Family::kTensorCopy, Behaviour::kCopyWaitRead, {b_.integer(0)}));
}

}  // namespace tcc::lower
