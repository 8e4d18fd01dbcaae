// Reductions of whole tensors in two steps.
#include "tcc/graph/split_reductions.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tcc/graph/reference.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

// A reduction over all axes of a random tensor, behind an elementwise node or not.
struct Reduction {
  Op op = Op::kReduceSum;
  Shape shape{3, 40, 1024};
  DType dtype = DType::kF32;
  bool keep_dims = false, behind_relu = false;
  std::vector<int64_t> axes{0, 1, 2};
};

// How many were split. The result does not change.
int64_t split(const Reduction& r) {
  Graph g;
  ValueId x = g.add_input("x", r.dtype, r.shape);
  if (r.behind_relu) x = *g.add_node(Op::kRelu, NoAttrs{}, {x}, "relu");
  const ReduceAttrs attrs{r.axes, r.keep_dims, r.op == Op::kReduceMax};
  g.add_output(*g.add_node(r.op, attrs, {x}, "reduced"), "y");
  const std::vector<HostTensor> inputs{random_tensor(g.value(g.inputs[0]), 3)};
  const auto before = run_reference(g, inputs, 1);
  const Shape shape = g.value(g.outputs[0]).shape;
  const int64_t count = split_reductions(g);
  verify_graph(g);
  const auto after = run_reference(g, inputs, 1);
  REQUIRE((before.has_value() && after.has_value()));
  CHECK(g.value(g.outputs[0]).shape == shape);
  for (size_t i = 0; i < before->at(0).data.size(); ++i)
    CHECK(after->at(0).data[i] == Approx(before->at(0).data[i]).epsilon(1e-5).margin(1e-2));
  return count;
}

}  // namespace

TEST_CASE("reductions of large tensors to one number are split, and give the same") {
  for (Op op : {Op::kReduceSum, Op::kReduceMean, Op::kReduceMax, Op::kReduceMin})
    for (bool keep : {false, true}) CHECK(split({.op = op, .keep_dims = keep}) == 1);
  CHECK(split({.shape = {7, 9973, 2}}) == 0);  // no run divides it
  CHECK(split({.shape = {3, 4, 1024}}) == 0);  // small
  CHECK(split({.axes = {1, 2}}) == 0);         // three results
  CHECK(split({.dtype = DType::kF16}) == 0);   // partial sums would be rounded
  CHECK(split({.behind_relu = true}) == 0);    // the reduction's kernel makes its elements
  CHECK(split({.op = Op::kReduceProd}) == 0);
}
