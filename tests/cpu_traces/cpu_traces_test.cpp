// Random valid traces as machine code equal the reference: the naive kernel under the interpreter.
#include <cstdlib>

#include "codegen/nest.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/lower/lower.h"
#include "tcc/task/task.h"
#include "traces/random_trace.h"

using namespace tcc;

namespace {

constexpr size_t kGuard = 64;  // bytes behind every buffer that must stay as they are
constexpr std::byte kMark{0x5a};

std::vector<task::Task> small_tasks() {
  std::vector<task::Task> out;
  out.push_back(task::make_gemm({.m = 17, .n = 36, .k = 10}));
  out.push_back(task::make_gemm({.m = 8, .n = 33, .k = 6, .bias = true, .relu = true, .constant_weights = true}));
  out.push_back(task::make_conv({.batch = 1,
                                 .channels = 4,
                                 .filters = 6,
                                 .size = {9, 18},
                                 .kernel = {3, 3},
                                 .pads = {1, 1},
                                 .bias = true,
                                 .relu = true}));
  out.push_back(task::make_conv({.batch = 2,
                                 .channels = 3,
                                 .filters = 4,
                                 .size = {11, 8},
                                 .kernel = {3, 2},
                                 .strides = {2, 1},
                                 .pads = {1, 0},
                                 .residual = true}));
  out.push_back(task::make_conv(
      {.batch = 1, .channels = 4, .filters = 4, .group = 4, .size = {8, 16}, .kernel = {3, 3}, .pads = {1, 1}}));
  out.push_back(task::make_conv({.batch = 1,
                                 .channels = 4,
                                 .filters = 6,
                                 .group = 2,
                                 .size = {7, 7},
                                 .kernel = {3, 3},
                                 .dilations = {2, 2},
                                 .pads = {2, 2}}));
  out.push_back(task::make_pool({.average = false,
                                 .batch = 1,
                                 .channels = 3,
                                 .size = {9, 9},
                                 .kernel = {3, 3},
                                 .strides = {2, 2},
                                 .pads = {1, 1}}));
  out.push_back(task::make_pool(
      {.average = true, .batch = 1, .channels = 2, .size = {8, 6}, .kernel = {2, 2}, .strides = {2, 2}}));
  out.push_back(task::make_reduction({5, 24}, {1}, graph::Op::kReduceSum));
  out.push_back(task::make_softmax({6, 17}, 1));
  out.push_back(task::make_elementwise({3, 5, 7}));
  return out;
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
    }
    expected = inputs;
    std::vector<interp::TensorData*> pointers;
    for (auto& d : expected) pointers.push_back(&d);
    interp::Report report = interp::run(t.kernel, pointers);
    if (!report.ok()) FAIL("naive kernel: " << report.text());
  }

  // Says at which stage a wrong result first shows.
  std::string blame(const ir::Kernel& scheduled) const {
    std::vector<interp::TensorData> got = inputs;
    std::vector<interp::TensorData*> pointers;
    for (auto& d : got) pointers.push_back(&d);
    interp::Report report = interp::run(scheduled, pointers);
    if (!report.ok()) return "the scheduled kernel is wrong already: " + report.text();
    for (size_t i = 0; i < got.size(); ++i)
      for (int64_t e = 0; e < got[i].size(); ++e)
        if (std::abs(got[i].at(e) - expected[i].at(e)) > 1e-5 * (1 + std::abs(expected[i].at(e))))
          return "the scheduled kernel is wrong already";
    return "the scheduled kernel is right";
  }

  void check(const codegen::Compiled& code, const ir::Kernel& scheduled, const std::string& what) const {
    std::vector<codegen::Aligned<std::byte>> storage;
    std::vector<void*> pointers;
    for (size_t i = 0; i < code.artifact.buffers.size(); ++i) {
      auto bytes = static_cast<size_t>(code.artifact.buffers[i].bytes);
      storage.emplace_back(bytes + kGuard, kMark);
      if (i < inputs.size()) std::copy(inputs[i].bytes.begin(), inputs[i].bytes.end(), storage.back().begin());
    }
    for (auto& s : storage) pointers.push_back(s.data());
    code.run(pointers, 3);
    for (size_t i = 0; i < storage.size(); ++i)
      for (size_t g = storage[i].size() - kGuard; g < storage[i].size(); ++g)
        if (storage[i][g] != kMark) FAIL(what << ": wrote behind buffer " << i);
    for (size_t i = 0; i < inputs.size(); ++i) {
      interp::TensorData got = inputs[i];
      std::copy(storage[i].begin(), storage[i].end() - kGuard, got.bytes.begin());
      for (int64_t e = 0; e < got.size(); ++e) {
        double x = got.at(e), y = expected[i].at(e);
        if (!(std::abs(x - y) <= 1e-5 * (1 + std::abs(y))))
          FAIL(what << ": element " << e << " of parameter " << i << " is " << x << ", not " << y << "; "
                    << blame(scheduled));
      }
    }
  }
};

}  // namespace

TEST_CASE("compiled random traces equal the reference", "[traces]") {
  std::vector<task::Task> tasks = small_tasks();
  std::vector<target::Target> targets = codegen::runnable_targets();
  std::vector<Reference> references;
  for (const task::Task& t : tasks) references.emplace_back(t);
  const char* only = std::getenv("TCC_TRACE_SEED");
  int64_t total = only != nullptr ? std::atoll(only) + 1 : std::getenv("TCC_SOAK") != nullptr ? 10000 : 600;
  int64_t compiled = 0;
  std::map<std::string, int> rejected;
  for (int64_t n = only != nullptr ? std::atoll(only) : 0; n < total; ++n) {
    size_t which = static_cast<size_t>(n) % tasks.size();
    const task::Task& t = tasks[which];
    const target::Target& target = targets[static_cast<size_t>(n) / tasks.size() % targets.size()];
    Rng rng(static_cast<uint64_t>(n) + 5000);
    testing::RandomTrace random = testing::TraceWriter(t.kernel, rng).write(static_cast<int>(rng.below(14)));
    const ir::Kernel& scheduled = random.schedule.kernel();
    std::string label = fmt::format("trace {} of {} for {}\n{}", n, t.workload, target.name,
                                    schedule::print_trace(random.schedule.trace()));
    auto arena = std::make_shared<Arena>();
    auto lowered = lower::lower(scheduled, target, ir::Stage::kLowered, arena);
    if (!lowered) {
      rejected[std::string(ir::reject_reason_name(lowered.error().reason))]++;
      continue;
    }
    std::vector<std::string> findings = ir::verify(*lowered);
    if (!findings.empty()) FAIL(label << findings[0] << "\n" << ir::print(*lowered));
    if (only != nullptr) WARN(label << ir::print(*lowered));
    references[which].check(codegen::compile(*lowered, target), scheduled, label + ir::print(*lowered));
    ++compiled;
    if (only != nullptr) break;
  }
  std::string summary;
  for (auto& [name, count] : rejected) summary += fmt::format(" {}: {}", name, count);
  WARN(compiled << " compiled;" << summary);
  CHECK((only != nullptr || compiled * 2 > total));
}
