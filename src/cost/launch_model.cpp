#include "tcc/cost/launch_model.h"

#include <algorithm>

#include "tcc/analysis/shared_traffic.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"

namespace tcc::cost {
namespace {

using namespace ir;

// The launches of a kernel, below the allocations of its root.
std::vector<Stmt> launches_below(Stmt root) {
  while (const Alloc* a = as<Alloc>(root)) root = a->body;
  if (const Seq* s = as<Seq>(root)) return {s->stmts.begin(), s->stmts.end()};
  return {root};
}

bool has_family(Stmt body, std::initializer_list<Family> families) {
  bool found = false;
  visit(body, [&](Stmt s) {
    if (const InstrCall* call = as<InstrCall>(s)) {
      const Family family = instruction_table()[static_cast<size_t>(call->instr)].family;
      found = found || std::find(families.begin(), families.end(), family) != families.end();
    }
    return !found;
  });
  return found;
}

// Of the warps of a role: those that multiply are the consumers.
std::string work_of(Stmt body) {
  if (has_family(body, {Family::kMma, Family::kWmma, Family::kWgmma})) return "products";
  return has_family(body, {Family::kTensorCopy, Family::kCopyAsync}) ? "copies" : "all";
}

std::vector<LaunchRole> roles_of(Stmt lowered, int64_t threads) {
  std::vector<LaunchRole> roles;
  visit(lowered, [&](Stmt s) {
    const Roles* found = as<Roles>(s);
    if (found == nullptr || !roles.empty()) return roles.empty();
    for (const Role& r : found->roles) roles.push_back({work_of(r.body), r.first_warp, r.warps, r.registers});
    return false;
  });
  constexpr int64_t kWarp = 32;
  if (roles.empty()) roles.push_back({"all", 0, (threads + kWarp - 1) / kWarp, 0});
  return roles;
}

// Iterations of the longest loop whose data pass through stages of shared memory.
int64_t steps_of(Stmt nest) {
  int64_t steps = 0;
  visit(nest, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && has_annotation(*l, AnnotationKey::kPipelineDepth) && is_int(l->extent))
      steps = std::max(steps, int_value(l->extent));
    return true;
  });
  return steps;
}

}  // namespace

std::vector<LaunchModel> launch_models(const Kernel& nest, const Kernel& lowered, const target::Target& target,
                                       std::span<const CompiledLaunch> compiled) {
  const GpuFacts facts = gpu_facts(nest, target, compiled);
  const std::vector<Stmt> nests = launches_below(nest.root), code = launches_below(lowered.root);
  const analysis::SharedTraffic traffic = analysis::shared_traffic(lowered);
  std::vector<LaunchModel> out;
  for (size_t n = 0; n < facts.launches.size(); ++n) {
    const LaunchFacts& f = facts.launches[n];
    LaunchModel m;
    m.threads = static_cast<int64_t>(f.threads);
    m.registers = n < compiled.size() ? static_cast<int64_t>(compiled[n].registers) : 0;
    m.shared_bytes = static_cast<int64_t>(f.shared_bytes);
    m.blocks_per_sm = f.blocks_per_sm, m.occupancy = f.occupancy, m.rounds = f.rounds;
    m.bank_conflicts = traffic.cycles > 0 ? traffic.conflicts / traffic.cycles : 0;
    m.stages = static_cast<int64_t>(f.stages);
    m.steps = steps_of(nests[n]);
    m.copy_seconds = std::max(f.memory_seconds, f.cache_seconds);
    m.arithmetic_seconds = std::max({f.compute_seconds, f.issue_seconds, f.shared_seconds});
    if (n < code.size()) m.roles = roles_of(code[n], m.threads);
    out.push_back(std::move(m));
  }
  return out;
}

}  // namespace tcc::cost
