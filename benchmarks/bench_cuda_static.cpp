// What can be said of CUDA programs without a GPU: the program that the analytical model chooses out of the design
// spaces of a matrix product, as tcc tune does without a device, and what its Lowered kernel and ptxas say about it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "bench.h"
#include "cuda_choice.h"
#include "sample_tasks.h"
#include "tcc/analysis/shared_traffic.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"
#include "tcc/task/task.h"

namespace tcc::benchmarks {
namespace {

using Chosen = search::ChosenArtifact;

struct Facts {
  bool matrix = false;      // some instruction of a warp multiplies
  bool warpgroups = false;  // or of a warpgroup
  bool tensor_copies = false;
  bool producer = false, consumer = false;  // roles of warps that only copy, and that multiply
  int64_t stages = 1;                       // versions of the buffers that asynchronous copies fill
  int64_t threads = 1;                      // a block
  int64_t blocks = 1;
  double scheduler_warps = 0;
};

bool is_product(const ir::Instruction& row) {
  return row.flops > 0 && row.participants != ir::Participants::kThread;
}
bool is_tensor_copy(const ir::Instruction& row) {
  return row.completion == ir::Completion::kMbarrierBytes;
}
bool calls(ir::Stmt body, bool (*what)(const ir::Instruction&)) {
  bool found = false;
  ir::visit(body, [&](ir::Stmt s) {
    const ir::InstrCall* call = ir::as<ir::InstrCall>(s);
    found |= call != nullptr && what(ir::instruction(call->instr));
    return !found;
  });
  return found;
}

Facts facts_of(const Chosen& chosen, const target::Target& device) {
  Facts f;
  std::set<ir::Id> filled;
  ir::visit(chosen.program.lowered.root, [&](ir::Stmt s) {
    if (const ir::Roles* roles = ir::as<ir::Roles>(s))
      for (const ir::Role& role : roles->roles) {
        const bool copies = calls(role.body, is_tensor_copy), multiplies = calls(role.body, is_product);
        f.producer |= copies && !multiplies;
        f.consumer |= multiplies && !copies;
      }
    const ir::InstrCall* call = ir::as<ir::InstrCall>(s);
    if (call == nullptr) return true;
    const ir::Instruction& row = ir::instruction(call->instr);
    f.matrix |= is_product(row);
    f.warpgroups |= is_product(row) && row.participants == ir::Participants::kWarpgroup;
    f.tensor_copies |= is_tensor_copy(row);
    if (row.completion == ir::Completion::kCopyGroup || is_tensor_copy(row)) filled.insert(call->operands[0].buffer);
    return true;
  });
  for (ir::Id id : filled) {
    const ir::Buffer& b = *chosen.program.lowered.buffer(id);
    const int64_t versions = ir::int_value(b.shape[0]);
    f.stages = f.stages == 1 ? versions : std::min(f.stages, versions);
  }
  const codegen::Launch& launch = chosen.artifact.launches.at(0);
  f.threads = launch.block[0] * launch.block[1] * launch.block[2];
  f.blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
  const target::CudaInfo& c = device.cuda;
  const int64_t warps = resident_blocks(chosen, device) * ((f.threads + c.warp_size - 1) / c.warp_size);
  f.scheduler_warps = static_cast<double>(warps) / static_cast<double>(c.schedulers_per_sm);
  return f;
}

Result<std::vector<Row>> judge(const std::string& name, const task::Task& task, const std::string& target) {
  TCC_TRY(target::Target device, target::find_target(target));
  TCC_TRY(Chosen chosen, choose_without_device(task, device));
  const Facts f = facts_of(chosen, device);
  const analysis::SharedTraffic banks = analysis::shared_traffic(chosen.program.lowered);
  const int64_t narrowest = analysis::narrowest_global_access(chosen.program.lowered);
  const double spills = chosen.artifact.facts.at("spill_bytes");
  std::vector<Row> rows;
  auto number = [&](const char* what, double value, const char* unit) {
    rows.push_back({name + "." + what, value, unit, "", 0, 0});
  };
  auto demand = [&](const char* what, bool holds) {
    rows.push_back({name + "." + what, holds ? 1.0 : 0.0, "bool", "", 0, 0});
  };
  number("predicted", task.flops / chosen.program.seconds * 1e-12, "TFLOP/s");
  number("threads", static_cast<double>(f.threads), "a block");
  number("blocks", static_cast<double>(f.blocks), "");
  number("registers", chosen.artifact.facts.at("registers"), "a thread");
  number("shared", chosen.artifact.facts.at("shared_bytes"), "B");
  number("stages", static_cast<double>(f.stages), "");
  number("bank_cycles", banks.cycles, "a warp");
  number("bank_conflicts", banks.conflicts, "cycles");
  number("spills", spills, "B");
  number("narrowest_global", static_cast<double>(narrowest), "B");
  number("scheduler_warps", f.scheduler_warps, "");
  demand("no_spills", spills == 0);
  if (device.cuda.features.wgmma) {
    demand("wgmma", f.warpgroups);
    demand("tma", f.tensor_copies);
    demand("stages_4", f.stages >= 4);
    demand("producer_and_consumer", f.producer && f.consumer);
    return rows;
  }
  demand("mma", f.matrix);
  demand("stages_3", f.stages >= 3);
  demand("no_conflicts", banks.conflicts == 0);
  demand("global_16_bytes", narrowest == 16);
  demand("two_warps_a_scheduler", f.scheduler_warps >= 2);
  return rows;
}

}  // namespace

std::vector<Row> run_cuda_static_suite(double) {
  const task::Task gemm = task::make_gemm({.m = 4096, .n = 4096, .k = 4096, .dtype = graph::DType::kF16});
  std::vector<Row> all;
  for (const std::string target : {"a100", "h200"}) {
    Result<std::vector<Row>> rows = judge("gemm_f16_4096." + target, gemm, target);
    if (!rows) {
      std::fprintf(stderr, "cuda-static: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
      rows = std::vector<Row>{{"cuda-static." + target, 0, "", "did not run: " + rows.error().message, 0, 0}};
    }
    all.insert(all.end(), rows->begin(), rows->end());
  }
  return all;
}

}  // namespace tcc::benchmarks
