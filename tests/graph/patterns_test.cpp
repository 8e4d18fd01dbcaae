// Checks, folding and patterns of the operators of one element, the gathers and the cutting operators.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "graph/add_node.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/graph/refusal.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

ValueId unary(Graph& g, UnaryFn fn, ValueId x) {
  return add(g, Op::kUnary, UnaryAttrs{fn}, {x});
}
ValueId arithmetic(Graph& g, Op op, ValueId x, ValueId y) {
  return add(g, op, NoAttrs{}, {x, y});
}
ValueId scalar(Graph& g, double v) {
  return g.add_constant("c", DType::kF32, {}, make_splat(DType::kF32, v));
}
Error failure(Graph& g, Op op, Attributes attrs, std::vector<ValueId> inputs) {
  auto id = g.add_node(op, std::move(attrs), std::move(inputs), "bad");
  REQUIRE(!id.has_value());
  return id.error();
}

std::string ops_of(const Graph& g) {
  std::string text;
  for (NodeId id : g.order) text += (text.empty() ? "" : " ") + std::string(node_name(g.node(id)));
  return text;
}

// Runs before and after optimize; the results agree.
std::string optimised(Graph g, double tolerance = 1e-6) {
  std::vector<HostTensor> inputs;
  for (ValueId id : g.inputs) inputs.push_back(random_tensor(g.value(id), 5));
  auto before = run_reference(g, inputs, 1);
  auto evaluator = reference_evaluator();
  REQUIRE(optimize(g, evaluator.get()).has_value());
  auto after = run_reference(g, inputs, 1);
  REQUIRE(before.has_value());
  REQUIRE(after.has_value());
  for (size_t i = 0; i < before->at(0).data.size(); ++i)
    REQUIRE(std::fabs(before->at(0).data[i] - after->at(0).data[i]) <= tolerance);
  return ops_of(g);
}

// `divide`: x / sqrt 2 rather than x * 0.7071; `half_first`: (0.5 x) * (1 + ...) rather than 0.5 * (x * ...).
std::string erf_gelu(bool divide, bool half_first, bool swapped) {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 3});
  ValueId arg = divide ? arithmetic(g, Op::kDiv, x, scalar(g, std::sqrt(2.0)))
                       : arithmetic(g, Op::kMul, x, scalar(g, std::sqrt(0.5)));
  ValueId erf = unary(g, UnaryFn::kErf, arg);
  ValueId sum = swapped ? arithmetic(g, Op::kAdd, scalar(g, 1), erf) : arithmetic(g, Op::kAdd, erf, scalar(g, 1));
  ValueId y = half_first ? arithmetic(g, Op::kMul, arithmetic(g, Op::kMul, x, scalar(g, 0.5)), sum)
                         : arithmetic(g, Op::kMul, arithmetic(g, Op::kMul, swapped ? sum : x, swapped ? x : sum),
                                      scalar(g, 0.5));
  g.add_output(y, "y");
  return optimised(g);
}

struct NormForm {
  bool two_differences = false, affine = true, extra_reader = false;
  double factor = 1;  // of the variance's axes: 1 = the same axes
};
std::string layer_norm(const NormForm& form) {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 3, 8});
  ReduceAttrs last{{2}, true};
  ValueId mean = add(g, Op::kReduceMean, last, {x});
  ValueId d = arithmetic(g, Op::kSub, x, mean);
  ValueId e = form.two_differences ? arithmetic(g, Op::kSub, x, mean) : d;
  ValueId variance = add(g, Op::kReduceMean, last, {arithmetic(g, Op::kMul, e, e)});
  ValueId root = unary(g, UnaryFn::kSqrt, arithmetic(g, Op::kAdd, variance, scalar(g, 1e-5)));
  ValueId y = arithmetic(g, Op::kDiv, d, root);
  if (form.affine) {
    ValueId scale = g.add_constant("s", DType::kF32, {8}, make_splat(DType::kF32, 2));
    ValueId bias = g.add_constant("b", DType::kF32, {1, 1, 8}, make_splat(DType::kF32, 0.5));
    y = arithmetic(g, Op::kAdd, arithmetic(g, Op::kMul, y, scale), bias);
  }
  g.add_output(y, "y");
  if (form.extra_reader) g.add_output(root, "root");
  return optimised(g, 1e-5);
}

}  // namespace

TEST_CASE("Gelu is recognized in every order of its operands") {
  for (bool divide : {false, true}) {
    for (bool half_first : {false, true}) {
      for (bool swapped : {false, true}) CHECK(erf_gelu(divide, half_first, swapped) == "Gelu");
    }
  }
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {5});
  ValueId cube = arithmetic(g, Op::kMul, arithmetic(g, Op::kMul, x, x), x);
  ValueId inner = arithmetic(g, Op::kAdd, x, arithmetic(g, Op::kMul, scalar(g, 0.044715), cube));
  ValueId tanh = add(g, Op::kTanh, NoAttrs{}, {arithmetic(g, Op::kMul, inner, scalar(g, std::sqrt(2 / M_PI)))});
  ValueId half = arithmetic(g, Op::kMul, scalar(g, 0.5), x);
  g.add_output(arithmetic(g, Op::kMul, half, arithmetic(g, Op::kAdd, tanh, scalar(g, 1))), "y");
  CHECK(optimised(g) == "GeluTanh");
}

TEST_CASE("what is almost a Gelu stays") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {5});
  ValueId erf = unary(g, UnaryFn::kErf, arithmetic(g, Op::kMul, x, scalar(g, 0.7)));
  ValueId sum = arithmetic(g, Op::kAdd, erf, scalar(g, 1));
  g.add_output(arithmetic(g, Op::kMul, arithmetic(g, Op::kMul, x, sum), scalar(g, 0.5)), "y");
  CHECK(optimised(g).find("Gelu") == std::string::npos);
}

TEST_CASE("an input times a gate of it is one function") {
  auto made = [](auto build) {
    Graph g;
    ValueId x = g.add_input("x", DType::kF32, {2, 3});
    g.add_output(build(g, x), "y");
    return optimised(g);
  };
  auto sigmoid = [](Graph& g, ValueId x) { return add(g, Op::kSigmoid, NoAttrs{}, {x}); };
  CHECK(made([&](Graph& g, ValueId x) { return arithmetic(g, Op::kMul, x, sigmoid(g, x)); }) == "Swish");
  CHECK(made([&](Graph& g, ValueId x) {
          return arithmetic(g, Op::kMul, sigmoid(g, arithmetic(g, Op::kMul, x, scalar(g, 1.702))), x);
        }) == "Swish");
  CHECK(made([&](Graph& g, ValueId x) {
          ValueId c = add(g, Op::kClip, ClipAttrs{0, 6}, {arithmetic(g, Op::kAdd, x, scalar(g, 3))});
          return arithmetic(g, Op::kDiv, arithmetic(g, Op::kMul, x, c), scalar(g, 6));
        }) == "HardSwish");
  CHECK(made([&](Graph& g, ValueId x) {
          ValueId h = add(g, Op::kUnary, UnaryAttrs{UnaryFn::kHardSigmoid, 1.0 / 6, 0.5}, {x});
          return arithmetic(g, Op::kMul, h, x);
        }) == "HardSwish");
  CHECK(made([&](Graph& g, ValueId x) {
          ValueId t = add(g, Op::kTanh, NoAttrs{}, {unary(g, UnaryFn::kSoftplus, x)});
          return arithmetic(g, Op::kMul, t, x);
        }) == "Mish");
  // Gates of other slopes, bounds or inputs stay what they are.
  CHECK(made([&](Graph& g, ValueId x) {
          ValueId h = add(g, Op::kUnary, UnaryAttrs{UnaryFn::kHardSigmoid, 0.2, 0.5}, {x});
          return arithmetic(g, Op::kMul, h, x);
        }) == "HardSigmoid Mul");
  CHECK(made([&](Graph& g, ValueId x) { return arithmetic(g, Op::kMul, x, sigmoid(g, unary(g, UnaryFn::kAbs, x))); }) ==
        "Abs Sigmoid Mul");
}

TEST_CASE("LayerNorm written out becomes one node") {
  CHECK(layer_norm({}) == "LayerNorm");
  CHECK(layer_norm({.two_differences = true}) == "LayerNorm");
  CHECK(layer_norm({.affine = false}) == "LayerNorm");
  CHECK(layer_norm({.extra_reader = true}).find("LayerNorm") == std::string::npos);
}

TEST_CASE("wrong inputs are errors, unsupported types are refusals with a reason") {
  Graph g;
  ValueId f = g.add_input("f", DType::kF32, {2, 3}), i = g.add_input("i", DType::kI64, {2, 3}),
          b = g.add_input("b", DType::kBool, {2, 3}), u = g.add_input("u", DType::kU32, {2, 3}),
          w = g.add_input("w", DType::kU64, {2, 3});
  auto reason = [&](Op op, Attributes attrs, std::vector<ValueId> inputs) {
    return refusal_of(failure(g, op, std::move(attrs), std::move(inputs)));
  };
  CHECK(reason(Op::kUnary, UnaryAttrs{UnaryFn::kExp}, {i}) == Refusal::kElementType);
  CHECK(reason(Op::kBinary, BinaryAttrs{BinaryFn::kAnd}, {f, f}) == Refusal::kElementType);
  CHECK(reason(Op::kBinary, BinaryAttrs{BinaryFn::kPow}, {u, u}) == Refusal::kElementType);
  CHECK(reason(Op::kBinary, BinaryAttrs{BinaryFn::kPow}, {w, w}) == Refusal::kElementType);
  CHECK(reason(Op::kRelu, NoAttrs{}, {u}) == Refusal::kElementType);
  CHECK(reason(Op::kReduceSum, ReduceAttrs{{0}, true}, {b}) == Refusal::kElementType);
  // Mistakes of the model carry no reason.
  CHECK(!reason(Op::kBinary, BinaryAttrs{BinaryFn::kMax}, {f, i}));
  CHECK(!reason(Op::kWhere, NoAttrs{}, {f, f, f}));
  CHECK(!reason(Op::kSlice, SliceAttrs{{0, 0}, {1, 2}, {2, 3}}, {f}));
  CHECK(!reason(Op::kSlice, SliceAttrs{{0, 0}, {1, 0}, {2, 1}}, {f}));
  CHECK(!reason(Op::kSlice, SliceAttrs{{0, 0}, {INT64_MAX, 1}, {2, 3}}, {f}));
  CHECK(!reason(Op::kExpand, ReshapeAttrs{{2, 4}}, {f}));
  CHECK(!reason(Op::kGather, AxisAttrs{2}, {f, i}));
  CHECK(!reason(Op::kGather, AxisAttrs{0}, {f, f}));
  CHECK(!reason(Op::kGatherElements, AxisAttrs{0}, {f, g.add_input("j", DType::kI64, {2, 4})}));
  CHECK(!reason(Op::kGatherNd, GatherNdAttrs{2}, {f, i}));
  CHECK(!reason(Op::kLayerNorm, LayerNormAttrs{2, 1e-5}, {f, f}));
  CHECK(!reason(Op::kUnary, UnaryAttrs{UnaryFn::kCelu, 0}, {f}));
}

TEST_CASE("moves of constants are exact beyond what double holds") {
  Graph g;
  const int64_t big = (int64_t{1} << 62) + 1;
  std::vector<int64_t> values{1, big, INT64_MAX, INT64_MIN};
  ValueId x = g.add_constant("x", DType::kI64, {4}, make_constant_i64(values));
  ValueId i = g.add_constant("i", DType::kI64, {2}, make_constant_i64(std::vector<int64_t>{-1, 1}));
  ValueId y = add(g, Op::kSlice, SliceAttrs{{3}, {-1}, {4}}, {add(g, Op::kReshape, ReshapeAttrs{{4}}, {x})});
  ValueId z = add(g, Op::kGather, AxisAttrs{0}, {y, i});
  // A function of integers beyond 2^53 is left to run time.
  ValueId a = unary(g, UnaryFn::kAbs, z);
  g.add_output(z, "z");
  g.add_output(a, "a");
  auto evaluator = reference_evaluator();
  REQUIRE(fold_constants(g, evaluator.get()).has_value());
  REQUIRE(g.value(z).is_constant());
  CHECK(constant_integers(*g.value(z).constant, DType::kI64, 2) == std::vector<int64_t>{1, INT64_MAX});
  CHECK(!g.value(a).is_constant());
}

TEST_CASE("products and sums of integers beyond what double holds are left to run time") {
  const auto wide = [](DType dtype, std::vector<int64_t> values) {
    Graph g;
    const auto count = std::ssize(values);
    std::vector<std::byte> bytes(static_cast<size_t>(count * dtype_size(dtype)));
    for (size_t i = 0; i < values.size(); ++i)
      std::memcpy(bytes.data() + i * static_cast<size_t>(dtype_size(dtype)), &values[i],
                  static_cast<size_t>(dtype_size(dtype)));
    const ValueId x = g.add_constant("x", dtype, {count}, make_constant(bytes));
    for (ValueId id :
         {add(g, Op::kMatMul, MatMulAttrs{}, {x, x}), add(g, Op::kReduceProd, ReduceAttrs{{0}, false}, {x}),
          add(g, Op::kCast, CastAttrs{DType::kU64}, {x})})
      g.add_output(id, "y");
    auto evaluator = reference_evaluator();
    REQUIRE(fold_constants(g, evaluator.get()).has_value());
    std::string text;
    for (ValueId id : g.outputs) text += g.value(id).is_constant() ? "folded " : "left ";
    return text;
  };
  CHECK(wide(DType::kI64, {3, 5, 7}) == "folded folded folded ");
  CHECK(wide(DType::kU64, {1, -2}) == "left left left ");  // the second is 2^64 - 2
  CHECK(wide(DType::kI64, {3, -2}) == "folded folded left ");
  CHECK(wide(DType::kI64, {int64_t{1} << 30, 3}) == "left folded folded ");
  CHECK(wide(DType::kI32, {INT32_MAX, INT32_MAX}) == "left left folded ");
}

TEST_CASE("nodes without elements make no group where nothing reads them") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {0, 3});
  g.add_output(unary(g, UnaryFn::kExp, x), "y");
  CHECK(fuse(g).empty());
  Graph padded;
  x = padded.add_input("x", DType::kF32, {0, 3});
  ValueId e = unary(padded, UnaryFn::kExp, x);
  padded.add_output(add(padded, Op::kPad, PadAttrs{{1, 0}, {0, 0}, 0}, {e}), "y");
  CHECK(fuse(padded).size() == 2);
}

TEST_CASE("every refusal code reads back") {
  for (Refusal reason :
       {Refusal::kOperator, Refusal::kElementType, Refusal::kNotATensor, Refusal::kRunTimeShape, Refusal::kTraining,
        Refusal::kAttribute, Refusal::kExtraOutput, Refusal::kNoElements, Refusal::kTooLarge}) {
    CHECK(refusal_of(refuse(reason, "no").value()) == reason);
  }
  CHECK(!refusal_of(input_error("limitation: operator").value()));
}
