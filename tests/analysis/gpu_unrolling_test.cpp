// How far loops of GPU kernels become straight code.
#include "tcc/analysis/gpu_unrolling.h"

#include <catch2/catch.hpp>

#include "tcc/ir/text.h"

using namespace tcc;

TEST_CASE("loops that stay on the chip are expanded further than others") {
  CHECK(analysis::max_unrolled_statements(true, false) > analysis::max_unrolled_statements(false, false));
  CHECK(analysis::max_unrolled_statements(true, true) == analysis::max_unrolled_statements(false, true));
  auto k = ir::parse(R"(kernel nest {
  input A: f32[16]
  output B: f32[16]
  temp s: f32[16] shared
  alloc s {
    for i in 16 {
      s[i] = 1.0
    }
    for j in 16 {
      s[j] = A[j]
    }
    for l in 16 {
      B[l] = s[l] * 2.0
    }
  }
}
)");
  REQUIRE(k.has_value());
  std::vector<bool> stays;
  ir::visit(k->root, [&](ir::Stmt s) {
    if (ir::as<ir::Loop>(s) != nullptr)
      stays.push_back(
          analysis::stays_on_chip(s, [&](ir::Id id) { return k->buffer(id)->scope == ir::Scope::kShared; }));
    return true;
  });
  CHECK(stays == std::vector{true, false, false});
}

TEST_CASE("loads of a serial loop go together by a divisor of its extent, or by four") {
  CHECK(analysis::unrolled_loads(16, 1) == 8);
  CHECK(analysis::unrolled_loads(6, 1) == 6);
  CHECK(analysis::unrolled_loads(16, 16) == 4);
  CHECK(analysis::unrolled_loads(37, 1) == 4);
  CHECK(analysis::unrolled_loads(31, 1) == 1);
  CHECK(analysis::unrolled_loads(16, 64) == 1);
}
