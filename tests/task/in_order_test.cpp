// Sorts and scatters whose loops run in order.
#include "one_group.h"
#include "tcc/ir/walk.h"

namespace tcc::task_test {

namespace {

using Doubles = std::vector<double>;

// Numbers with many ties that are neither sorted nor periodic.
Doubles scattered(int64_t count, int64_t different, bool edges) {
  Doubles x;
  uint64_t state = 7;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto draw = static_cast<int64_t>(state >> 33);
    x.push_back(static_cast<double>(draw % different));
    if (edges && draw % 11 == 0) x.back() = NAN;
    if (edges && draw % 13 == 0) x.back() = draw % 2 == 0 ? INFINITY : -INFINITY;
    if (edges && draw % 17 == 0) x.back() = -0.0;
  }
  return x;
}

void check_top_k(DType dtype, const Shape& shape, graph::TopKAttrs attrs, const Doubles& x) {
  INFO(graph::dtype_name(dtype) << " " << graph::shape_text(shape) << " k " << attrs.k << " axis " << attrs.axis
                                << (attrs.largest ? " largest" : " least"));
  Model m;
  m.options.in_order = true;
  m.check(m.node(Op::kTopK, attrs, {m.input(dtype, shape, x)}), 0);
}

}  // namespace

TEST_CASE("sorted in order: ties keep their order, NaN is the greatest, of every length") {
  for (bool largest : {true, false}) {
    for (int64_t extent : {129, 192, 200, 256, 257})
      for (int64_t k : {int64_t{1}, extent / 4, extent / 4 + 1, extent})
        check_top_k(DType::kF32, {extent}, {0, k, largest}, scattered(extent, 40, true));
    for (int64_t axis : {0, 1, 2}) {
      Shape shape{2, 3, 2};
      shape[static_cast<size_t>(axis)] = 150;
      const int64_t count = graph::element_count(shape);
      for (int64_t k : {7, 150}) check_top_k(DType::kF32, shape, {axis, k, largest}, scattered(count, 60, true));
    }
    // All elements of a rising row come before those so far.
    for (bool rises : {true, false}) {
      Doubles x;
      for (int64_t i = 0; i < 300; ++i) x.push_back(static_cast<double>(rises ? i : -i));
      for (int64_t k : {5, 40, 300}) check_top_k(DType::kF32, {300}, {0, k, largest}, x);
    }
  }
}

TEST_CASE("sorted in order: all types of elements") {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kU8, DType::kI16, DType::kU16,
                      DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    Doubles x = scattered(400, 90, graph::is_float(dtype));
    if (dtype == DType::kU32 || dtype == DType::kU64)
      for (size_t i = 0; i < x.size(); i += 3) x[i] += dtype == DType::kU32 ? 0x1p31 : 0x1p63;
    if (dtype == DType::kI8 || dtype == DType::kI64)
      for (size_t i = 0; i < x.size(); i += 3) x[i] -= 50;
    for (bool largest : {true, false})
      for (int64_t k : {9, 101, 200}) check_top_k(dtype, {2, 200}, {1, k, largest}, x);
  }
}

TEST_CASE("boxes that stay are the same in order") {
  // More than a group of elements, and more groups than a vector has lanes.
  for (int64_t count : {5, 16, 37, 130, 1100}) {
    Doubles corners = scattered(2 * count * 4, 20, false);
    const Doubles scores = scattered(4 * count, 30, false);
    for (size_t i = 0; i < corners.size(); i += 4)  // some boxes are empty or turned inside out
      for (size_t c = 0; c < 2; ++c) corners[i + c + 2] += corners[i + c] / 2;
    for (double overlap : {0.0, 0.3, 0.7})
      for (int64_t most : {int64_t{1}, int64_t{3}, std::min<int64_t>(count, 90)}) {
        Doubles kept[2];
        for (bool in_order : {false, true}) {
          Model m;
          m.options.in_order = in_order;
          kept[in_order ? 1 : 0] = m.check(
              m.node(Op::kSuppress, graph::SuppressAttrs{most, overlap, 4},
                     {m.input(DType::kF32, {2, count, 4}, corners), m.input(DType::kF32, {2, 2, count}, scores)}),
              0);
        }
        CHECK(kept[0] == kept[1]);
      }
  }
}

TEST_CASE("rows of floats have a first threshold, whatever their numbers are") {
  const int64_t extent = 301;
  std::vector<Doubles> rows;
  const auto add_row = [&](auto&& number) {
    rows.emplace_back();
    for (int64_t i = 0; i < extent; ++i) rows.back().push_back(number(i));
  };
  add_row([](int64_t) { return 3.0; });
  add_row([](int64_t i) { return static_cast<double>(i); });
  add_row([](int64_t i) { return -static_cast<double>(i); });
  add_row([](int64_t i) { return std::exp(static_cast<double>(i * 37 % 301) / 40 - 6); });
  add_row([](int64_t i) { return i % 3 == 0 ? static_cast<double>(i) : -INFINITY; });
  add_row([](int64_t i) { return i % 3 == 0 ? static_cast<double>(i) : INFINITY; });
  add_row([](int64_t i) { return i % 5 == 0 ? static_cast<double>(i) : NAN; });
  add_row([](int64_t) { return NAN; });
  add_row([](int64_t i) { return i == 300 ? 60000.0 : 1e-3 * static_cast<double>(i % 7); });
  add_row([](int64_t i) { return i % 2 == 0 ? 0.0 : -0.0; });
  Doubles all;
  for (const Doubles& row : rows) all.insert(all.end(), row.begin(), row.end());
  for (DType dtype : {DType::kF32, DType::kF16, DType::kF64})
    for (int64_t k : {1, 20, 75})
      for (bool largest : {false, true})
        check_top_k(dtype, {static_cast<int64_t>(rows.size()), extent}, {1, k, largest}, all);

  // Vectors count where elements are side by side in memory.
  const auto counts = [](DType dtype, const Shape& shape, int64_t axis) {
    Model m;
    m.options.in_order = true;
    const ValueId x = m.input(dtype, shape, scattered(graph::element_count(shape), 90, false));
    m.g.add_output(m.node(Op::kTopK, graph::TopKAttrs{axis, 20, true}, {x}), "y");
    auto task = task::make_task(m.g, graph::fuse(m.g)[0], m.options);
    REQUIRE(task.has_value());
    bool found = false;
    ir::visit(task->kernel.root, [&](ir::Stmt s) {
      const ir::Loop* l = ir::as<ir::Loop>(s);
      found |= l != nullptr && l->loop_kind == ir::LoopKind::kVectorized;
      return true;
    });
    return found;
  };
  CHECK(counts(DType::kF32, {200, 200}, 1));
  CHECK_FALSE(counts(DType::kF32, {200, 5}, 0));
  CHECK_FALSE(counts(DType::kI32, {200, 200}, 1));
}

TEST_CASE("short rows behind each other are sorted in lanes: ties keep their order, NaN is the greatest") {
  for (bool largest : {true, false})
    for (const Shape& shape : {Shape{32, 5}, Shape{45, 100}, Shape{3, 13, 1, 25}, Shape{40, 200}, Shape{2, 20, 1}})
      for (int64_t k : {1, 3, 16, 64})
        if (k <= shape.back())
          check_top_k(DType::kF32, shape, {std::ssize(shape) - 1, k, largest},
                      scattered(graph::element_count(shape), 40, true));
  for (DType dtype : {DType::kF16, DType::kU8, DType::kI64, DType::kF64})
    check_top_k(dtype, {37, 9}, {1, 4, true}, scattered(37 * 9, 40, false));
}

TEST_CASE("rows side by side are sorted in lanes: ties keep their order, NaN is the greatest, every type and length") {
  for (bool largest : {true, false}) {
    // Whole vectors of rows, a part of one, several axes behind the sorted one, and of all lengths.
    for (const Shape& shape :
         {Shape{40, 16}, Shape{7, 9}, Shape{3, 12, 2, 17}, Shape{2, 300, 33}, Shape{1, 5, 3, 3, 3}})
      for (int64_t k : {1, 2, 5, 7, 64}) {
        const int64_t axis = shape.size() == 2 ? 0 : 1;
        if (k <= shape[static_cast<size_t>(axis)])
          check_top_k(DType::kF32, shape, {axis, k, largest}, scattered(graph::element_count(shape), 40, true));
      }
    for (DType dtype : {DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kU8, DType::kI32, DType::kU32,
                        DType::kI64, DType::kU64})
      check_top_k(dtype, {30, 20}, {0, 6, largest}, scattered(600, 50, graph::is_float(dtype)));
    // Nothing but the least of all numbers.
    check_top_k(DType::kF32, {9, 16}, {0, 4, largest}, Doubles(144, largest ? -INFINITY : INFINITY));
    check_top_k(DType::kI8, {9, 16}, {0, 4, largest}, Doubles(144, largest ? -128 : 127));
  }
}

TEST_CASE("few rows beside and behind each other are sorted in lanes together, or by merges where many are wanted") {
  for (bool largest : {true, false})
    for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{4, 9, 8, 2}, 2},
                                      {{3, 40, 3}, 1},
                                      {{100, 2, 2}, 0},
                                      {{5, 1, 17, 3}, 2},
                                      {{2, 3, 200, 2}, 2}})
      for (int64_t k : {int64_t{1}, int64_t{7}, int64_t{16}, shape[static_cast<size_t>(axis)]})
        if (k <= shape[static_cast<size_t>(axis)])
          check_top_k(DType::kF32, shape, {axis, k, largest}, scattered(graph::element_count(shape), 40, true));
  for (DType dtype : {DType::kF16, DType::kU8, DType::kI64, DType::kF64})
    check_top_k(dtype, {5, 20, 4}, {1, 4, true}, scattered(400, 40, false));
}

TEST_CASE("scatters in order agree with their definition") {
  using graph::ScatterReduction;
  for (ScatterReduction reduction : {ScatterReduction::kNone, ScatterReduction::kAdd, ScatterReduction::kMul,
                                     ScatterReduction::kMax, ScatterReduction::kMin}) {
    for (DType dtype : {DType::kF32, DType::kF16, DType::kF64, DType::kI8, DType::kU32, DType::kI64, DType::kU64}) {
      INFO(graph::dtype_name(dtype) << " reduction " << static_cast<int>(reduction));
      const bool edges = graph::is_float(dtype) && reduction != ScatterReduction::kMul;
      for (int64_t axis : {0, 1, 2}) {
        Model m;
        m.options.in_order = true;
        // Indices of 4 elements along the axis, some of them twice, some negative, some out of range.
        Doubles at;
        for (double v : scattered(24, 11, false)) at.push_back(v - 5);
        const auto data = m.input(dtype, {4, 4, 5}, scattered(80, 5, edges));
        const auto indices = m.input(axis == 1 ? DType::kI32 : DType::kI64, {2, 3, 4}, at);
        const auto updates = m.input(dtype, {2, 3, 4}, scattered(24, 4, edges));
        m.check(m.node(Op::kScatter, graph::ScatterAttrs{axis, reduction}, {data, indices, updates}), 0);
      }
      for (int64_t depth : {1, 2}) {
        Model m;
        m.options.in_order = true;
        Doubles at;
        for (double v : scattered(6 * depth, 8, false)) at.push_back(v - 4);
        const auto data = m.input(dtype, {3, 4, 5}, scattered(60, 5, edges));
        const auto indices = m.input(DType::kI64, {2, 3, depth}, at);
        const Shape shape = depth == 1 ? Shape{2, 3, 4, 5} : Shape{2, 3, 5};
        const auto updates = m.input(dtype, shape, scattered(graph::element_count(shape), 4, edges));
        m.check(m.node(Op::kScatter, graph::ScatterAttrs{-1, reduction}, {data, indices, updates}), 0);
      }
    }
  }
  Model b;
  b.options.in_order = true;
  const auto data = b.input(DType::kBool, {3}, {0, 1, 0}), at = b.input(DType::kI64, {1}, {-1});
  CHECK(b.check(b.node(Op::kScatter, graph::ScatterAttrs{0, ScatterReduction::kNone},
                       {data, at, b.input(DType::kBool, {1}, {1})}),
                0) == Doubles{0, 1, 1});
}

TEST_CASE("slices of a scatter are written by vectors and a shorter one at their end") {
  using graph::ScatterReduction;
  for (ScatterReduction reduction : {ScatterReduction::kNone, ScatterReduction::kAdd, ScatterReduction::kMax})
    for (DType dtype : {DType::kF32, DType::kF16, DType::kI64})
      for (int64_t row : {1, 15, 16, 32, 37}) {
        INFO(graph::dtype_name(dtype) << " reduction " << static_cast<int>(reduction) << " row " << row);
        Model m;
        m.options.in_order = true;
        Doubles at;
        for (double v : scattered(7, 9, false)) at.push_back(v - 4);  // some twice, some out of range
        const auto data = m.input(dtype, {5, 2, row}, scattered(10 * row, 6, false));
        const auto updates = m.input(dtype, {7, 2, row}, scattered(14 * row, 5, false));
        const ValueId y =
            m.node(Op::kScatter, graph::ScatterAttrs{-1, reduction}, {data, m.input(DType::kI64, {7, 1}, at), updates});
        m.check(y, 0);
        auto task = task::make_task(m.g, graph::fuse(m.g)[0], m.options);
        REQUIRE(task.has_value());
        std::vector<int64_t> vectors;
        ir::visit(task->kernel.root, [&](ir::Stmt s) {
          const ir::Loop* l = ir::as<ir::Loop>(s);
          if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized) vectors.push_back(ir::int_value(l->extent));
          return true;
        });
        CHECK(vectors == (row < 16       ? std::vector<int64_t>{row}
                          : row % 16 > 0 ? std::vector<int64_t>{16, row % 16}
                                         : std::vector<int64_t>{16}));
      }
}

}  // namespace tcc::task_test
