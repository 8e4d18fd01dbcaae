#include "tcc/analysis/gpu_unrolling.h"

#include <algorithm>

#include "tcc/ir/query.h"

namespace tcc::analysis {

using namespace ir;

double max_unrolled_statements(bool on_chip, bool products) {
  // Eight steps of a product on CUDA cores, of 64 multiplications of a thread each, are straight code, as in the
  // hand-written kernel of tools/gpu: their reads of shared memory are under way together. Loops that touch global
  // memory and launches with matrix instructions keep the limit that they were measured with.
  constexpr double kOnChip = 512, kOther = 192;
  return on_chip && !products ? kOnChip : kOther;
}

bool stays_on_chip(Stmt s, FunctionRef<bool(Id)> is_on_chip) {
  bool stays = true;
  visit(s, [&](Stmt part) {
    if (const Store* store = as<Store>(part)) stays = stays && is_on_chip(store->buffer);
    if (const InstrCall* call = as<InstrCall>(part))
      for (const Operand& o : call->operands) stays = stays && is_on_chip(o.buffer);
    return stays;
  });
  if (stays) visit_loads(s, [&](const Load& load) { stays = stays && is_on_chip(load.buffer); });
  return stays;
}

int64_t unrolled_loads(int64_t extent, double statements) {
  // A thread alone has one load under way, and memory answers after hundreds of cycles.
  constexpr int64_t kMax = 8, kWithRest = 4;
  constexpr double kMaxStatements = 64;
  int64_t times = 1;
  for (int64_t n = 2; n <= std::min(kMax, extent) && static_cast<double>(n) * statements <= kMaxStatements; ++n)
    if (extent % n == 0 || (times == 1 && n == kWithRest && extent > 4 * kMax)) times = n;
  return times;
}

}  // namespace tcc::analysis
