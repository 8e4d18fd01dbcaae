// Iterations that give a block another instance each.
#include "tcc/analysis/injective.h"

#include <catch2/catch.hpp>

#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

// Two loops around a block.
bool injective_kernel(const std::string& text) {
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  const ir::Loop* i = ir::as<ir::Loop>(k->root);
  const ir::Loop* j = ir::as<ir::Loop>(i->body);
  const ir::Loop* loops[2] = {i, j};
  analysis::Ranges ranges(*k);
  for (const ir::Loop* l : loops) ranges.set(l->id, l->extent);
  ir::Builder b(*k->arena);
  return analysis::is_injective(b, *ir::as<ir::Block>(j->body), loops, ranges);
}

// Loops i of 12 and j of 5 around a block with the two given bindings.
bool injective(const std::string& first, const std::string& second, int64_t extent = 12) {
  const std::string text = fmt::format(
      "kernel scheduled {{\n  output B: f32[64, 64]\n  for i in {} {{ for j in 5 {{\n"
      "    block b(x: spatial 64 = {}, y: spatial 64 = {}) {{ B[x, y] = 1.0 }}\n  }} }}\n}}\n",
      extent, first, second);
  return injective_kernel(text);
}

}  // namespace

TEST_CASE("sums of loops are told apart by their radix") {
  CHECK(injective("i", "j"));
  CHECK(injective("i*5 + j", "0"));
  CHECK_FALSE(injective("i*4 + j", "0"));
  CHECK_FALSE(injective("i", "0"));
}

TEST_CASE("a loop that is taken apart into digits is used whole") {
  CHECK(injective("i // 4", "j + i % 4 * 5"));
  CHECK(injective("i // 4 * 5 + j", "i % 4"));
  CHECK(injective("i // 6*2 + i % 2", "i // 2 % 3 + j*3"));
  // A digit is missing, is too short, or is there twice.
  CHECK_FALSE(injective("i // 4", "j"));
  CHECK_FALSE(injective("i // 4", "j + i % 3 * 5"));
  CHECK_FALSE(injective("i // 4 % 2", "j + i % 4 * 5"));
  CHECK_FALSE(injective("i // 4", "j + i % 4 * 4"));
  CHECK(injective("i // 4 % 2", "j + i % 4 * 5", 8));
}

TEST_CASE("loops that were fused and split again are told apart through quotient and remainder") {
  CHECK(injective("(i*5 + j) // 15", "(i*5 + j) % 15"));
  CHECK(injective("(i*10 + j) // 30", "(i*10 + j) % 30"));
  CHECK_FALSE(injective("(i*4 + j) // 16", "(i*4 + j) % 16"));
  CHECK_FALSE(injective("(i*5 + j) // 15", "(i*5 + j) % 10"));
  // A loop of one iteration is in no one's way.
  CHECK(injective("(i*20 + j) // 10", "j", 1));
}

TEST_CASE("digits of a tensor's place are told apart where they do not meet those of the loops") {
  auto of = [](const std::string& last) {
    const std::string text =
        "kernel scheduled {\n  output B: f32[4, 5, 3]\n  for i in 9 { for j in 7 {\n"
        "    block b(x: spatial 4 = (i*7 + j) // 15, y: spatial 5 = (i*7 + j) // 3 % 5, z: spatial 3 = " +
        last + ") { B[x, y, z] = 1.0 }\n  } }\n}\n";
    return injective_kernel(text);
  };
  CHECK(of("(i*7 + j) % 3"));
  CHECK_FALSE(of("(i*7 + j) % 2"));
  CHECK_FALSE(of("(i*6 + j) % 3"));
  CHECK_FALSE(of("0"));
}
