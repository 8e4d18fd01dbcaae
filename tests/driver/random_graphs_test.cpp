// Random graphs over all operators, built as a user's model is: every element of the results is as near to the
// reference in double as rounding allows, and NaN and infinities are where the reference has them.
#include "driver/random_graphs.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "driver/run_built.h"
#include "skip.h"
#include "tcc/graph/error_bound.h"

using namespace tcc;
using namespace tcc::driver_test;

namespace {

double greatest_of(DType dtype) {
  if (dtype == DType::kF16) return 65504;
  if (dtype == DType::kF32 || dtype == DType::kBF16) return 3.4e38;
  return dtype == DType::kF64 ? 1e300 : 0x1p52;
}

// Values beyond the range of their type, or so small that kernels flush them, are a matter of the order of operations.
bool stays_in_range(const Graph& graph, const std::vector<graph::HostTensor>& inputs) {
  Graph all = graph;
  all.outputs.clear();
  all.output_names.clear();
  for (graph::NodeId id : graph.order) all.add_output(graph.node(id).output, "v");
  auto values = graph::run_reference(all, inputs, 1);
  if (!values) FAIL(values.error().message);
  for (size_t i = 0; i < values->size(); ++i) {
    const DType dtype = all.value(all.outputs[i]).dtype;
    const double least = graph::is_float(dtype) ? graph::smallest_normal(dtype) : 0;
    for (double v : values->at(i).data)
      if (std::isfinite(v) && (std::fabs(v) > greatest_of(dtype) || (v != 0 && std::fabs(v) < least))) return false;
  }
  return true;
}

std::vector<graph::HostTensor> random_inputs(const Graph& graph, Rng rng, bool edges) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kEdges[] = {
      std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0.0, -0.0, 1, -1, 2};
  std::vector<graph::HostTensor> inputs;
  for (ValueId id : graph.inputs) {
    const graph::Value& v = graph.value(id);
    graph::HostTensor t = graph::random_tensor(v, static_cast<uint64_t>(rng.below(1 << 30)));
    for (double& x : t.data) {
      if (edges && graph::is_float(v.dtype) && rng.below(6) == 0) x = kEdges[rng.below(std::size(kEdges))];
    }
    t.data = graph::constant_doubles(graph::make_constant_from_doubles(v.dtype, t.data), v.dtype, v.elements());
    inputs.push_back(std::move(t));
  }
  return inputs;
}

// What is wrong with the results; "": nothing.
std::string difference(const Graph& graph, const std::vector<graph::BoundedTensor>& expected,
                       const std::vector<std::vector<double>>& got) {
  for (size_t o = 0; o < got.size(); ++o) {
    const graph::Value& v = graph.value(graph.outputs[o]);
    for (size_t i = 0; i < got[o].size(); ++i) {
      const double a = got[o][i], b = expected[o].value.data[i], allowed = expected[o].allowed[i];
      const bool same =
          (std::isnan(a) && std::isnan(b)) || a == b || std::isinf(allowed) || std::fabs(a - b) <= allowed;
      if (same) continue;
      return fmt::format("output {} ({}, {} {}) at {}: {} instead of {}, {} is allowed", o,
                         graph::node_name(graph.node(v.producer)), graph::dtype_name(v.dtype),
                         graph::shape_text(v.shape), i, a, b, allowed);
    }
  }
  return "";
}

}  // namespace

// TCC_SEED, TCC_GRAPHS (their number) and TCC_FIRST (the first one's) choose others than those of the suite.
TEST_CASE("random graphs over all operators equal the reference", "[fuzz]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char *given = std::getenv("TCC_SEED"), *count = std::getenv("TCC_GRAPHS"), *from = std::getenv("TCC_FIRST");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261126;
  const int64_t wanted = count != nullptr ? std::strtoll(count, nullptr, 10) : soak ? 400 : 12;
  std::set<std::string> seen;
  int64_t made = 0, left_out = 0;
  for (uint64_t i = from != nullptr ? std::strtoull(from, nullptr, 10) : 0; made < wanted; ++i) {
    Rng rng = Rng(seed).fork(i);
    const Graph graph = GraphMaker(rng.fork(0)).make(5 + rng.fork(1).below(soak ? 36 : 16));
    const bool edges = i % 3 == 2;
    const std::vector<graph::HostTensor> inputs = random_inputs(graph, rng.fork(2), edges);
    INFO("TCC_SEED=" << seed << ", graph " << i << (edges ? " with NaN and infinities" : "") << "\n" << text_of(graph));
    if (!stays_in_range(graph, inputs)) {
      ++left_out;
      REQUIRE(left_out < 20 + 2 * wanted);
      continue;
    }
    ++made;
    if (std::getenv("TCC_GRAPHS") != nullptr)
      std::fprintf(stderr, "graph %d\n%s", static_cast<int>(i), text_of(graph).c_str());
    auto expected = graph::run_bounded_reference(graph, inputs, {}, 1);
    if (!expected) FAIL(expected.error().message);
    const std::string wrong = difference(graph, *expected, run_built(graph, inputs));
    CHECK(wrong == "");
    for (graph::NodeId id : graph.order) seen.insert(std::string(graph::node_name(graph.node(id))));
  }
  if (from == nullptr) CHECK(seen.size() > (wanted >= 100 ? 80U : 30U));
}

TEST_CASE("the generator makes every operator of the graph") {
  std::set<Op> seen;
  for (uint64_t i = 0; i < 400; ++i) {
    const Graph graph = GraphMaker(Rng(7).fork(i)).make(20);
    graph::verify_graph(graph);
    for (graph::NodeId id : graph.order) seen.insert(graph.node(id).op);
    // Some operators are made by passes only.
    Graph optimized = graph;
    REQUIRE(graph::optimize(optimized, nullptr));
    for (graph::NodeId id : optimized.order) seen.insert(optimized.node(id).op);
  }
#define X(enumerator, ...)              \
  INFO(graph::op_name(Op::enumerator)); \
  CHECK(seen.contains(Op::enumerator));
  TCC_GRAPH_OPS(X)
#undef X
}
