// Functions of single bytes as tables.
#include "tcc/graph/byte_functions.h"

#include <catch2/catch.hpp>

#include "tcc/graph/reference.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

struct Net {
  Graph g;
  ValueId node(Op op, Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "n");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  ValueId number(double v) {
    return g.add_constant("c", DType::kF32, {1, 1}, make_constant_from_doubles(DType::kF32, std::vector<double>{v}));
  }
  ValueId floats(ValueId q) {
    const ValueId x = node(Op::kCast, CastAttrs{DType::kF32}, {q});
    return node(Op::kMul, NoAttrs{}, {node(Op::kSub, NoAttrs{}, {x, number(3)}), number(0.05)});
  }
  ValueId bytes(ValueId x, DType type) {
    const double low = type == DType::kU8 ? 0 : -128;
    x = node(Op::kUnary, UnaryAttrs{UnaryFn::kRound}, {node(Op::kDiv, NoAttrs{}, {x, number(0.01)})});
    x = node(Op::kClip, ClipAttrs{low, low + 255}, {x});
    return node(Op::kCast, CastAttrs{type}, {x});
  }
  // How many tables there are. The results stay.
  int64_t tables(const std::vector<ValueId>& results) {
    for (ValueId id : results) g.add_output(id, "y");
    std::vector<HostTensor> inputs;
    for (ValueId id : g.inputs) {
      const Value& v = g.value(id);
      HostTensor t{v.shape, std::vector<double>(static_cast<size_t>(v.elements()))};
      for (size_t i = 0; i < t.data.size(); ++i)
        t.data[i] = static_cast<double>(i * 7 % 256) - (v.dtype == DType::kI8 ? 128 : 0);
      inputs.push_back(std::move(t));
    }
    const auto before = run_reference(g, inputs, 1);
    REQUIRE(before.has_value());
    const auto evaluator = reference_evaluator();
    const auto count = tabulate_byte_functions(g, *evaluator);
    REQUIRE(count.has_value());
    verify_graph(g);
    const auto after = run_reference(g, inputs, 1);
    REQUIRE(after.has_value());
    for (size_t i = 0; i < before->size(); ++i) CHECK(after->at(i).data == before->at(i).data);
    return *count;
  }
};

}  // namespace

TEST_CASE("a function of one tensor of bytes is a table, of all types, also where it reads the tensor twice") {
  for (DType from : {DType::kU8, DType::kI8})
    for (DType to : {DType::kU8, DType::kI8})
      for (bool twice : {false, true}) {
        Net net;
        const ValueId q = net.g.add_input("q", from, {3, 1500});
        const ValueId x = net.floats(q);
        ValueId y = net.node(Op::kSigmoid, NoAttrs{}, {x});
        if (twice) y = net.node(Op::kMul, NoAttrs{}, {x, y});
        CHECK(net.tables({net.bytes(y, to)}) == 1);
        CHECK(net.g.order.size() == 1);
      }
}

TEST_CASE("a chain of functions of bytes is a table for each") {
  Net net;
  ValueId q = net.g.add_input("q", DType::kU8, {1, 5000});
  for (int i = 0; i < 3; ++i) q = net.bytes(net.node(Op::kTanh, NoAttrs{}, {net.floats(q)}), DType::kU8);
  CHECK(net.tables({q}) == 3);
}

TEST_CASE("no tables: small tensors, cheap functions, values that others read, several tensors, other types") {
  {
    Net net;
    const ValueId x = net.floats(net.g.add_input("q", DType::kU8, {1, 100}));
    CHECK(net.tables({net.bytes(net.node(Op::kSigmoid, NoAttrs{}, {x}), DType::kU8)}) == 0);
  }
  {
    Net net;
    const ValueId x = net.node(Op::kCast, CastAttrs{DType::kF32}, {net.g.add_input("q", DType::kU8, {1, 5000})});
    CHECK(net.tables({net.node(Op::kCast, CastAttrs{DType::kI8}, {net.node(Op::kRelu, NoAttrs{}, {x})})}) == 0);
  }
  {
    Net net;
    const ValueId y = net.node(Op::kSigmoid, NoAttrs{}, {net.floats(net.g.add_input("q", DType::kU8, {1, 5000}))});
    CHECK(net.tables({net.bytes(y, DType::kU8), y}) == 0);
  }
  {
    Net net;
    const ValueId x = net.floats(net.g.add_input("p", DType::kU8, {1, 5000}));
    const ValueId y = net.floats(net.g.add_input("q", DType::kU8, {1, 5000}));
    CHECK(net.tables({net.bytes(net.node(Op::kMul, NoAttrs{}, {x, y}), DType::kU8)}) == 0);
  }
  {
    Net net;
    const ValueId x = net.node(Op::kCast, CastAttrs{DType::kF32}, {net.g.add_input("q", DType::kI32, {1, 5000})});
    CHECK(net.tables({net.bytes(net.node(Op::kSigmoid, NoAttrs{}, {x}), DType::kU8)}) == 0);
  }
}
