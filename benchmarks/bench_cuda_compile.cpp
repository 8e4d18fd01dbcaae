// What CUDA code costs to make, without a GPU: NVRTC's time for the default schedules of a few operators on one core
// (the processor's time of the calling thread, which does all the work), and what a second thread brings. Targets: at
// most 100 ms a kernel, two threads at least 1.7 times one.
#include <time.h>

#include <cstdio>

#include "bench.h"
#include "sample_tasks.h"
#include "tcc/codegen/cuda.h"
#include "tcc/search/search.h"
#include "tcc/support/files.h"
#include "tcc/task/task.h"

namespace tcc::benchmarks {
namespace {

struct Case {
  std::string name;
  task::Task task;
};

std::vector<Case> cases() {
  const auto half = graph::DType::kF16;
  std::vector<Case> out;
  out.push_back({"gemm_f32", task::make_gemm({.m = 1024, .n = 1024, .k = 1024})});
  out.push_back({"gemm_f16", task::make_gemm({.m = 1024, .n = 1024, .k = 1024, .dtype = half})});
  out.push_back({"conv_f32", task::make_conv({.batch = 1,
                                              .channels = 64,
                                              .filters = 64,
                                              .size = {56, 56},
                                              .kernel = {3, 3},
                                              .pads = {1, 1},
                                              .bias = true,
                                              .relu = true})});
  out.push_back({"softmax", task::make_softmax({256, 1000}, 1)});
  return out;
}

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Result<std::vector<Row>> run_cuda_compile(double seconds) {
  TCC_TRY(target::Target device, target::find_target("a100"));
  TCC_TRY_VOID(codegen::nvrtc_version());
  std::vector<ir::Kernel> kernels;
  std::vector<Row> rows;
  for (const Case& c : cases()) {
    TCC_TRY(search::Chosen chosen, search::choose_program(c.task, device, nullptr, 1));
    std::vector<double> times;
    double registers = 0, spills = 0, stack = 0;
    Stopwatch watch;
    while (times.size() < 3 || watch.seconds() < seconds) {
      const double before = thread_seconds();
      TCC_TRY(codegen::Artifact artifact, codegen::compile_cuda(chosen.lowered, device));
      times.push_back((thread_seconds() - before) * 1e3);
      registers = artifact.facts.at("registers");
      spills = artifact.facts.at("spill_bytes");
      stack = artifact.facts.at("stack_bytes");
    }
    rows.push_back({c.name + ".nvrtc", median(times), "ms", "", 0, 0});
    rows.push_back({c.name + ".registers", registers, "", "", 0, 0});
    rows.push_back({c.name + ".spills", spills, "B", "", 0, 0});
    rows.push_back({c.name + ".stack", stack, "B", "", 0, 0});
    kernels.push_back(chosen.lowered);
  }
  // One turn is every kernel once.
  auto turn = [&](int) {
    for (const ir::Kernel& k : kernels)
      if (!codegen::compile_cuda(k, device)) return 0.0;
    return 1.0;
  };
  const double one = rate_per_thread(1, 2 * seconds, turn);
  const double two = 2 * rate_per_thread(2, 2 * seconds, turn);
  const auto n = static_cast<double>(kernels.size());
  rows.push_back({"one_thread", one * n, "kernels/s", "", 0, 0});
  rows.push_back({"two_threads", two * n, "kernels/s", "one thread", one * n, two / one});
  return rows;
}

}  // namespace

std::vector<Row> run_cuda_compile_suite(double seconds) {
  Result<std::vector<Row>> rows = run_cuda_compile(seconds);
  if (rows) return *rows;
  std::fprintf(stderr, "cuda-compile: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"cuda-compile", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
