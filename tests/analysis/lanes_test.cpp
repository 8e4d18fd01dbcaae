// flatten: the address of an access as one expression.
#include "tcc/analysis/lanes.h"

#include <catch2/catch.hpp>

#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

// The address of the kernel's only store.
std::string store_address(std::string_view text) {
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
  const auto in_rows_of = [](int width) {
    return store_address(fmt::format(R"(kernel nest {{
  output y: f32[30, 28, {}]
  for a in 8 {{
    for b in 70 {{
      for c in 42 {{
        y[(a*2940 + b*42 + c) // 784, (a*105 + (b*42 + c) // 28) % 28, (b*42 + c) % 28] = 1.0
      }}
    }}
  }}
}}
)",
                                     width));
  };
  CHECK(in_rows_of(28) == "a*2940 + b*42 + c");
  // Of a slice, rows are apart: the division stays.
  CHECK(in_rows_of(32).find("//") != std::string::npos);
  // Of two images the channels of each are one run.
  CHECK(store_address(R"(kernel nest {
  output y: f32[2, 235, 52, 52]
  for a in 8 {
    for b in 8788 {
      for c in 16 {
        y[(a*140608 + b*16 + c) // 562432, (a*52 + (b*16 + c) // 2704) % 208, ((b*16 + c) // 52) % 52, (b*16 + c) % 52] = 1.0
      }
    }
  }
}
)") == "(a // 4)*635440 + (a % 4)*140608 + b*16 + c");
  // The same in a tensor that holds more channels, in tiles that end inside rows and planes.
  CHECK(store_address(R"(kernel nest {
  output y: f32[2, 235, 52, 52]
  for a in 754 {
    for b in 91 {
      for c in 16 {
        y[(a*1456 + b*16 + c) // 548912, ((a*1456 + b*16 + c) // 2704) % 203 + 32, ((a*1456 + b*16 + c) // 52) % 52, (a*1456 + b*16 + c) % 52] = 1.0
      }
    }
  }
}
)") == "(a // 377)*635440 + (a % 377)*1456 + b*16 + c + 86528");
}
