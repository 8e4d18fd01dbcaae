// The operators of one element, the gathers and the cutting operators: nests under the interpreter against the graph's
// own definition.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "task/nest.h"
#include "tcc/graph/reference.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/task/task.h"

using namespace tcc;
using graph::BinaryFn;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Shape;
using graph::UnaryFn;
using graph::ValueId;

namespace {

std::vector<graph::UnaryFn> all_unary() {
  return {
#define X(enumerator, ...) UnaryFn::enumerator,
      TCC_GRAPH_UNARY_FNS(X)
#undef X
  };
}
std::vector<graph::BinaryFn> all_binary() {
  return {
#define X(enumerator, ...) BinaryFn::enumerator,
      TCC_GRAPH_BINARY_FNS(X)
#undef X
  };
}
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kI8,
                            DType::kU8,  DType::kI32, DType::kI64, DType::kBool};

struct Model {
  Graph g;
  std::map<ValueId, std::vector<double>> data;

  ValueId input(DType dtype, Shape shape, std::vector<double> values) {
    REQUIRE(static_cast<int64_t>(values.size()) == graph::element_count(shape));
    ValueId id = g.add_input("x", dtype, shape);
    data[id] = graph::constant_doubles(graph::make_constant_from_doubles(dtype, values), dtype,
                                       static_cast<int64_t>(values.size()));
    return id;
  }
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "node");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  // Interprets the one group and compares with the reference. Returns the values.
  std::vector<double> check(ValueId y, double tolerance) {
    g.add_output(y, "y");
    auto groups = graph::fuse(g);
    REQUIRE(groups.size() == 1);
    auto task = task::make_task(g, groups[0]);
    REQUIRE(task.has_value());
    INFO(task->workload << "\n" << ir::print(task->kernel));
    REQUIRE(ir::verify(task->kernel).empty());
    std::vector<interp::TensorData> tensors;
    std::vector<graph::HostTensor> inputs;
    for (ValueId id : g.inputs) inputs.push_back({g.value(id).shape, data.at(id)});
    for (const task::ParamSource& p : task->params) {
      const graph::Value& v = g.value(p.value);
      ir::Type type = task::ir_type(v.dtype);
      if (p.kind == task::ParamKind::kOutput) tensors.push_back(interp::TensorData::zeros(type, v.shape));
      if (p.kind == task::ParamKind::kInput)
        tensors.push_back(interp::TensorData::from_doubles(type, v.shape, data.at(p.value)));
      if (p.kind == task::ParamKind::kConstant)
        tensors.push_back(interp::TensorData::from_doubles(
            type, v.shape, graph::constant_doubles(*v.constant, v.dtype, v.elements())));
    }
    std::vector<interp::TensorData*> params;
    for (auto& t : tensors) params.push_back(&t);
    interp::Report report = interp::run(task->kernel, params);
    INFO(report.text());
    REQUIRE(report.ok());
    auto expected = graph::run_reference(g, inputs, 1);
    REQUIRE(expected.has_value());
    const std::vector<double> got = tensors.back().to_doubles(), &want = expected->at(0).data;
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("element " << i << ": " << got[i] << ", expected " << want[i]);
      bool same = (std::isnan(got[i]) && std::isnan(want[i])) || got[i] == want[i] ||
                  std::fabs(got[i] - want[i]) <= tolerance * std::max(1.0, std::fabs(want[i]));
      REQUIRE(same);
    }
    return got;
  }
};

std::vector<double> samples(DType dtype) {
  if (dtype == DType::kBool) return {0, 1, 1, 0, 0, 1};
  if (dtype == DType::kU8) return {0, 1, 2, 7, 100, 3};
  if (!graph::is_float(dtype)) return {0, 1, -2, 7, -3, 3};
  return {0.25, -0.75, 1.5, -2.5, 0.125, 3};
}

double tolerance_of(DType dtype) {
  return dtype == DType::kF16 ? 2e-3 : 2e-5;
}

}  // namespace

TEST_CASE("functions of one element, all types that they take") {
  int made = 0;
  for (UnaryFn fn : all_unary()) {
    for (DType dtype : kTypes) {
      if (!graph::accepts(graph::unary_row(fn).domain, dtype)) continue;
      INFO(graph::unary_row(fn).name << " " << graph::dtype_name(dtype));
      Model m;
      ValueId x = m.input(dtype, {2, 3}, samples(dtype));
      m.check(m.node(Op::kUnary, graph::UnaryAttrs{fn, 1, 1}, {x}), tolerance_of(dtype));
      ++made;
    }
  }
  CHECK(made > 100);
}

TEST_CASE("infinities and NaN through tests, signs and extrema") {
  const double inf = INFINITY, nan = NAN;
  for (UnaryFn fn : {UnaryFn::kIsNan, UnaryFn::kIsInf, UnaryFn::kSign, UnaryFn::kHardSigmoid, UnaryFn::kShrink}) {
    Model m;
    ValueId x = m.input(DType::kF32, {4}, {inf, -inf, nan, 1});
    m.check(m.node(Op::kUnary, graph::UnaryAttrs{fn, 1, 0}, {x}), 0);
  }
  for (BinaryFn fn : {BinaryFn::kMax, BinaryFn::kMin}) {
    Model m;
    ValueId x = m.input(DType::kF32, {4}, {nan, 1, inf, -2});
    ValueId y = m.input(DType::kF32, {4}, {1, nan, 3, -inf});
    auto got = m.check(m.node(Op::kBinary, graph::BinaryAttrs{fn}, {x, y}), 0);
    CHECK(std::isnan(got[0]));
    CHECK(std::isnan(got[1]));
  }
}

TEST_CASE("functions of two elements, broadcast, all types that they take") {
  for (BinaryFn fn : all_binary()) {
    for (DType dtype : kTypes) {
      if (!graph::accepts(graph::binary_domain(fn), dtype)) continue;
      if (fn == BinaryFn::kMod && graph::is_float(dtype)) continue;
      INFO(graph::binary_name(fn) << " " << graph::dtype_name(dtype));
      bool power = fn == BinaryFn::kPow;
      std::vector<double> x = samples(dtype);
      for (double& v : x) v = power ? std::fabs(v) + 1 : v;
      if (power && dtype == DType::kI8) x = {1, 2, 3, 4, 5, 2};
      if (power && dtype == DType::kU8) x = {1, 2, 3, 4, 5, 2};
      Model m;
      ValueId a = m.input(dtype, {2, 3}, x);
      ValueId b = m.input(dtype, {3},
                          dtype == DType::kBool ? std::vector<double>{0, 1, 1}
                          : power               ? std::vector<double>{2, 1, 2}
                          : dtype == DType::kU8 ? std::vector<double>{1, 3, 2}
                                                : std::vector<double>{1, -2, 3});
      m.check(m.node(Op::kBinary, graph::BinaryAttrs{fn}, {a, b}), tolerance_of(dtype));
    }
  }
}

TEST_CASE("u32 and u64 compare as unsigned numbers") {
  const double big = 4294967295.0;
  for (BinaryFn fn : {BinaryFn::kMax, BinaryFn::kMin, BinaryFn::kLess, BinaryFn::kGreaterOrEqual, BinaryFn::kEqual}) {
    Model m;
    // The interpreter's tensors are signed: the same bits.
    ValueId x = m.g.add_input("x", DType::kU32, {4}), y = m.g.add_input("y", DType::kU32, {4});
    auto id = m.g.add_node(Op::kBinary, graph::BinaryAttrs{fn}, {x, y}, "n");
    REQUIRE(id.has_value());
    m.g.add_output(*id, "y");
    auto task = task::make_task(m.g, graph::fuse(m.g)[0]);
    REQUIRE(task.has_value());
    const Shape four{4};
    auto tx = interp::TensorData::from_doubles(ir::Type::kI32, four, std::vector<double>{-1, 1, 5, -2});
    auto ty = interp::TensorData::from_doubles(ir::Type::kI32, four, std::vector<double>{1, -1, 5, -1});
    const std::vector<double> ux{big, 1, 5, big - 1}, uy{1, big, 5, big};
    auto out = interp::TensorData::zeros(task::ir_type(m.g.value(*id).dtype), four);
    std::vector<interp::TensorData*> params{&tx, &ty, &out};
    REQUIRE(interp::run(task->kernel, params).ok());
    for (size_t i = 0; i < 4; ++i) {
      double got = out.to_doubles()[i];
      if (got < 0) got += 4294967296.0;
      CHECK(got == graph::apply_binary(fn, ux[i], uy[i]));
    }
  }
}

TEST_CASE("conversions between all types") {
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      if (from == to) continue;
      INFO(graph::dtype_name(from) << " to " << graph::dtype_name(to));
      Model m;
      std::vector<double> x = samples(from);
      // Negative numbers have no one meaning as u8.
      for (double& v : x) v = to == DType::kU8 ? std::fabs(v) : v;
      m.check(m.node(Op::kCast, graph::CastAttrs{to}, {m.input(from, {6}, x)}), 1e-3);
    }
  }
}

TEST_CASE("where, slice, expand") {
  Model m;
  ValueId c = m.input(DType::kBool, {2, 1}, {1, 0}), x = m.input(DType::kI64, {3}, {1, -2, 3});
  CHECK(m.check(m.node(Op::kWhere, graph::NoAttrs{}, {c, x, m.input(DType::kI64, {}, {9})}), 0) ==
        std::vector<double>{1, -2, 3, 9, 9, 9});
  Model s;
  ValueId matrix = s.input(DType::kF32, {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(s.check(s.node(Op::kSlice, graph::SliceAttrs{{1, 3}, {-1, -2}, {2, 2}}, {matrix}), 0) ==
        std::vector<double>{7, 5, 3, 1});
  Model e;
  ValueId column = e.input(DType::kI32, {2, 1}, {4, 5});
  CHECK(e.check(e.node(Op::kExpand, graph::ReshapeAttrs{{2, 2, 3}}, {column}), 0) ==
        std::vector<double>{4, 4, 4, 5, 5, 5, 4, 4, 4, 5, 5, 5});
}

TEST_CASE("gathers: negative indices count from the end, wrong ones stay inside") {
  for (DType index : {DType::kI32, DType::kI64}) {
    Model m;
    ValueId x = m.input(DType::kF32, {3, 2}, {0, 1, 10, 11, 20, 21});
    ValueId i = m.input(index, {2, 2}, {0, -1, 7, -9});
    CHECK(m.check(m.node(Op::kGather, graph::AxisAttrs{0}, {x, i}), 0) ==
          std::vector<double>{0, 1, 20, 21, 20, 21, 0, 1});
    Model n;
    x = n.input(DType::kF32, {3, 2}, {0, 1, 10, 11, 20, 21});
    i = n.input(index, {3, 1}, {1, 0, -1});
    CHECK(n.check(n.node(Op::kGather, graph::AxisAttrs{1}, {x, i}), 0).size() == 9);
    Model e;
    x = e.input(DType::kF32, {3, 2}, {0, 1, 10, 11, 20, 21});
    i = e.input(index, {2, 2}, {2, 0, -2, 1});
    CHECK(e.check(e.node(Op::kGatherElements, graph::AxisAttrs{0}, {x, i}), 0) == std::vector<double>{20, 1, 10, 11});
    Model d;
    x = d.input(DType::kF32, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
    i = d.input(index, {2, 1}, {1, 0});
    CHECK(d.check(d.node(Op::kGatherNd, graph::GatherNdAttrs{1}, {x, i}), 0) == std::vector<double>{2, 3, 4, 5});
    // The result has no axis at all.
    Model v;
    x = v.input(DType::kF32, {3}, {0, 10, 20});
    i = v.input(index, {}, {-1});
    CHECK(v.check(v.node(Op::kGather, graph::AxisAttrs{0}, {x, i}), 0) == std::vector<double>{20});
  }
}

TEST_CASE("layer norm and the new reductions") {
  Model m;
  std::vector<double> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i * i));
  ValueId x = m.input(DType::kF32, {2, 3, 4}, values), scale = m.input(DType::kF32, {4}, {1, 2, 3, 4}),
          bias = m.input(DType::kF32, {3, 1}, {0.5, 0, -1});
  m.check(m.node(Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-3}, {x, scale, bias}), 1e-5);
  for (Op op : {Op::kReduceMin, Op::kReduceProd, Op::kReduceMax, Op::kReduceSum}) {
    for (DType dtype : {DType::kF32, DType::kI32, DType::kI64, DType::kI8}) {
      INFO(graph::op_name(op) << " " << graph::dtype_name(dtype));
      Model r;
      ValueId y = r.input(dtype, {2, 3}, {-1, -2, -3, 2, 3, 4});
      r.check(r.node(op, graph::ReduceAttrs{{1}, true}, {y}), 1e-6);
    }
  }
}
