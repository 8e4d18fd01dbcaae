// Random valid traces as machine code equal the reference: the naive kernel under the interpreter.
#include <cstdlib>

#include "codegen/nest.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/lower/lower.h"
#include "tcc/task/task.h"
#include "traces/random_trace.h"
#include "traces/reference.h"
#include "traces/task_shapes.h"

using namespace tcc;

namespace {

constexpr size_t kGuard = 64;  // bytes behind every buffer that must stay as they are
constexpr std::byte kMark{0x5a};

struct Reference : testing::Reference {
  using testing::Reference::Reference;

  // Says at which stage a wrong result first shows.
  std::string blame(const ir::Kernel& scheduled) const {
    std::vector<interp::TensorData> got = inputs;
    const interp::Report report = run(scheduled, got);
    if (!report.ok()) return "the scheduled kernel is wrong already: " + report.text();
    if (!difference(got).empty()) return "the scheduled kernel is wrong already";
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
    std::vector<interp::TensorData> got = inputs;
    for (size_t i = 0; i < got.size(); ++i)
      std::copy(storage[i].begin(), storage[i].end() - kGuard, got[i].bytes.begin());
    const std::string wrong = difference(got);
    if (!wrong.empty()) FAIL(what << ": " << wrong << "; " << blame(scheduled));
  }
};

}  // namespace

TEST_CASE("compiled random traces equal the reference", "[traces]") {
  std::vector<task::Task> tasks = testing::task_shapes();
  std::vector<target::Target> targets = codegen::runnable_targets();
  std::vector<Reference> references;
  for (const task::Task& t : tasks) references.emplace_back(t.kernel);
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
