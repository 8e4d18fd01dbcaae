// The operators of one element, the gathers and the cutting operators: nests under the interpreter against the graph's
// own definition.
#include "task/one_group.h"
#include "tcc/graph/finite.h"

using namespace tcc;
using namespace tcc::task_test;
using graph::BinaryFn;
using graph::UnaryFn;

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
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16,  DType::kI8,  DType::kU8,
                            DType::kI32, DType::kI64, DType::kBool, DType::kI16, DType::kU16};

std::vector<double> samples(DType dtype) {
  if (dtype == DType::kBool) return {0, 1, 1, 0, 0, 1};
  if (graph::is_unsigned(dtype)) return {0, 1, 2, 7, 100, 3};
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

TEST_CASE("infinities, NaN and zeros of both signs through every function") {
  const double inf = INFINITY, nan = NAN;
  const std::vector<double> edges{nan, inf, -inf, 0.0, -0.0, 1, -1, 2, -2, 2.5, -2.5, 0.5, 1e10, -1e10};
  const auto n = static_cast<int64_t>(edges.size());
  for (UnaryFn fn : all_unary()) {
    if (!graph::accepts(graph::unary_row(fn).domain, DType::kF32)) continue;
    INFO(graph::unary_row(fn).name);
    Model m;
    m.check(m.node(Op::kUnary, graph::UnaryAttrs{fn, 1, 1}, {m.input(DType::kF32, {n}, edges)}), 2e-5);
  }
  for (BinaryFn fn : all_binary()) {
    if (!graph::accepts(graph::binary_domain(fn), DType::kF32) || fn == BinaryFn::kMod) continue;
    INFO(graph::binary_name(fn));
    Model m;
    ValueId x = m.input(DType::kF32, {n, 1}, edges), y = m.input(DType::kF32, {n}, edges);
    m.check(m.node(Op::kBinary, graph::BinaryAttrs{fn}, {x, y}), 2e-5);
  }
  for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv}) {
    INFO(graph::op_name(op));
    Model m;
    ValueId x = m.input(DType::kF32, {n, 1}, edges), y = m.input(DType::kF32, {n}, edges);
    m.check(m.node(op, graph::NoAttrs{}, {x, y}), 2e-5);
  }
  for (Op op : {Op::kRelu, Op::kSigmoid, Op::kTanh}) {
    INFO(graph::op_name(op));
    Model m;
    m.check(m.node(op, graph::NoAttrs{}, {m.input(DType::kF32, {n}, edges)}), 2e-5);
  }
  Model clip;
  clip.check(clip.node(Op::kClip, graph::ClipAttrs{-2, 2}, {clip.input(DType::kF32, {n}, edges)}), 0);
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
      if (power && !graph::is_float(dtype) && graph::dtype_size(dtype) < 4) x = {1, 2, 3, 4, 5, 2};
      Model m;
      ValueId a = m.input(dtype, {2, 3}, x);
      ValueId b = m.input(dtype, {3},
                          dtype == DType::kBool       ? std::vector<double>{0, 1, 1}
                          : power                     ? std::vector<double>{2, 1, 2}
                          : graph::is_unsigned(dtype) ? std::vector<double>{1, 3, 2}
                                                      : std::vector<double>{1, -2, 3});
      m.check(m.node(Op::kBinary, graph::BinaryAttrs{fn}, {a, b}), tolerance_of(dtype));
    }
  }
}

TEST_CASE("powers beyond an integer's type wrap around") {
  for (DType dtype : {DType::kI32, DType::kU8, DType::kI16}) {
    INFO(graph::dtype_name(dtype));
    const bool wide = dtype == DType::kI32;
    Model m;
    const ValueId x = m.input(
        dtype, {4}, wide ? std::vector<double>{-2147483648.0, 2000, -3000, 7} : std::vector<double>{100, 20, 30, 7});
    const ValueId y = m.input(dtype, {4}, {3, 3, 3, 2});
    m.check(m.node(Op::kBinary, graph::BinaryAttrs{BinaryFn::kPow}, {x, y}), 0);
  }
}

TEST_CASE("a remainder of 0 has the sign of the dividend") {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16}) {
    INFO(graph::dtype_name(dtype));
    Model m;
    ValueId x = m.input(dtype, {6}, {-0.0, 0, -6, 6, -6, 6}), y = m.input(dtype, {6}, {3, 3, 3, 3, -1.5, -1.5});
    const auto got = m.check(m.node(Op::kBinary, graph::BinaryAttrs{BinaryFn::kFMod}, {x, y}), 0);
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::signbit(got[i]) == (i % 2 == 0));
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

TEST_CASE("quotients and remainders of u64 are those of unsigned numbers") {
  const uint64_t top = uint64_t{1} << 63, most = ~uint64_t{0};
  const std::vector<uint64_t> x{most, most, most - 1, 7, top, top, top - 1, 5, 0, 12345678901234567890u},
      y{3, most, most, 2, 2, top, top, top + 1, 7, 987654321};
  const auto count = static_cast<int64_t>(x.size());
  for (const bool divides : {true, false}) {
    graph::Graph g;
    ValueId a = g.add_input("x", DType::kU64, {count}), c = g.add_input("y", DType::kU64, {count});
    auto id = divides ? g.add_node(Op::kDiv, graph::NoAttrs{}, {a, c}, "n")
                      : g.add_node(Op::kBinary, graph::BinaryAttrs{BinaryFn::kMod}, {a, c}, "n");
    REQUIRE(id.has_value());
    g.add_output(*id, "z");
    auto task = task::make_task(g, graph::fuse(g)[0]);
    REQUIRE(task.has_value());
    auto tensor = [&](const std::vector<uint64_t>& v) {
      auto t = interp::TensorData::zeros(ir::Type::kI64, Shape{count});
      std::memcpy(t.bytes.data(), v.data(), t.bytes.size());
      return t;
    };
    auto tx = tensor(x), ty = tensor(y), out = interp::TensorData::zeros(ir::Type::kI64, Shape{count});
    std::vector<interp::TensorData*> params{&tx, &ty, &out};
    REQUIRE(interp::run(task->kernel, params).ok());
    std::vector<uint64_t> z(x.size());
    std::memcpy(z.data(), out.bytes.data(), out.bytes.size());
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(x[i] << " by " << y[i]);
      CHECK(z[i] == (divides ? x[i] / y[i] : x[i] % y[i]));
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
      m.check(m.node(Op::kCast, graph::CastAttrs{to}, {m.input(from, {6}, x)}), 1e-3);
    }
  }
}

TEST_CASE("floats beyond 8 or 16 bits keep the low bits of the integer, longer integers saturate") {
  const std::vector<double> x{256, 300, -1, -129, 1e5, 2.9, -2.9, NAN, 3e9, INFINITY};
  auto cast = [&](DType to) {
    Model m;
    ValueId in = m.input(DType::kF32, {10}, x);
    return m.check(m.node(Op::kCast, graph::CastAttrs{to}, {in}), 0);
  };
  CHECK(cast(DType::kU8) == std::vector<double>{0, 44, 255, 127, 160, 2, 254, 0, 255, 255});
  CHECK(cast(DType::kI8) == std::vector<double>{0, 44, -1, 127, -96, 2, -2, 0, -1, -1});
  CHECK(cast(DType::kU16) == std::vector<double>{256, 300, 65535, 65407, 34464, 2, 65534, 0, 65535, 65535});
  CHECK(cast(DType::kI16) == std::vector<double>{256, 300, -1, -129, -31072, 2, -2, 0, -1, -1});
  CHECK(cast(DType::kI32)[8] == 2147483647);
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

TEST_CASE("limits of numbers are minimum and maximum, and those of floats keep NaN") {
  const std::vector<double> floats{NAN, INFINITY, -INFINITY, -1, 0.5, 7};
  for (bool integers : {false, true})
    for (Op op : {Op::kRelu, Op::kClip}) {
      INFO(graph::op_name(op) << " integers " << integers);
      Model m;
      ValueId x = integers ? m.input(DType::kI32, {6}, {-2147483648.0, -9, 0, 5, 6, 2147483647.0})
                           : m.input(DType::kF32, {6}, floats);
      if (integers) {
        x = m.node(Op::kCast, graph::CastAttrs{DType::kF32}, {x});
        const ValueId scale = m.g.add_constant("", DType::kF32, {}, graph::make_splat(DType::kF32, -0.75));
        x = m.node(Op::kMul, graph::NoAttrs{}, {x, scale});
      }
      const graph::Attributes attrs =
          op == Op::kClip ? graph::Attributes(graph::ClipAttrs{-2, 6}) : graph::Attributes(graph::NoAttrs{});
      const ValueId y = m.node(op, attrs, {x});
      CHECK(graph::limits_numbers(m.g, m.g.node(m.g.value(y).producer)) == integers);
      const std::vector<double> got = m.check(y, 1e-6);
      CHECK(std::isnan(got[0]) != integers);
    }
}

TEST_CASE("magnitudes of what integers and constants make") {
  Model m;
  auto constant = [&](double v) { return m.g.add_constant("", DType::kF32, {}, graph::make_splat(DType::kF32, v)); };
  const ValueId bytes = m.input(DType::kU8, {2}, {0, 255}), floats = m.input(DType::kF32, {2}, {0, 1});
  const ValueId x = m.node(Op::kCast, graph::CastAttrs{DType::kF32}, {bytes});
  CHECK(graph::largest_magnitude(m.g, x) == 255);
  const ValueId centered = m.node(Op::kSub, graph::NoAttrs{}, {x, constant(128)});
  CHECK(graph::largest_magnitude(m.g, centered).value() == Approx(383).epsilon(0.01));
  const ValueId product = m.node(Op::kMul, graph::NoAttrs{}, {centered, constant(-3)});
  CHECK(graph::largest_magnitude(m.g, product).value() == Approx(1149).epsilon(0.01));
  CHECK(graph::largest_magnitude(m.g, m.node(Op::kClip, graph::ClipAttrs{-4, INFINITY}, {product})).value() ==
        Approx(1149).epsilon(0.01));
  CHECK(graph::largest_magnitude(m.g, m.node(Op::kClip, graph::ClipAttrs{-4, 7}, {product})) == 7);
  // Unknown inputs, and constants that are infinite, NaN or very large.
  CHECK_FALSE(graph::largest_magnitude(m.g, floats));
  CHECK_FALSE(graph::largest_magnitude(m.g, m.node(Op::kMul, graph::NoAttrs{}, {x, floats})));
  CHECK_FALSE(graph::largest_magnitude(m.g, m.node(Op::kMul, graph::NoAttrs{}, {x, constant(NAN)})));
  CHECK_FALSE(graph::largest_magnitude(m.g, m.node(Op::kAdd, graph::NoAttrs{}, {x, constant(INFINITY)})));
  CHECK_FALSE(graph::largest_magnitude(m.g, m.node(Op::kMul, graph::NoAttrs{}, {x, constant(3e38)})));
  // Long chains are not followed.
  ValueId sum = x;
  for (int i = 0; i < 100; ++i) sum = m.node(Op::kAdd, graph::NoAttrs{}, {sum, constant(1)});
  CHECK_FALSE(graph::largest_magnitude(m.g, sum));
}
