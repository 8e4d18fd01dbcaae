#include "tcc/analysis/vector_access.h"

#include <algorithm>
#include <bit>

#include "tcc/analysis/simplify.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

Expr at_lane(Builder& b, const Ranges& ranges, Expr e, Id id, int64_t lane) {
  if (!may_mention(e, id)) return e;
  Substitution s;
  s.set(id, b.integer(lane));
  return simplify(b, substitute(b, e, s), ranges);
}

int64_t vector_width(Builder& b, const Kernel& kernel, const Ranges& ranges, const Buffer& buffer, Expr flat, Id id,
                     int64_t extent) {
  if (!may_mention(flat, id) || extent < 2) return 1;
  const int64_t bytes = type_bytes(buffer.type);
  if (bytes > 8) return 1;
  Expr first = at_lane(b, ranges, flat, id, 0);
  for (int64_t lane = 1; lane < extent; ++lane) {
    Expr step = b.sub(at_lane(b, ranges, flat, id, lane), first);
    if (!is_int(step, lane)) return 1;
  }
  int64_t width = int64_t{1} << std::countr_zero(static_cast<uint64_t>(extent));
  width = std::min(width, kMaxAccessBytes / bytes);
  const int64_t divisor = known_divisor(kernel, first);
  while (width > 1 && (divisor % width != 0 || buffer.alignment % (width * bytes) != 0)) width /= 2;
  if (buffer.layout != nullptr) {
    // An xor keeps a run whole when it neither reads nor changes the bits that count inside the run.
    for (const XorField& x : buffer.layout->xors)
      while (width > 1 && (width > (int64_t{1} << x.from_shift) || width > (int64_t{1} << x.to_shift))) width /= 2;
  }
  return width;
}

bool lane_stores(Builder& b, Stmt body, Expr condition, std::vector<LaneStore>& out) {
  switch (body->kind) {
    case StmtKind::kSeq:
      return std::all_of(as<Seq>(body)->stmts.begin(), as<Seq>(body)->stmts.end(),
                         [&](Stmt child) { return lane_stores(b, child, condition, out); });
    case StmtKind::kStore:
      out.push_back({as<Store>(body), b.logical_and(condition, as<Store>(body)->predicate)});
      return true;
    case StmtKind::kIf:
      return as<If>(body)->else_case == nullptr &&
             lane_stores(b, as<If>(body)->then_case, b.logical_and(condition, as<If>(body)->condition), out);
    case StmtKind::kLoop:
    case StmtKind::kBlock:
    case StmtKind::kAlloc:
    case StmtKind::kInstrCall:
    case StmtKind::kRoles:
      return false;
  }
  return false;
}

void visit_lane_loads(Expr value, FunctionRef<void(const Load&)> f) {
  visit(value, [&](Expr e) {
    if (e->kind == ExprKind::kSelect) return false;
    const Load* l = as<Load>(e);
    if (l != nullptr) f(*l);
    return l == nullptr;
  });
}

}  // namespace tcc::analysis
