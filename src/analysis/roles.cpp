#include "tcc/analysis/roles.h"

#include <algorithm>

#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

constexpr int64_t kGroupThreads = 128;
// Registers of a thread that setmaxnreg gives at most, the step of their number (PTX manual), and what a producer
// needs.
constexpr int64_t kMostRegisters = 240, kRegisterStep = 8, kProducerRegisters = 40;

}  // namespace

const Loop* role_loop(Stmt launch) {
  const Loop* found = nullptr;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr)
      for (const Annotation& a : l->annotations)
        if (a.key == AnnotationKey::kPipelineRole) found = l;
    return found == nullptr;
  });
  return found;
}

int64_t consumer_groups(Stmt launch) {
  int64_t groups = 1;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->axis == Axis::kWarpgroup && is_int(l->extent)) groups = int_value(l->extent);
    return true;
  });
  return groups;
}

RoleShape role_shape(int64_t consumers, int64_t registers_per_sm) {
  RoleShape out;
  out.threads = (consumers + 1) * kGroupThreads;
  // One consumer leaves room for a second block, whose products run while this one stores its results.
  out.blocks = consumers == 1 ? 2 : 1;
  auto down = [](int64_t n) { return n / kRegisterStep * kRegisterStep; };
  out.launch_registers = std::min(down(registers_per_sm / (out.threads * out.blocks)), kMostRegisters);
  out.producer_registers = std::min(kProducerRegisters, out.launch_registers);
  out.consumer_registers =
      std::min(kMostRegisters, down((out.launch_registers * (consumers + 1) - out.producer_registers) / consumers));
  return out;
}

}  // namespace tcc::analysis
