// A model that was never tuned, built from records of one with the same matrix product.
#include "model_bytes.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

// y = a b, or ReLU(a b), of 64 by 64.
std::string product_model(bool relu) {
  const std::string extent = field(1, number(1, 64)), shape = field(2, extent + extent);
  auto matrix = [&](const std::string& name) { return field(1, name) + field(2, field(1, number(1, 1) + shape)); };
  const std::string product = relu ? "p" : "y";
  std::string graph = field(1, field(1, "a") + field(1, "b") + field(2, product) + field(4, "MatMul"));
  if (relu) graph += field(1, field(1, product) + field(2, "y") + field(4, "Relu"));
  graph += field(2, "product") + field(11, matrix("a")) + field(11, matrix("b")) + field(12, matrix("y"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

}  // namespace

TEST_CASE("a kernel that is not tuned takes the schedule of its relative, and the build says so", "[cli]") {
  Sandbox box;
  spill(box.path("bare.onnx"), product_model(false));
  spill(box.path("relu.onnx"), product_model(true));
  REQUIRE(box.tcc({"tune", "bare.onnx", "--trials", "6", "--threads", "1", "--db", "r.db"}).exit_code == 0);
  Outcome built = box.tcc({"build", "relu.onnx", "-o", "out", "--threads", "1", "--db", "r.db"});
  CAPTURE(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK_THAT(built.err, Contains("not tuned") && Contains("same anchor") && Contains("replayed and checked here"));
  CHECK(box.tcc({"verify", "out/librelu.so"}).exit_code == 0);
  CHECK(
      box.tcc({"build", "relu.onnx", "-o", "strict", "--threads", "1", "--db", "r.db", "--require-tuned"}).exit_code ==
      1);
}
