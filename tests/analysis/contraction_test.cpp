#include "tcc/analysis/contraction.h"

#include <catch2/catch.hpp>

#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

using Iters = std::vector<size_t>;

struct Classified {
  ir::Kernel kernel;
  analysis::Contraction contraction;
};

// The last block of a kernel, with the extents that its iterators are declared with.
Classified classify(const char* text) {
  auto kernel = ir::parse(text);
  if (!kernel) FAIL(kernel.error().message);
  const ir::Block* block = ir::collect_blocks(kernel->root).back();
  std::vector<int64_t> extents;
  for (const ir::Iter& it : block->iters) extents.push_back(ir::int_value(it.extent));
  auto found = analysis::classify(*kernel, *block, std::move(extents));
  REQUIRE(found.has_value());
  return {*kernel, *found};
}

}  // namespace

TEST_CASE("the iterators of a matrix product by what they index") {
  const Classified c = classify(R"(kernel built {
  input A: f32[4, 1, 32]
  weight B: f32[4, 32, 24]
  output C: f32[4, 1, 24]
  for b in 4 {
    for i in 1 {
      for j in 24 {
        for k in 32 {
          block product(vb: spatial 4 = b, vi: spatial 1 = i, vj: spatial 24 = j, vk: reduce 32 = k) {
            init {
              C[vb, vi, vj] = 0.0
            }
            C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vb, vk, vj]
          }
        }
      }
    }
  }
}
)");
  const analysis::Contraction& product = c.contraction;
  REQUIRE(product.operands.size() == 2);
  CHECK_FALSE(product.operands[0].constant);
  CHECK(product.operands[1].constant);
  CHECK(product.operands[1].stride == std::vector<std::optional<int64_t>>{32 * 24, 0, 1, 24});
  CHECK(product.operands[1].dim == std::vector<int>{0, -1, 2, 1});
  CHECK(product.result.stride[2] == 1);
  CHECK(product.is_reduction());
  CHECK(product.domain() == 4 * 24 * 32);
  CHECK(product.has_reuse(2));
  CHECK_FALSE(product.has_reuse(0));
  CHECK_FALSE(product.window(3).has_value());
  const auto roles = analysis::product_roles(product);
  REQUIRE(roles.has_value());
  CHECK(roles->batch == Iters{0});
  CHECK(roles->unit == Iters{1});
  CHECK(roles->right == Iters{2});
  CHECK(roles->sums == Iters{3});
  CHECK(roles->left.empty());
  CHECK(analysis::product_roles(product, 1)->left == Iters{2});
  CHECK(analysis::merged(roles->sums, roles->batch) == Iters{0, 3});
}

TEST_CASE("windows have a step and a dilation") {
  const Classified c = classify(R"(kernel built {
  input X: f32[8, 35]
  output Y: f32[8, 15]
  for c in 8 {
    for i in 15 {
      for k in 3 {
        block pool(vc: spatial 8 = c, vi: spatial 15 = i, vk: reduce 3 = k) {
          init {
            Y[vc, vi] = 0.0
          }
          Y[vc, vi] = Y[vc, vi] + X[vc, 2 * vi + 3 * vk]
        }
      }
    }
  }
}
)");
  const auto window = c.contraction.window(2);
  REQUIRE(window.has_value());
  CHECK(window->iterator == 1);
  CHECK(window->step == 2);
  CHECK(window->dilation == 3);
  CHECK(c.contraction.operands[0].stride == std::vector<std::optional<int64_t>>{35, 2, 3});
  CHECK_FALSE(analysis::product_roles(c.contraction).has_value());  // one operand
}

TEST_CASE("iterators of groups move within one group") {
  const Classified c = classify(R"(kernel built {
  input X: f32[4, 9]
  weight W: f32[8, 9]
  output Y: f32[8]
  for f in 8 {
    for k in 9 {
      block group(vf: spatial 8 = f, vk: reduce 9 = k) {
        init {
          Y[vf] = 0.0
        }
        Y[vf] = Y[vf] + X[vf // 2, vk] * W[vf, vk]
      }
    }
  }
}
)");
  CHECK(c.contraction.group == std::vector<int64_t>{2, 0});
  CHECK(c.contraction.tiled_extent(0) == 2);
  CHECK(c.contraction.operands[0].stride[0] == 0);
  CHECK(c.contraction.operands[0].moves[0]);
  CHECK(c.contraction.has_reuse(0));
  CHECK_FALSE(analysis::product_roles(c.contraction).has_value());
}
