// Kernels before and after one pass: tests/lower/golden/<pass>.txt, or <pass>.<kind>.txt. The first line names the
// target, each section has a fence `before` and a fence `after`. TCC_UPDATE_GOLDEN=1 writes what the pass gives now:
// read the difference. Both kernels must compute the same: the interpreter runs them.
//
// Between binding threads and placing barriers, a kernel for a GPU is not executable: its threads would read what
// others have not written yet. A section of such a pass has a fence `nest` in front, a kernel at Nest. The passes in
// front of the pass make `before` of it, and what the rest of the lowering makes of `after` runs concurrently beside
// the nest.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/lower/lower.h"
#include "tcc/lower/pass.h"
#include "tcc/support/files.h"
#include "traces/reference.h"

using namespace tcc;

namespace {

struct Example {
  std::string title, nest, before, after;
};
struct Golden {
  std::string target;
  std::vector<Example> examples;
};

Golden read_golden(const std::string& path) {
  auto text = read_file(path);
  if (!text) FAIL(text.error().message);
  Golden out;
  std::string* fence = nullptr;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "```") {
      fence = nullptr;
    } else if (fence != nullptr) {
      *fence += line + "\n";
    } else if (line.starts_with("target ")) {
      out.target = line.substr(7);
    } else if (line.starts_with("## ")) {
      out.examples.push_back({line.substr(3), "", "", ""});
    } else if (line == "```nest" || line == "```before" || line == "```after") {
      REQUIRE_FALSE(out.examples.empty());
      Example& e = out.examples.back();
      fence = line == "```nest" ? &e.nest : line == "```before" ? &e.before : &e.after;
    }
  }
  CHECK(fence == nullptr);
  return out;
}

std::string print_golden(const Golden& golden) {
  std::string text = "target " + golden.target + "\n";
  for (const Example& e : golden.examples) {
    text += fmt::format("\n## {}\n", e.title);
    if (!e.nest.empty()) text += fmt::format("```nest\n{}```\n", e.nest);
    text += fmt::format("```before\n{}```\n```after\n{}```\n", e.before, e.after);
  }
  return text;
}

void check_same_results(const ir::Kernel& before, const ir::Kernel& after) {
  std::vector<interp::TensorData> x;
  for (const ir::Buffer* b : before.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    x.push_back(interp::TensorData::make_random_integers(b->type, shape, 5 + x.size()));
  }
  std::vector<interp::TensorData> y = x;
  for (auto [k, data] : {std::pair(&before, &x), std::pair(&after, &y)}) {
    std::vector<interp::TensorData*> params;
    for (interp::TensorData& d : *data) params.push_back(&d);
    const interp::Report report = interp::run(*k, params, {});
    if (!report.ok()) FAIL_CHECK(report.text() << "\n" << ir::print(*k));
  }
  for (size_t i = 0; i < x.size(); ++i) CHECK(x[i].to_doubles() == y[i].to_doubles());
}

// Of an example with a nest: the kernel in front of `pass`, and a check of what the lowering makes of the nest.
std::string lower_to(const lower::Pass& pass, const Example& e, const target::Target& target) {
  auto nest = ir::parse(e.nest, e.title);
  if (!nest) FAIL(nest.error().message);
  std::string before = ir::print(*nest);
  bool reached = false;
  const std::string name(pass.name);
  auto lowered = lower::lower(*nest, target, ir::Stage::kLowered, std::make_shared<Arena>(),
                              [&](const lower::Pass& ran, const ir::Kernel& k) {
                                reached |= ran.name == name;
                                if (!reached) before = ir::print(k);
                              });
  if (!lowered) FAIL(lowered.error().text);
  CHECK(reached);
  const testing::Reference reference(*nest);
  for (uint64_t seed : {1, 2}) reference.check(*lowered, e.title, seed);
  return before;
}

// What the pass gives. Kernels are small enough for the interpreter unless their title says otherwise.
std::string run_example(const lower::Pass& pass, const Example& e, const target::Target& target) {
  auto before = ir::parse(e.before, e.title);
  if (!before) FAIL(before.error().message);
  for (const std::string& finding : ir::verify(*before)) FAIL_CHECK(finding);
  CHECK(lower::missing_for(*before, pass.needs) == "");
  auto after = lower::run_pass(pass, *before, target, std::make_shared<Arena>());
  if (!after) FAIL(after.error().text);
  ir::Kernel checked = *after;
  if (pass.gives == lower::Form::kAllocated) checked.stage = ir::Stage::kNest;
  for (const std::string& finding : ir::verify(checked)) FAIL_CHECK(finding << "\n" << ir::print(*after));
  if (e.nest.empty() && e.before.find("in 1024") == std::string::npos) check_same_results(*before, checked);
  return ir::print(*after);
}

}  // namespace

TEST_CASE("golden kernels before and after each pass", "[golden]") {
  const char* flag = std::getenv("TCC_UPDATE_GOLDEN");
  const bool update = flag != nullptr && std::string(flag) == "1";
  std::vector<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TCC_SOURCE_DIR) + "/tests/lower/golden")) {
    const std::string path = entry.path().string(), file = entry.path().filename().string();
    const std::string name = file.substr(0, file.find('.'));
    INFO(name);
    seen.push_back(name);
    Golden golden = read_golden(path);
    const target::Target target = *target::find_target(golden.target);
    const lower::Pass* pass = lower::find_pass(lower::pipeline_of(target), name);
    REQUIRE(pass != nullptr);
    bool changed = false;
    for (Example& e : golden.examples) {
      INFO(e.title);
      if (!e.nest.empty()) {
        const std::string before = lower_to(*pass, e, target);
        if (!update) CHECK(before == e.before);
        e.before = before;
      }
      const std::string now = run_example(*pass, e, target);
      changed |= now != e.before;
      if (!update) CHECK(now == e.after);
      e.after = now;
    }
    CHECK(changed);
    if (update) REQUIRE(write_file(path, print_golden(golden)).has_value());
  }
  // Every pass but the check has its examples.
  for (const lower::Pipeline* pipeline : lower::pipelines())
    for (const lower::Pass& pass : pipeline->passes) {
      INFO(pass.name);
      CHECK((pass.name == "check_limits" || std::find(seen.begin(), seen.end(), pass.name) != seen.end()));
    }
}
