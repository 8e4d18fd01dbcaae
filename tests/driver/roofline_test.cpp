#include <catch2/catch.hpp>

#include "driver/bench.h"

using namespace tcc;

TEST_CASE("a kernel's roofline is the slower of arithmetic and memory") {
  target::Target target;
  target.peak.fp32 = 100;
  target.peak.fp16 = 1000;
  target.memory_bandwidth = 10;
  driver::KernelTime kernel;
  REQUIRE(driver::roofline_seconds(kernel, target) == 0);  // an older library does not say the type
  kernel.type = ir::Type::kF32;
  kernel.flops = 1000;
  kernel.bytes = 10;
  REQUIRE(driver::roofline_seconds(kernel, target) == 10);
  kernel.type = ir::Type::kF16;
  REQUIRE(driver::roofline_seconds(kernel, target) == 1);
  kernel.bytes = 50;
  REQUIRE(driver::roofline_seconds(kernel, target) == 5);
}
