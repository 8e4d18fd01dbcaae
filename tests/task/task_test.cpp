// Every operator's naive nest, interpreted, against the graph's own definition.
#include "tcc/task/task.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "sample_tasks.h"
#include "tcc/graph/reference.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/support/rng.h"

using namespace tcc;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Shape;
using graph::ValueId;

namespace {

ir::Type type_of(DType dtype) {
  for (ir::Type t : {ir::Type::kF32, ir::Type::kF64, ir::Type::kF16, ir::Type::kBF16, ir::Type::kI8, ir::Type::kU8,
                     ir::Type::kI32, ir::Type::kI64, ir::Type::kBool, ir::Type::kI16, ir::Type::kU16})
    if (ir::type_name(t) == graph::dtype_name(dtype)) return t;
  FAIL("no IR type");
  return ir::Type::kF32;
}

struct Net {
  Graph g;
  DType dtype = DType::kF32;
  uint64_t seed = 1;

  ValueId input(Shape shape) { return g.add_input("x", dtype, std::move(shape)); }
  ValueId weight(Shape shape, bool positive = false) {
    Rng rng(seed++);
    std::vector<double> values(static_cast<size_t>(graph::element_count(shape)));
    for (double& v : values) v = positive ? 0.5 + rng.uniform() : rng.normal();
    return g.add_constant("w", dtype, std::move(shape), graph::make_constant_from_doubles(dtype, values));
  }
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "node");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  ValueId node(Op op, std::vector<ValueId> inputs) { return node(op, graph::NoAttrs{}, std::move(inputs)); }

  // Runs all groups under the interpreter and compares every output. Returns the tasks.
  task::TaskList check(ValueId result, double tolerance = 1e-5) {
    g.add_output(result, "y");
    graph::verify_graph(g);
    auto groups = graph::fuse(g);
    auto list = task::extract_tasks(g, groups);
    REQUIRE(list.has_value());
    std::map<ValueId, interp::TensorData> known;
    std::vector<graph::HostTensor> inputs;
    for (ValueId id : g.inputs) {
      const graph::Value& v = g.value(id);
      inputs.push_back(graph::random_tensor(v, 7 + static_cast<uint64_t>(id)));
      known[id] = interp::TensorData::from_doubles(type_of(v.dtype), v.shape, inputs.back().data);
      inputs.back().data = known[id].to_doubles();
    }
    for (const graph::Value& v : g.values) {
      if (!v.is_constant()) continue;
      auto numbers = graph::constant_doubles(*v.constant, v.dtype, v.elements());
      known[v.id] = interp::TensorData::from_doubles(type_of(v.dtype), v.shape, numbers);
    }
    for (size_t i = 0; i < groups.size(); ++i) run_group(groups[i], *list, i, known);
    auto expected = graph::run_reference(g, inputs, 1);
    REQUIRE(expected.has_value());
    ValueId root = graph::storage_root(g, result);
    compare(known.at(root).to_doubles(), expected->at(0).data, tolerance);
    return std::move(*list);
  }

  void run_group(const graph::FusionGroup& group, const task::TaskList& list, size_t i,
                 std::map<ValueId, interp::TensorData>& known) {
    const task::Task& t = list.tasks[static_cast<size_t>(list.bindings[i].task)];
    INFO(t.workload << "\n" << ir::print(t.kernel));
    auto findings = ir::verify(t.kernel);
    for (const std::string& f : findings) UNSCOPED_INFO(f);
    REQUIRE(findings.empty());
    REQUIRE(t.anchor_id() >= 0);
    const graph::Value& out = g.value(group.output);
    known[out.id] = interp::TensorData::zeros(type_of(out.dtype), out.shape);
    std::vector<interp::TensorData*> params;
    for (const task::ParamSource& p : list.bindings[i].params) {
      ValueId root = graph::storage_root(g, p.value);
      if (root != p.value) {  // a view: the same bytes under another shape
        known[p.value] = known.at(root);
        known[p.value].shape = g.value(p.value).shape;
      }
      params.push_back(&known.at(p.value));
    }
    // A kernel may see the same elements with some of the axes made one.
    std::vector<Shape> shapes;
    size_t at = 0;
    for (const ir::Buffer* b : t.kernel.buffers) {
      if (b->role == ir::BufferRole::kTemp) continue;
      Shape shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      shapes.push_back(params.at(at)->shape);
      REQUIRE(graph::element_count(shape) == graph::element_count(shapes.back()));
      params[at++]->shape = shape;
    }
    interp::Report report = interp::run(t.kernel, params);
    INFO(report.text());
    REQUIRE(report.ok());
    for (size_t p = 0; p < shapes.size(); ++p) params[p]->shape = shapes[p];
  }

  static void compare(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
    REQUIRE(got.size() == want.size());
    double scale = 0;
    for (double v : want) scale = std::max(scale, std::fabs(v));
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("element " << i << ": " << got[i] << ", expected " << want[i]);
      REQUIRE(std::fabs(got[i] - want[i]) <= tolerance * std::max(scale, 1.0));
    }
  }
};

graph::ConvAttrs conv2d(int64_t kernel, int64_t stride, int64_t pad, int64_t dilation = 1, int64_t group = 1) {
  return {{kernel, kernel}, {stride, stride}, {dilation, dilation}, {pad, pad}, {pad, pad}, group};
}

}  // namespace

TEST_CASE("convolutions: padding, stride, dilation, groups, axes") {
  SECTION("padded, strided, odd sizes") {
    Net n;
    n.check(n.node(Op::kConv, conv2d(3, 2, 1), {n.input({2, 3, 7, 9}), n.weight({5, 3, 3, 3})}));
  }
  SECTION("uneven kernel and padding") {
    Net n;
    graph::ConvAttrs a{{3, 2}, {1, 2}, {1, 1}, {2, 0}, {0, 1}, 1};
    n.check(n.node(Op::kConv, a, {n.input({1, 2, 5, 6}), n.weight({3, 2, 3, 2}), n.weight({3})}));
  }
  SECTION("dilated") {
    Net n;
    n.check(n.node(Op::kConv, conv2d(3, 1, 2, 2), {n.input({1, 2, 7, 7}), n.weight({3, 2, 3, 3})}));
  }
  SECTION("grouped") {
    Net n;
    auto list = n.check(n.node(Op::kConv, conv2d(3, 1, 1, 1, 2), {n.input({1, 4, 5, 5}), n.weight({6, 2, 3, 3})}));
    REQUIRE(list.tasks[0].anchor == task::AnchorKind::kConv);
  }
  SECTION("depthwise, with and without multiplier") {
    for (int64_t filters : {3, 6}) {
      Net n;
      auto list =
          n.check(n.node(Op::kConv, conv2d(3, 1, 1, 1, 3), {n.input({1, 3, 5, 4}), n.weight({filters, 1, 3, 3})}));
      REQUIRE(list.tasks[0].anchor == task::AnchorKind::kDepthwiseConv);
    }
  }
  SECTION("one and three spatial axes") {
    Net n;
    graph::ConvAttrs one{{3}, {2}, {1}, {1}, {1}, 1};
    n.check(n.node(Op::kConv, one, {n.input({2, 3, 9}), n.weight({4, 3, 3})}));
    Net m;
    graph::ConvAttrs three{{2, 3, 1}, {1, 1, 2}, {1, 1, 1}, {1, 1, 0}, {0, 1, 0}, 1};
    m.check(m.node(Op::kConv, three, {m.input({1, 2, 3, 4, 5}), m.weight({3, 2, 2, 3, 1})}));
  }
}

TEST_CASE("a convolution with bias, residual and activation is one task") {
  Net n;
  ValueId conv = n.node(Op::kConv, conv2d(3, 1, 1), {n.input({1, 3, 5, 5}), n.weight({4, 3, 3, 3}), n.weight({4})});
  ValueId scaled = n.node(Op::kMul, {conv, n.weight({4, 1, 1})});
  ValueId sum = n.node(Op::kAdd, {n.input({1, 4, 5, 5}), scaled});
  auto list = n.check(n.node(Op::kRelu, {sum}));
  REQUIRE(list.tasks.size() == 1);
  const task::Task& t = list.tasks[0];
  REQUIRE(t.workload == "conv2d 1x3x5x5 -> 4 k3 s1 p1 + bias + mul + residual + relu f32");
  REQUIRE(t.anchor_block == "conv");
  REQUIRE(t.flops == 2 * 4 * 25 * 27 + 4 * 100);
  std::vector<std::string> names;
  for (const ir::Block* block : ir::collect_blocks(t.kernel.root)) names.push_back(ir::name_hint(t.kernel, block->id));
  REQUIRE(names == std::vector<std::string>{"pad", "conv", "bias", "mul", "residual", "relu"});
  std::vector<ir::BufferRole> roles;
  for (const ir::Buffer* b : t.kernel.buffers)
    if (b->role != ir::BufferRole::kTemp) roles.push_back(b->role);
  using enum ir::BufferRole;
  REQUIRE(roles == std::vector<ir::BufferRole>{kInput, kWeight, kWeight, kWeight, kInput, kOutput});
  REQUIRE(t.params.size() == roles.size());
}

TEST_CASE("a pointwise convolution sees all positions as one axis") {
  auto out_shape = [](const task::Task& t) {
    Shape shape;
    for (const ir::Buffer* b : t.kernel.buffers)
      if (b->role == ir::BufferRole::kOutput)
        for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    return shape;
  };
  SECTION("with everything that follows it") {
    Net n;
    ValueId y = n.node(Op::kConv, conv2d(1, 1, 0), {n.input({2, 3, 5, 7}), n.weight({4, 3, 1, 1}), n.weight({4})});
    y = n.node(Op::kMul, {y, n.weight({4, 1, 1})});
    y = n.node(Op::kBatchNorm, graph::BatchNormAttrs{1e-3},
               {y, n.weight({4}), n.weight({4}), n.weight({4}), n.weight({4}, true)});
    y = n.node(Op::kAdd, {n.input({2, 4, 5, 7}), y});
    y = n.node(Op::kAdd, {y, n.weight({1})});
    auto list = n.check(n.node(Op::kRelu, {y}));
    REQUIRE(list.tasks.size() == 1);
    CHECK(out_shape(list.tasks[0]) == Shape{2, 4, 35});
    CHECK(list.tasks[0].workload.find("conv2d 2x3x5x7 -> 4 k1 s1 p0") == 0);
  }
  SECTION("grouped, three axes") {
    Net n;
    graph::ConvAttrs a{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 2};
    auto list = n.check(n.node(Op::kConv, a, {n.input({1, 4, 2, 3, 5}), n.weight({6, 2, 1, 1, 1})}));
    CHECK(out_shape(list.tasks[0]) == Shape{1, 6, 30});
  }
  SECTION("not where an operand is repeated along one of the axes only") {
    Net n;
    ValueId y = n.node(Op::kConv, conv2d(1, 1, 0), {n.input({1, 3, 5, 7}), n.weight({4, 3, 1, 1})});
    auto list = n.check(n.node(Op::kAdd, {y, n.weight({7})}));
    REQUIRE(list.tasks.size() == 1);
    CHECK(out_shape(list.tasks[0]) == Shape{1, 4, 5, 7});
  }
  SECTION("a strided one reads a copy of its positions") {
    Net n;
    graph::ConvAttrs a{{1, 1}, {3, 2}, {1, 1}, {0, 0}, {0, 0}, 2};
    ValueId y = n.node(Op::kConv, a, {n.input({2, 4, 7, 9}), n.weight({6, 2, 1, 1}), n.weight({6})});
    auto list = n.check(n.node(Op::kAdd, {n.input({2, 6, 3, 5}), y}));
    REQUIRE(list.tasks.size() == 1);
    CHECK(out_shape(list.tasks[0]) == Shape{2, 6, 15});
    CHECK(list.tasks[0].anchor_block == "conv");
    std::vector<const ir::Block*> blocks = ir::collect_blocks(list.tasks[0].kernel.root);
    CHECK(ir::name_hint(list.tasks[0].kernel, blocks[0]->id) == "pad");
    CHECK(blocks[0]->iters.size() == 3);
  }
  SECTION("strided, three axes") {
    Net n;
    graph::ConvAttrs a{{1, 1, 1}, {1, 3, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1};
    auto list = n.check(n.node(Op::kConv, a, {n.input({1, 2, 2, 4, 5}), n.weight({3, 2, 1, 1, 1})}));
    CHECK(out_shape(list.tasks[0]) == Shape{1, 3, 12});
  }
  SECTION("not with padding") {
    for (int64_t stride : {1, 2}) {
      Net n;
      auto list = n.check(n.node(Op::kConv, conv2d(1, stride, 1), {n.input({1, 3, 5, 7}), n.weight({4, 3, 1, 1})}));
      CHECK(out_shape(list.tasks[0]).size() == 4);
    }
  }
}

TEST_CASE("gemm and matmul") {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      Net n;
      ValueId a = n.input(ta ? Shape{5, 3} : Shape{3, 5}), w = n.weight(tb ? Shape{7, 5} : Shape{5, 7});
      ValueId y = n.node(Op::kGemm, graph::GemmAttrs{0.5, 2, ta, tb}, {a, w, n.weight({3, 1})});
      n.check(n.node(Op::kTanh, {y}));
    }
  }
  Net only_scale;
  only_scale.check(only_scale.node(Op::kGemm, graph::GemmAttrs{-1.5, 1, false, false},
                                   {only_scale.input({2, 3}), only_scale.weight({3, 4})}));
  struct Case {
    Shape a, b;
  };
  for (const Case& c : {Case{{3, 5}, {5, 2}}, Case{{2, 3, 5}, {5, 4}}, Case{{2, 1, 3, 5}, {4, 5, 2}}, Case{{5}, {5}},
                        Case{{5}, {3, 5, 2}}, Case{{2, 3, 5}, {5}}, Case{{3, 5}, {2, 5, 4}}}) {
    Net n;
    n.check(n.node(Op::kMatMul, graph::MatMulAttrs{}, {n.input(c.a), n.input(c.b)}));
  }
}

TEST_CASE("matrix products read and write tensors whose axes have another order") {
  // Attention's two products: the heads are an inner axis of operands and result.
  Net scores;
  scores.check(scores.node(Op::kMatMul, graph::MatMulAttrs{{0, 2, 1, 3}, {0, 2, 3, 1}, {}},
                           {scores.input({1, 4, 2, 3}), scores.input({1, 5, 2, 3})}));
  Net context;
  context.check(context.node(Op::kMatMul, graph::MatMulAttrs{{}, {0, 2, 1, 3}, {0, 2, 1, 3}},
                             {context.input({2, 3, 4, 5}), context.input({2, 5, 3, 6})}));
  Net broadcast;
  broadcast.check(broadcast.node(Op::kMatMul, graph::MatMulAttrs{{1, 0}, {2, 0, 1}, {2, 0, 1}},
                                 {broadcast.input({5, 4}), broadcast.input({5, 6, 3})}));
}

TEST_CASE("what picks elements is computed with the elementwise operators that read it") {
  Net n;
  graph::ValueId indices = n.g.add_input("ids", graph::DType::kI64, {2, 3});
  graph::ValueId x = n.node(Op::kGather, graph::AxisAttrs{0}, {n.weight({9, 4}), indices});
  x = n.node(Op::kAdd, {x, n.input({2, 3, 4})});
  CHECK(n.check(n.node(Op::kRelu, {x})).bindings.size() == 1);
  Net t;
  graph::ValueId y = t.node(Op::kTranspose, graph::TransposeAttrs{{1, 0}}, {t.input({3, 4})});
  CHECK(t.check(t.node(Op::kMul, {t.weight({4, 3}), y})).bindings.size() == 1);
}

TEST_CASE("a group may change its element type on the way") {
  Net n;
  graph::ValueId mask = n.g.add_input("mask", graph::DType::kI64, {2, 5});
  graph::ValueId f = n.node(Op::kCast, graph::CastAttrs{graph::DType::kF32}, {mask});
  graph::ValueId one = n.g.add_constant("one", graph::DType::kF32, {}, graph::make_splat(graph::DType::kF32, 1));
  graph::ValueId b = n.node(Op::kBinary, graph::BinaryAttrs{graph::BinaryFn::kLess}, {one, f});
  CHECK(n.check(n.node(Op::kWhere, {b, n.weight({2, 5}), one})).bindings.size() == 1);
}

TEST_CASE("x + y and y + x are one task") {
  std::string keys[2];
  for (bool swapped : {false, true}) {
    Net n;
    graph::ValueId other = n.input({4, 6});
    graph::ValueId product = n.node(Op::kGemm, graph::GemmAttrs{}, {n.input({4, 5}), n.weight({5, 6})});
    graph::ValueId sum = swapped ? n.node(Op::kAdd, {other, product}) : n.node(Op::kAdd, {product, other});
    keys[swapped] = n.check(sum).tasks[0].key;
  }
  CHECK(keys[0] == keys[1]);
}

TEST_CASE("convolutions of blocked channels") {
  auto blocked = [](graph::ConvAttrs a, int64_t in, int64_t out) {
    a.block_in = in;
    a.block_out = out;
    return a;
  };
  Net both;  // with all that may follow
  ValueId w = both.weight({12, 8, 3, 3}), bias = both.weight({12});
  ValueId y = both.node(Op::kConv, blocked(conv2d(3, 2, 1), 4, 6), {both.input({2, 2, 7, 9, 4}), w, bias});
  y = both.node(Op::kAdd, {y, both.input({2, 2, 4, 5, 6})});
  y = both.node(Op::kMul, {y, both.weight({1, 2, 1, 1, 6})});
  task::TaskList list = both.check(both.node(Op::kRelu, {y}));
  REQUIRE(list.tasks.size() == 1);
  CHECK(list.tasks[0].workload == "conv2d 2x2x7x9x4 -> 12 k3 s2 p1 blocks of 6 + bias + residual + mul + relu f32");
  for (auto [in, out] : {std::pair<int64_t, int64_t>{1, 4}, {3, 1}, {3, 4}}) {
    Net n;
    INFO("blocks of " << in << " and " << out);
    Shape x = in == 1 ? Shape{1, 9, 6, 7} : Shape{1, 3, 6, 7, 3};
    n.check(
        n.node(Op::kConv, blocked(conv2d(3, 1, 2, 2), in, out), {n.input(x), n.weight({8, 9, 3, 3}), n.weight({8})}));
    Net pointwise;
    pointwise.check(pointwise.node(Op::kConv, blocked(conv2d(1, 1, 0), in, out),
                                   {pointwise.input(x), pointwise.weight({8, 9, 1, 1})}));
  }
  Net line;
  line.check(line.node(Op::kConv, blocked({{3}, {1}, {1}, {1}, {1}}, 2, 2),
                       {line.input({1, 3, 9, 2}), line.weight({4, 6, 3})}));
  Net depthwise;
  depthwise.check(
      depthwise.node(Op::kConv, blocked(conv2d(3, 1, 1, 1, 8), 4, 4),
                     {depthwise.input({1, 2, 5, 6, 4}), depthwise.weight({8, 1, 3, 3}), depthwise.weight({8})}));
}

TEST_CASE("pools of blocked channels") {
  for (Op op : {Op::kMaxPool, Op::kAveragePool}) {
    Net n;
    graph::PoolAttrs a{{3, 2}, {2, 1}, {1, 1}, {1, 0}, {1, 1}};
    a.block = 4;
    n.check(n.node(op, a, {n.input({1, 2, 5, 6, 4})}));
  }
}

TEST_CASE("pooling: padding, ceil mode, what the average divides by") {
  for (bool ceil : {false, true}) {
    for (bool count_pad : {false, true}) {
      for (int64_t dilation : {1, 2}) {
        graph::PoolAttrs a{{3, 2}, {2, 2}, {dilation, 1}, {1, 0}, {1, 1}, ceil, count_pad};
        for (Op op : {Op::kMaxPool, Op::kAveragePool}) {
          Net n;
          INFO("ceil " << ceil << " count_pad " << count_pad << " dilation " << dilation);
          n.check(n.node(op, a, {n.input({2, 3, 8, 7})}));
        }
      }
    }
  }
  Net one;
  one.check(
      one.node(Op::kAveragePool, graph::PoolAttrs{{3}, {1}, {1}, {0}, {0}, false, false}, {one.input({1, 2, 7})}));
}

TEST_CASE("reductions, softmax, LRN") {
  for (Op op : {Op::kReduceMean, Op::kReduceMax, Op::kReduceSum}) {
    for (bool keep : {false, true}) {
      for (std::vector<int64_t> axes : {std::vector<int64_t>{1}, {0, 2}, {0, 1, 2}, {}}) {
        Net n;
        n.check(n.node(op, graph::ReduceAttrs{axes, keep}, {n.input({3, 5, 4})}));
      }
    }
  }
  for (Op op : {Op::kSoftmax, Op::kLogSoftmax}) {
    for (int64_t axis : {0, 1, 2}) {
      Net n;
      n.check(n.node(op, graph::AxisAttrs{axis}, {n.input({3, 5, 4})}));
    }
  }
  for (int64_t size : {1, 2, 3, 5}) {
    Net n;
    n.check(n.node(Op::kLrn, graph::LrnAttrs{0.3, 0.75, 1.5, size}, {n.input({2, 4, 3, 3})}));
  }
}

TEST_CASE("elementwise operators broadcast") {
  Net n;
  ValueId x = n.input({2, 3, 4}), y = n.input({3, 1});
  ValueId v = n.node(Op::kAdd, {y, x});
  v = n.node(Op::kSub, {v, n.weight({})});
  v = n.node(Op::kMul, {v, v});
  v = n.node(Op::kDiv, {v, n.weight({4}, true)});
  v = n.node(Op::kLeakyRelu, graph::LeakyAttrs{0.3}, {v});
  v = n.node(Op::kClip, graph::ClipAttrs{-0.5, 3}, {v});
  v = n.node(Op::kSigmoid, {v});
  auto list = n.check(v);
  REQUIRE(list.tasks.size() == 1);
  Net outer;  // every operand is smaller than the result
  outer.check(outer.node(Op::kSub, {outer.input({3, 1}), outer.input({1, 4})}));
  Net norm;
  norm.check(
      norm.node(Op::kBatchNorm, graph::BatchNormAttrs{1e-3},
                {norm.input({2, 3, 4}), norm.weight({3}), norm.weight({3}), norm.weight({3}), norm.weight({3}, true)}));
  Net scalar;
  scalar.check(scalar.node(Op::kRelu, {scalar.input({})}));
}

TEST_CASE("moves") {
  Net n;
  ValueId x = n.input({2, 3, 4});
  ValueId t = n.node(Op::kTranspose, graph::TransposeAttrs{{2, 0, 1}}, {x});
  ValueId c = n.node(Op::kConcat, graph::AxisAttrs{1}, {t, n.input({4, 1, 3}), t});
  ValueId p = n.node(Op::kPad, graph::PadAttrs{{0, 1, 2}, {1, 0, 0}, -2.5}, {c});
  ValueId r = n.node(Op::kReshape, graph::ReshapeAttrs{{5, 30}}, {p});
  n.check(n.node(Op::kIdentity, {r}));
}

TEST_CASE("half types compute in f32 and round once; integers stay integers") {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Net n;
    n.dtype = dtype;
    ValueId y = n.node(Op::kConv, conv2d(3, 1, 1), {n.input({1, 2, 5, 5}), n.weight({3, 2, 3, 3})});
    auto list = n.check(y, 0.01);
    for (const ir::Buffer* b : list.tasks[0].kernel.buffers)
      if (b->role == ir::BufferRole::kTemp) REQUIRE(b->type == ir::Type::kF32);
    Net m;
    m.dtype = dtype;
    m.check(m.node(Op::kRelu, {m.node(Op::kAdd, {m.input({3, 5}), m.input({5})})}), 0.01);
  }
  for (DType dtype : {DType::kI64, DType::kI32}) {
    Net n;
    n.dtype = dtype;
    ValueId v = n.node(Op::kAdd, {n.input({3, 4}), n.input({4})});
    v = n.node(Op::kClip, graph::ClipAttrs{2, 3}, {v});
    n.check(n.node(Op::kMul, {v, n.input({1})}), 0);
  }
}

TEST_CASE("equal groups are one task with its weight, bound to their own values") {
  Net n;
  ValueId x = n.input({1, 4, 6, 6});
  for (int i = 0; i < 3; ++i) {
    x = n.node(Op::kConv, conv2d(3, 1, 1), {x, n.weight({4, 4, 3, 3}), n.weight({4})});
    x = n.node(Op::kRelu, {x});
  }
  x = n.node(Op::kConv, conv2d(1, 1, 0), {x, n.weight({4, 4, 1, 1})});
  auto list = n.check(x);
  REQUIRE(list.tasks.size() == 2);
  REQUIRE(list.tasks[0].weight == 3);
  REQUIRE(list.tasks[1].weight == 1);
  REQUIRE(list.tasks[0].key.size() == 16);
  REQUIRE(list.tasks[0].key != list.tasks[1].key);
  REQUIRE(list.bindings.size() == 4);
  REQUIRE(list.bindings[1].task == 0);
  REQUIRE(list.bindings[1].params[1].value != list.bindings[0].params[1].value);
}

TEST_CASE("tensors without elements are refused") {
  Net n;
  // Padding reads the empty tensor and makes a full one.
  ValueId empty = n.node(Op::kRelu, {n.input({2, 0})});
  n.g.add_output(n.node(Op::kPad, graph::PadAttrs{{0, 1}, {0, 1}, 0}, {empty}), "y");
  auto list = task::extract_tasks(n.g, graph::fuse(n.g));
  REQUIRE_FALSE(list.has_value());
  REQUIRE(list.error().message.find("no elements") != std::string::npos);
}

TEST_CASE("sample tasks") {
  REQUIRE(task::make_gemm({.m = 4, .n = 5, .k = 6, .bias = true, .relu = true}).workload ==
          "gemm 4x5x6 + bias + relu f32");
  task::ConvParams conv;
  conv.channels = 8, conv.filters = 16, conv.size = {9, 9}, conv.kernel = {3, 3}, conv.pads = {1, 1};
  conv.residual = true;
  REQUIRE(task::make_conv(conv).workload == "conv2d 1x8x9x9 -> 16 k3 s1 p1 + residual f32");
  REQUIRE(task::make_pool({.channels = 2, .size = {6, 6}, .kernel = {2, 2}, .strides = {2, 2}}).anchor ==
          task::AnchorKind::kPool);
  REQUIRE(task::make_softmax({3, 7}, 1).anchor_block == "row_max");
  REQUIRE(task::make_reduction({3, 7}, {1}, Op::kReduceSum).anchor == task::AnchorKind::kReduction);
  REQUIRE(task::make_elementwise({2, 3, 4, 4}).anchor == task::AnchorKind::kElementwise);
  for (const task::Task& t :
       {task::make_gemm({.m = 3, .n = 4, .k = 5, .constant_weights = true}), task::make_conv(conv)})
    REQUIRE(ir::verify(t.kernel).empty());
}
