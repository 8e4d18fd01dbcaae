// The examples of tests/schedule/golden and docs/primitives.md. TCC_UPDATE_GOLDEN=1 writes the files instead of
// comparing with them: read the difference before you commit it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "example.h"
#include "tcc/ir/text.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

const std::string kSource = TCC_SOURCE_DIR;

bool updating() {
  const char* flag = std::getenv("TCC_UPDATE_GOLDEN");
  return flag != nullptr && std::string(flag) == "1";
}

std::vector<Example> run_file(const std::string& path) {
  auto text = read_file(path);
  if (!text) FAIL(text.error().message);
  std::string name = std::filesystem::relative(path, kSource).string();
  auto examples = read_examples(*text, name);
  if (!examples) FAIL(examples.error().message);
  std::vector<std::string> outcomes;
  if (!updating()) {
    for (const Example& e : *examples) check_example(e, name, path.ends_with(".txt"));
    return *examples;
  }
  std::string updated = *text;
  for (Example& e : *examples) {
    auto before = ir::parse(e.before, name);
    auto trace = schedule::parse_trace(e.trace);
    if (!before) FAIL(before.error().message);
    if (!trace) {
      outcomes.push_back(fmt::format("{}\n{}\n", kUnreadable, trace.error().message));
      if (!e.rejected) FAIL_CHECK(name << " (" << e.section << "): " << outcomes.back());
      continue;
    }
    auto result = schedule::replay(*trace, trace->decisions, *before, std::make_shared<Arena>());
    outcomes.push_back(
        result ? ir::print(*result)
               : fmt::format("{}\n{}\n", ir::reject_reason_name(result.error().reason), result.error().text));
    if (result.has_value() == e.rejected) FAIL_CHECK(name << " (" << e.section << "): " << outcomes.back());
  }
  REQUIRE(write_file(path, with_outcomes(*text, *examples, outcomes)).has_value());
  return *examples;
}

bool uses(const Example& e, schedule::Op op) {
  auto trace = schedule::parse_trace(e.trace);
  if (!trace) return e.rejected && e.trace.find(schedule::op_name(op)) != std::string::npos;
  return std::any_of(trace->instructions.begin(), trace->instructions.end(),
                     [&](const schedule::Instruction& in) { return in.op == op; });
}

}  // namespace

TEST_CASE("golden examples of each instruction", "[golden]") {
  std::map<std::string, std::vector<Example>> by_file;
  for (const auto& entry : std::filesystem::directory_iterator(kSource + "/tests/schedule/golden"))
    if (entry.path().extension() == ".txt") by_file[entry.path().stem().string()] = run_file(entry.path().string());
  for (const schedule::OpRow& row : schedule::op_table()) {
    const schedule::Op op = row.op;
    std::string name(schedule::op_name(op));
    INFO(name);
    int accepted = 0, rejected = 0;
    for (const Example& e : by_file[name]) {
      CHECK(uses(e, op));
      (e.rejected ? rejected : accepted)++;
    }
    CHECK(accepted >= 2);
    CHECK(rejected >= 2);
  }
}

TEST_CASE("docs/primitives.md has a section with a true example for each instruction", "[golden]") {
  std::vector<Example> examples = run_file(kSource + "/docs/primitives.md");
  for (const schedule::OpRow& row : schedule::op_table()) {
    const schedule::Op op = row.op;
    INFO(schedule::op_name(op));
    CHECK(std::any_of(examples.begin(), examples.end(), [&](const Example& e) {
      return e.section == schedule::op_name(op) && !e.rejected && uses(e, op);
    }));
  }
}

TEST_CASE("the example runner notices wrong files", "[golden]") {
  CHECK_FALSE(read_examples("```trace\n```\n", "x").has_value());
  CHECK_FALSE(read_examples("```before\nkernel\n```\n```trace\n```\n", "x").has_value());
  CHECK_FALSE(read_examples("```before\nkernel\n", "x").has_value());
  CHECK_FALSE(read_examples("```before\nkernel\n```\n```after\n```\n", "x").has_value());
  std::string file = "## a\n```before\nk\n```\n```trace\nt\n```\n```after\nold\nold\n```\nend\n";
  auto examples = read_examples(file, "x");
  REQUIRE(examples.has_value());
  REQUIRE(examples->size() == 1);
  CHECK(examples->front().section == "a");
  CHECK(with_outcomes(file, *examples, {"new\n"}) ==
        "## a\n```before\nk\n```\n```trace\nt\n```\n```after\nnew\n```\nend\n");
}
