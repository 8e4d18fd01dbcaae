// The parser on edited kernels: an error with a place, or a kernel that prints, parses again and can be verified.
#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>

#include "edited_kernels.h"
#include "tcc/ir/verify.h"
#include "tcc/support/check.h"

using namespace tcc;
using namespace tcc::ir;
using namespace tcc::testing;

TEST_CASE("edited kernels are parsed or refused with a place", "[fuzz]") {
  std::vector<std::string> texts = kernel_texts();
  int64_t wanted = std::getenv("TCC_SOAK") != nullptr ? 60000 : 2000, parsed = 0, sound = 0;
  for (int64_t n = 0; n < wanted; ++n) {
    Rng rng(static_cast<uint64_t>(n) + 5000);
    std::string text = edited(texts[static_cast<size_t>(n) % texts.size()], rng);
    std::string label = fmt::format("seed {}\n{}", n + 5000, text);
    INFO(label);
    CheckContext context([&] { return label; });
    auto kernel = parse(text, "fuzz.tir");
    if (!kernel) {
      int line = 0, column = 0;
      CHECK(std::sscanf(kernel.error().message.c_str(), "fuzz.tir:%d:%d:", &line, &column) == 2);
      continue;
    }
    ++parsed;
    std::string printed = print(*kernel);
    auto again = parse(printed, "again.tir");
    if (!again) {
      FAIL_CHECK(again.error().message << "\n" << printed);
      continue;
    }
    CHECK(hash_kernel(*again) == hash_kernel(*kernel));
    CHECK(print(*again) == printed);
    bool clean = verify(*kernel).empty();
    CHECK(verify(*again).empty() == clean);
    sound += clean ? 1 : 0;
    CHECK(hash_kernel(compact(*kernel)) == hash_kernel(*kernel));
  }
  CHECK(parsed > wanted / 20);
  CHECK(sound > wanted / 50);
}
