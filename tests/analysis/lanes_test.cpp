// flatten: the address of an access as one expression.
#include "tcc/analysis/lanes.h"

#include <catch2/catch.hpp>

#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

// The address of the kernel's only store.
std::string store_address(const char* text) {
  auto kernel = ir::parse(text);
  REQUIRE(kernel);
  Arena arena;
  ir::Builder b(arena);
  analysis::Ranges ranges(*kernel);
  std::string address;
  ir::visit(kernel->root, [&](ir::Stmt s) {
    if (const auto* loop = ir::as<ir::Loop>(s)) ranges.set(loop->id, loop->extent);
    if (const auto* store = ir::as<ir::Store>(s)) {
      const ir::Buffer& buffer = *kernel->buffer(store->buffer);
      const auto strides = analysis::row_major_strides(buffer);
      address = ir::print(*kernel, analysis::flatten(b, buffer, strides, store->indices, ranges));
    }
    return true;
  });
  return address;
}

}  // namespace

TEST_CASE("loops that were fused and split in other places walk through memory as one index") {
  // 42 elements begin and end inside rows of 28.
  CHECK(store_address(R"(kernel nest {
  output y: f32[30, 28, 28]
  for a in 8 {
    for b in 70 {
      for c in 42 {
        y[(a*2940 + b*42 + c) // 784, (a*105 + (b*42 + c) // 28) % 28, (b*42 + c) % 28] = 1.0
      }
    }
  }
}
)") == "a*2940 + b*42 + c");
  // Of a slice, rows are apart: the division stays.
  CHECK(store_address(R"(kernel nest {
  output y: f32[30, 28, 32]
  for a in 8 {
    for b in 70 {
      for c in 42 {
        y[(a*2940 + b*42 + c) // 784, (a*105 + (b*42 + c) // 28) % 28, (b*42 + c) % 28] = 1.0
      }
    }
  }
}
)") != "a*2940 + b*42 + c");
}
