// What verifies can be lowered or is rejected: tcc-opt takes kernels from anybody.
#include <catch2/catch.hpp>

#include <cstdlib>

#include "../ir/edited_kernels.h"
#include "tcc/ir/verify.h"
#include "tcc/lower/lower.h"
#include "tcc/support/check.h"

using namespace tcc;

TEST_CASE("edited kernels that verify are lowered to kernels that verify, or rejected", "[fuzz]") {
  std::vector<std::string> texts = testing::kernel_texts();
  target::Target target = *target::find_target("x86-64-v3");
  int64_t wanted = std::getenv("TCC_SOAK") != nullptr ? 60000 : 2000, lowered = 0;
  for (int64_t n = 0; n < wanted; ++n) {
    Rng rng(static_cast<uint64_t>(n) + 700000);
    std::string text = testing::edited(texts[static_cast<size_t>(n) % texts.size()], rng);
    auto kernel = ir::parse(text, "fuzz.tir");
    if (!kernel || !ir::verify(*kernel).empty()) continue;
    std::string label = fmt::format("seed {}\n{}", n + 700000, text);
    INFO(label);
    CheckContext context([&] { return label; });
    for (ir::Stage stop : {ir::Stage::kNest, ir::Stage::kLowered}) {
      if (kernel->stage >= stop) continue;
      auto result = lower::lower(*kernel, target, stop, std::make_shared<Arena>());
      if (!result) {
        CHECK_FALSE(ir::reject_reason_name(result.error().reason).empty());
        break;
      }
      ++lowered;
      for (const std::string& finding : ir::verify(*result)) FAIL_CHECK(finding << "\n" << ir::print(*result));
    }
  }
  CHECK(lowered > wanted / 50);
}
