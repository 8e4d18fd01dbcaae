// Programs of the GPU spaces equal the reference, the naive kernel under the interpreter: at Scheduled and Nest, which
// run in order, and at Lowered, where threads run in a random order with a check for races. For a sample of them the
// printed source goes through NVRTC.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "gpu_traces/task_shapes.h"
#include "tcc/codegen/cuda.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"

using namespace tcc;

namespace {

target::Target gpu(const char* name) {
  auto t = target::find_target(name);
  REQUIRE(t.has_value());
  return *t;
}

struct Reference {
  std::vector<interp::TensorData> inputs, expected;  // one per parameter

  explicit Reference(const task::Task& t) {
    uint64_t seed = 3;
    for (const ir::Buffer* b : t.kernel.buffers) {
      if (b->role == ir::BufferRole::kTemp) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      inputs.push_back(interp::TensorData::make_random_integers(b->type, shape, seed++));
      if (b->role == ir::BufferRole::kOutput)
        for (std::byte& byte : inputs.back().bytes) byte = std::byte{0xff};
    }
    expected = inputs;
    interp::Report report = run(t.kernel, expected, 1);
    if (!report.ok()) FAIL("naive kernel: " << report.text());
  }

  static interp::Report run(const ir::Kernel& k, std::vector<interp::TensorData>& data, uint64_t seed) {
    std::vector<interp::TensorData*> pointers;
    for (auto& d : data) pointers.push_back(&d);
    return interp::run(k, pointers, {.seed = seed, .check_races = true});
  }

  void check(const ir::Kernel& k, const std::string& what, uint64_t seed) const {
    const std::vector<std::string> findings = ir::verify(k);
    if (!findings.empty()) FAIL(what << findings[0] << "\n" << ir::print(k));
    std::vector<interp::TensorData> got = inputs;
    const interp::Report report = run(k, got, seed);
    if (!report.ok()) FAIL(what << report.text() << "\n" << ir::print(k));
    for (size_t i = 0; i < got.size(); ++i)
      for (int64_t e = 0; e < got[i].size(); ++e) {
        const double x = got[i].at(e), y = expected[i].at(e);
        if (!(std::abs(x - y) <= 1e-4 * (1 + std::abs(y))))
          FAIL(what << "element " << e << " of parameter " << i << " is " << x << ", not " << y << "\n"
                    << ir::print(k));
      }
  }
};

// Threads of a block that a run of the interpreter is to go through at most.
bool is_small(const ir::Kernel& lowered) {
  std::map<ir::Axis, int64_t> extents;
  ir::visit(lowered.root, [&](ir::Stmt s) {
    if (const ir::Loop* l = ir::as<ir::Loop>(s); l != nullptr && ir::is_thread(l->axis))
      extents[l->axis] = std::max(extents[l->axis], ir::int_value(l->extent));
    return true;
  });
  int64_t threads = 1;
  for (const auto& [axis, n] : extents) threads *= n;
  return threads <= 512;
}

}  // namespace

TEST_CASE("programs of the GPU spaces equal the reference", "[traces]") {
  const target::Target target = gpu("a100");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  const int wanted = soak ? 100 : 6;  // of each trace, out of up to 12 times as many draws
  const bool compiles = codegen::nvrtc_available();
  if (!compiles) WARN("no NVRTC: the printed source is not compiled");
  int64_t ran = 0, compiled = 0, rejected = 0;
  std::map<std::string, int> reasons;
  const std::vector<task::Task> tasks = testing::gpu_task_shapes();
  for (size_t n = 0; n < tasks.size(); ++n) {
    const task::Task& t = tasks[n];
    if (only != nullptr && std::to_string(n) != only) continue;
    const Reference reference(t);
    Rng rng(n + 100);
    int64_t here = 0;
    const std::vector<schedule::Trace> space = space::generate_space(t.kernel, target);
    CHECK(std::any_of(space.begin(), space.end(), [](const auto& trace) { return !trace.instructions.empty(); }));
    for (const schedule::Trace& trace : space) {
      std::vector<int64_t> decisions = trace.decisions;
      int done = 0;
      for (int draw = 0; draw < 12 * wanted && done < (trace.instructions.empty() ? 1 : wanted); ++draw) {
        auto arena = std::make_shared<Arena>();
        auto scheduled = draw == 0 ? schedule::replay(trace, decisions, t.kernel, arena)
                                   : schedule::sample(trace, decisions, t.kernel, arena, rng);
        if (!scheduled) {
          reasons[std::string(ir::reject_reason_name(scheduled.error().reason))]++;
          ++rejected;
          continue;
        }
        auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
        if (!nest) {
          reasons[std::string(ir::reject_reason_name(nest.error().reason))]++;
          ++rejected;
          continue;
        }
        schedule::Trace shown = trace;
        shown.decisions = decisions;
        const std::string what = fmt::format("task {}, {}\n{}", n, t.workload, schedule::print_trace(shown));
        auto lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
        if (!lowered) FAIL(what << lowered.error().text << ir::print(*nest));
        if (!is_small(*lowered)) continue;
        if (only != nullptr) WARN(what << ir::print(*nest) << ir::print(*lowered));
        reference.check(*scheduled, what + "scheduled: ", 1);
        reference.check(*nest, what + "nest: ", 1);
        reference.check(*lowered, what + "lowered: ", static_cast<uint64_t>(draw) + 1);
        ++ran, ++here, ++done;
        if (!compiles || done % 10 != 1) continue;
        auto artifact = codegen::compile_cuda(*lowered, target);
        if (!artifact) FAIL(what << artifact.error().message << ir::print(*lowered));
        ++compiled;
      }
    }
    INFO(t.workload << " has " << space.size() << " traces");
    CHECK(here > 0);
  }
  std::string summary;
  for (auto& [name, count] : reasons) summary += fmt::format(" {}: {}", name, count);
  WARN(ran << " ran, " << compiled << " compiled, " << rejected << " rejected;" << summary);
  CHECK((only != nullptr || ran >= 250));
}
