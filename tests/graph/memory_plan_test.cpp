// The memory plan: places of values, and parts of a Concat that are made in its result.
#include <algorithm>
#include <catch2/catch.hpp>

#include "graph/add_node.h"
#include "tcc/graph/passes.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

// The byte of a group's result, an input or a constant that byte `k` of a value is, through all views.
std::pair<ValueId, int64_t> origin(const Graph& g, ValueId id, int64_t k) {
  while (g.value(id).producer != kNone) {
    const Node& node = g.node(g.value(id).producer);
    if (op_class(node.op) != OpClass::kView) break;
    const int64_t bytes = dtype_size(g.value(id).dtype);
    if (node.op == Op::kPart) {
      const auto& a = node.as<SliceAttrs>();
      const Shape& from = g.value(node.inputs[0]).shape;
      int64_t element = k / bytes, at = 0, stride = 1, step = 1;
      for (size_t d = from.size(); d-- > 0;) {
        at += (a.starts[d] + element / step % a.extents[d] * a.steps[d]) * stride;
        step *= a.extents[d];
        stride *= from[d];
      }
      k = at * bytes + k % bytes;
    }
    size_t part = 0;
    for (; node.op == Op::kJoin && k >= g.value(node.inputs[part]).bytes(); ++part)
      k -= g.value(node.inputs[part]).bytes();
    id = node.inputs[part];
  }
  return {id, k};
}

int count_of(const Graph& g, Op op) {
  int n = 0;
  for (NodeId id : g.order) n += g.node(id).op == op ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("the memory plan never lets two live values overlap") {
  Rng rng(11);
  int parts = 0, joins = 0, taken = 0;
  for (int round = 0; round < 400; ++round) {
    Graph g;
    std::vector<ValueId> made{g.add_input("x", DType::kF32, {1, 3, 4, 4})};
    for (int i = 0; i < 25; ++i) {
      ValueId a = made[static_cast<size_t>(rng.below(static_cast<int64_t>(made.size())))];
      ValueId b = made[static_cast<size_t>(rng.below(static_cast<int64_t>(made.size())))];
      const int64_t channels = g.value(a).shape[1];
      switch (rng.below(6)) {
        case 0:
          a = add(g, Op::kRelu, NoAttrs{}, {a});
          break;
        case 1:
          a = add(g, Op::kTranspose, TransposeAttrs{{0, 1, 3, 2}}, {a});
          break;
        case 2:
          if (channels > 40) continue;
          a = add(g, Op::kConcat, AxisAttrs{1}, {a, b});
          break;
        case 3: {
          const int64_t first = rng.below(channels), step = rng.below(4) == 0 ? 2 : 1;
          const int64_t extent = 1 + rng.below((channels - first + step - 1) / step);
          a = add(g, Op::kSlice, SliceAttrs{{0, first, 0, 0}, {1, step, 1, 1}, {1, extent, 4, 4}}, {a});
          break;
        }
        case 4:  // half of the rows: of one channel a run, of several not
          a = add(g, Op::kSlice, SliceAttrs{{0, 0, rng.below(3), 0}, {1, 1, 1, 1}, {1, channels, 2, 4}}, {a});
          a = add(g, Op::kConcat, AxisAttrs{2}, {a, a});
          break;
        default:
          a = add(g, Op::kReshape, ReshapeAttrs{{1, channels, 4, 4}}, {a});
      }
      made.push_back(a);
    }
    g.add_output(made.back(), "o");
    g.add_output(made[made.size() / 2], "p");
    REQUIRE(optimize(g, nullptr));
    parts += count_of(g, Op::kPart);
    joins += count_of(g, Op::kJoin);
    auto groups = fuse(g);
    // Half of the rounds: kernels with scratch of their own, and outputs that may take inputs' places.
    std::vector<GroupMemory> needs(round % 2 == 0 ? 0 : groups.size());
    int64_t scratch = 0;
    for (size_t i = 0; i < needs.size(); ++i) {
      needs[i].scratch_bytes = rng.below(3) * rng.below(500);
      scratch = std::max(scratch, needs[i].scratch_bytes);
      for (ValueId in : groups[i].inputs)
        if (rng.below(3) > 0) needs[i].overwritable.push_back(in);
    }
    MemoryPlan plan = plan_memory(g, groups, needs);
    CHECK(plan.workspace_bytes <= plan.unshared_bytes + scratch + kWorkspaceAlignment);
    CHECK(plan.scratch.size() == needs.size());
    // Independent of the planner: run the groups and remember which byte of which result was written last.
    std::vector<std::pair<ValueId, int64_t>> written(static_cast<size_t>(plan.workspace_bytes), {kNone, 0});
    for (size_t number = 0; number < groups.size(); ++number) {
      const auto& group = groups[number];
      const ValueStorage& out = plan.storage[static_cast<size_t>(group.output)];
      const int64_t begin = needs.empty() ? 0 : plan.scratch[number];
      const int64_t end = begin + (needs.empty() ? 0 : needs[number].scratch_bytes);
      REQUIRE(end <= plan.workspace_bytes);
      for (int64_t k = begin; k < end; ++k) written[static_cast<size_t>(k)] = {kNone, 0};
      if (out.kind == StorageKind::kWorkspace)
        CHECK((begin == end || end <= out.offset || out.offset + out.bytes <= begin));
      for (ValueId in : group.inputs) {
        const ValueStorage& s = plan.storage[static_cast<size_t>(in)];
        REQUIRE(s.kind != StorageKind::kNone);
        if (s.kind != StorageKind::kWorkspace) continue;
        REQUIRE(s.bytes == g.value(in).bytes());
        for (int64_t k = 0; k < s.bytes; ++k) {
          if (written[static_cast<size_t>(s.offset + k)] != origin(g, in, k)) FAIL("round " << round);
        }
      }
      if (out.kind != StorageKind::kWorkspace) continue;
      CHECK(out.offset % kWorkspaceAlignment == 0);
      for (ValueId in : group.inputs) {
        const ValueStorage& s = plan.storage[static_cast<size_t>(in)];
        if (s.kind != StorageKind::kWorkspace) continue;
        const bool apart = s.offset + s.bytes <= out.offset || out.offset + out.bytes <= s.offset;
        const auto* allowed = needs.empty() ? nullptr : &needs[number].overwritable;
        const bool may_take = allowed != nullptr && std::count(allowed->begin(), allowed->end(), in) > 0 &&
                              s.offset == out.offset && s.bytes == out.bytes;
        CHECK((apart || may_take));
        taken += apart ? 0 : 1;
      }
      for (int64_t k = 0; k < out.bytes; ++k) written[static_cast<size_t>(out.offset + k)] = {group.output, k};
    }
    for (ValueId id : g.outputs) CHECK(plan.storage[static_cast<size_t>(id)].kind == StorageKind::kOutput);
  }
  CHECK(taken > 20);
  CHECK(parts > 100);
  CHECK(joins > 100);
}

TEST_CASE("a concatenation of results needs no kernel where its parts are runs of bytes") {
  // As in DenseNet: each layer reads all before it, and appends its own channels.
  auto dense_block = [](int64_t batch, int64_t channels, int64_t size) {
    Graph g;
    ValueId x = add(g, Op::kRelu, NoAttrs{}, {g.add_input("x", DType::kF32, {batch, channels, size, size})});
    for (int layer = 0; layer < 3; ++layer) {
      const ValueId sums = add(g, Op::kReduceSum, ReduceAttrs{{1}, true}, {add(g, Op::kTanh, NoAttrs{}, {x})});
      const ValueId more = add(g, Op::kExpand, ReshapeAttrs{{batch, channels, size, size}}, {sums});
      x = add(g, Op::kConcat, AxisAttrs{1}, {x, more});
    }
    g.add_output(add(g, Op::kRelu, NoAttrs{}, {x}), "o");
    REQUIRE(optimize(g, nullptr));
    return g;
  };
  Graph g = dense_block(1, 16, 3);
  CHECK(count_of(g, Op::kJoin) == 3);
  CHECK(count_of(g, Op::kConcat) == 0);
  auto groups = fuse(g);
  const MemoryPlan plan = plan_memory(g, groups);
  int64_t at = -1;
  for (const auto& group : groups) {
    const Op anchor = g.node(group.anchor).op;
    const ValueStorage& s = plan.storage[static_cast<size_t>(group.output)];
    if (anchor != Op::kExpand) continue;
    if (at >= 0) CHECK(s.offset == at);
    at = s.offset + s.bytes;
  }
  // Of two images the channels of each are apart, and 3 channels of 9 floats end inside a line.
  CHECK(count_of(dense_block(2, 16, 3), Op::kConcat) == 3);
  CHECK(count_of(dense_block(1, 3, 3), Op::kConcat) == 3);
}

TEST_CASE("inputs and parts that have a place already are copied into a concatenation") {
  auto shape = Shape{1, 16, 2, 2};
  Graph g;
  const ValueId x = g.add_input("x", DType::kF32, shape);
  const ValueId y = add(g, Op::kRelu, NoAttrs{}, {x}), z = add(g, Op::kTanh, NoAttrs{}, {x});
  const ValueId inside = add(g, Op::kConcat, AxisAttrs{1}, {y, x, z, y});
  g.add_output(add(g, Op::kTranspose, TransposeAttrs{{0, 1, 3, 2}}, {inside}), "o");
  SECTION("parts") {
    REQUIRE(optimize(g, nullptr));
    CHECK(count_of(g, Op::kJoin) == 1);
    CHECK(count_of(g, Op::kIdentity) == 2);  // of the input and of what is there twice
  }
  SECTION("a part that is an output") {
    g.add_output(y, "y");
    REQUIRE(optimize(g, nullptr));
    CHECK(count_of(g, Op::kConcat) == 1);  // a quarter alone would be in its place
  }
  SECTION("a result that is an output") {
    g.add_output(inside, "i");
    REQUIRE(optimize(g, nullptr));
    CHECK(count_of(g, Op::kConcat) == 1);
  }
}
