#include "tcc/analysis/vector_access.h"

#include <algorithm>
#include <bit>

#include "tcc/analysis/simplify.h"
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
  width = std::min(width, 16 / bytes);
  const int64_t divisor = known_divisor(kernel, first);
  while (width > 1 && (divisor % width != 0 || buffer.alignment % (width * bytes) != 0)) width /= 2;
  if (buffer.layout != nullptr) {
    // An xor keeps a run whole when it neither reads nor changes the bits that count inside the run.
    for (const XorField& x : buffer.layout->xors)
      while (width > 1 && (width > (int64_t{1} << x.from_shift) || width > (int64_t{1} << x.to_shift))) width /= 2;
  }
  return width;
}

}  // namespace tcc::analysis
