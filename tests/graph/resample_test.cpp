// Resamples of several axes, one axis at a time where an estimate says that this costs less.
#include <catch2/catch.hpp>
#include <cmath>

#include "tcc/graph/reference.h"
#include "tcc/graph/resample_order.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

// Linear interpolation of `axes`, each to the extent beside it.
Graph resample(DType dtype, const Shape& shape, const std::vector<std::pair<int64_t, int64_t>>& axes) {
  Graph g;
  std::vector<ValueId> inputs = {g.add_input("x", dtype, shape)};
  ResampleAttrs attrs;
  for (const auto& [axis, out] : axes) {
    attrs.axes.push_back(axis);
    const int64_t in = shape[static_cast<size_t>(axis)];
    std::vector<int64_t> positions;
    std::vector<double> weights;
    for (int64_t i = 0; i < out; ++i) {
      const double place = static_cast<double>(i * (in - 1)) / static_cast<double>(std::max<int64_t>(out - 1, 1));
      const auto low = static_cast<int64_t>(place);
      positions.insert(positions.end(), {low, std::min(low + 1, in - 1)});
      weights.insert(weights.end(), {1 - (place - std::floor(place)), place - std::floor(place)});
    }
    inputs.push_back(g.add_constant("at", DType::kI64, {out, 2}, make_constant_i64(positions)));
    inputs.push_back(g.add_constant("by", DType::kF32, {out, 2}, make_constant_from_doubles(DType::kF32, weights)));
  }
  auto y = g.add_node(Op::kResample, attrs, inputs, "resize");
  REQUIRE(y.has_value());
  g.add_output(*y, "y");
  return g;
}

// The axes of each Resample that is left, in order.
std::vector<std::vector<int64_t>> separated(Graph g) {
  auto input = random_tensor(g.value(g.inputs[0]), 3);
  auto before = run_reference(g, {input}, 1);
  REQUIRE(before.has_value());
  separate_resamples(g);
  auto after = run_reference(g, {input}, 1);
  REQUIRE(after.has_value());
  REQUIRE(after->at(0).data.size() == before->at(0).data.size());
  for (size_t i = 0; i < after->at(0).data.size(); ++i)
    CHECK(std::fabs(after->at(0).data[i] - before->at(0).data[i]) < 1e-5);
  std::vector<std::vector<int64_t>> axes;
  for (NodeId id : g.order) {
    CHECK(g.node(id).name.find("resize") == 0);
    axes.push_back(g.node(id).as<ResampleAttrs>().axes);
  }
  return axes;
}

using Axes = std::vector<std::vector<int64_t>>;

}  // namespace

TEST_CASE("resampled axes are computed one by one, the last one where the tensor is small") {
  // It grows: the rows are made wide before there are more of them. It shrinks: rows are dropped first.
  CHECK(separated(resample(DType::kF32, {1, 2, 9, 7}, {{2, 36}, {3, 30}})) == Axes{{3}, {2}});
  CHECK(separated(resample(DType::kF32, {1, 2, 36, 30}, {{2, 20}, {3, 17}})) == Axes{{2}, {3}});
  CHECK(separated(resample(DType::kF32, {2, 5, 4, 6}, {{1, 10}, {2, 8}, {3, 12}})).front() == std::vector<int64_t>{3});
}

TEST_CASE("a resample stays whole where parts of it cost as much or would be rounded") {
  CHECK(separated(resample(DType::kF32, {3, 9, 7}, {{2, 30}})) == Axes{{2}});
  CHECK(separated(resample(DType::kF16, {3, 9, 7}, {{1, 36}, {2, 30}})) == Axes{{1, 2}});
}
