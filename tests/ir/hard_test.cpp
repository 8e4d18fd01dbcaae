// The expressibility suite: every kernel in tests/ir/hard parses, verifies, prints and parses again.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

std::vector<std::string> kernels_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TCC_SOURCE_DIR) + "/tests/ir/" + folder))
    if (entry.path().extension() == ".tir") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Kernel load(const std::string& path) {
  auto text = read_file(path);
  REQUIRE(text.has_value());
  auto kernel = parse(*text, path);
  if (!kernel) FAIL(kernel.error().message);
  return *kernel;
}

void check_round_trip(const Kernel& kernel) {
  std::string text = print(kernel);
  auto again = parse(text, "<printed>");
  if (!again) FAIL(again.error().message);
  CHECK(print(*again) == text);
  CHECK(hash_kernel(*again) == hash_kernel(kernel));
  Kernel copy = compact(kernel);
  CHECK(print(copy) == text);
  CHECK(hash_kernel(copy) == hash_kernel(kernel));
}

}  // namespace

TEST_CASE("hard kernels can be expressed", "[hard]") {
  std::vector<std::string> paths = kernels_in("hard");
  CHECK(paths.size() >= 14);
  for (const std::string& path : paths) {
    INFO(path);
    Kernel kernel = load(path);
    for (const std::string& finding : verify(kernel)) FAIL_CHECK(finding);
    check_round_trip(kernel);
  }
}

TEST_CASE("seeded defects are well-formed text", "[hard]") {
  std::vector<std::string> paths = kernels_in("defects");
  CHECK(paths.size() == 12);
  for (const std::string& path : paths) {
    INFO(path);
    Kernel kernel = load(path);
    // A reduction over a parallel loop is found without running; the other defects need the interpreter.
    bool racing_reduction = path.find("racing_reduction") != std::string::npos;
    CHECK(verify(kernel).empty() == !racing_reduction);
    check_round_trip(kernel);
  }
}
