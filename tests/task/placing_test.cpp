// Operators that place, order, sum up and sample elements; extrema with NaN; products of integers.
#include "task/one_group.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::task_test;
using graph::ScatterReduction;
using Doubles = std::vector<double>;

namespace {

Doubles waves(int64_t n, double step = 0.7) {
  Doubles v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(step * static_cast<double>(i * i + 1));
  return v;
}
Doubles counted(int64_t n, int64_t below) {
  Doubles v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>((static_cast<int64_t>(i) * 5 + 2) % below);
  return v;
}

}  // namespace

TEST_CASE("sums and products so far, every axis and direction") {
  for (int64_t axis : {0, 1, 2}) {
    for (int form = 0; form < 8; ++form) {
      const graph::ScanAttrs attrs{axis, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0};
      INFO("axis " << axis << ", form " << form);
      Model m;
      m.check(m.node(Op::kScan, attrs, {m.input(DType::kF32, {2, 5, 3}, waves(30))}), 1e-5);
      Model w;
      w.check(w.node(Op::kScan, attrs, {w.input(DType::kI32, {2, 5, 3}, counted(30, 4))}), 0);
    }
  }
  Model row;
  CHECK(row.check(
            row.node(Op::kScan, graph::ScanAttrs{0, true, true, false}, {row.input(DType::kI64, {4}, {1, 2, 3, 4})}),
            0) == Doubles{9, 7, 4, 0});
  Model nan;
  auto got = nan.check(nan.node(Op::kScan, graph::ScanAttrs{}, {nan.input(DType::kF32, {3}, {1, NAN, 2})}), 0);
  CHECK(got[0] == 1);
  CHECK(std::isnan(got[2]));
}

TEST_CASE("scattered elements: duplicates, negative indices, indices out of range, all reductions") {
  for (ScatterReduction reduction : {ScatterReduction::kNone, ScatterReduction::kAdd, ScatterReduction::kMul,
                                     ScatterReduction::kMax, ScatterReduction::kMin}) {
    for (DType dtype : {DType::kF32, DType::kI64, DType::kI32, DType::kU8, DType::kF16}) {
      INFO(static_cast<int>(reduction) << " " << graph::dtype_name(dtype));
      for (int64_t axis : {0, 1}) {
        Model m;
        ValueId data = m.input(dtype, {3, 4}, counted(12, 7));
        ValueId indices = m.input(DType::kI64, {2, 3}, {0, -1, 2, 0, 1, 2});
        ValueId updates = m.input(dtype, {2, 3}, {5, 1, 2, 3, 0, 6});
        m.check(m.node(Op::kScatter, graph::ScatterAttrs{axis, reduction}, {data, indices, updates}), 1e-3);
      }
      Model m;
      ValueId data = m.input(dtype, {3, 2, 2}, counted(12, 7));
      ValueId indices = m.input(DType::kI32, {2, 2, 2}, {0, 1, -1, 0, 0, 1, 2, 5});  // the last is out of range
      ValueId updates = m.input(dtype, {2, 2, 2}, {5, 1, 2, 3, 0, 6, 4, 4});
      m.check(m.node(Op::kScatter, graph::ScatterAttrs{-1, reduction}, {data, indices, updates}), 1e-3);
    }
  }
  // Numbers on both sides of 2^31 and 2^63, which the signed types that hold them order otherwise.
  for (DType dtype : {DType::kU32, DType::kU64}) {
    const double high = dtype == DType::kU32 ? 0x1p31 : 0x1p63;
    for (auto [reduction, expected] : {std::pair{ScatterReduction::kMax, Doubles{high, 7, high + high / 2}},
                                       {ScatterReduction::kMin, Doubles{3, 7, 0}}}) {
      INFO(static_cast<int>(reduction) << " " << graph::dtype_name(dtype));
      Model m;
      ValueId data = m.input(dtype, {3}, {high, 7, 0});
      ValueId indices = m.input(DType::kI64, {4, 1}, {0, 2, 2, 2}),
              updates = m.input(dtype, {4}, {3, high, high + high / 2, 9});
      CHECK(m.check(m.node(Op::kScatter, graph::ScatterAttrs{-1, reduction}, {data, indices, updates}), 0) == expected);
    }
  }
  // The last update of a place stays.
  Model last;
  ValueId data = last.input(DType::kF32, {3}, {0, 0, 0});
  ValueId indices = last.input(DType::kI64, {4}, {1, 2, 1, -9}), updates = last.input(DType::kF32, {4}, {1, 2, 3, 4});
  CHECK(last.check(last.node(Op::kScatter, graph::ScatterAttrs{0, {}}, {data, indices, updates}), 0) ==
        Doubles{0, 3, 2});
  Model boolean;
  data = boolean.input(DType::kBool, {3}, {0, 1, 0});
  indices = boolean.input(DType::kI64, {1, 1}, {2});
  updates = boolean.input(DType::kBool, {1}, {1});
  CHECK(boolean.check(boolean.node(Op::kScatter, graph::ScatterAttrs{}, {data, indices, updates}), 0) ==
        Doubles{0, 1, 1});
}

TEST_CASE("u32 and u64 are reduced and sorted as unsigned numbers") {
  for (DType dtype : {DType::kU32, DType::kU64}) {
    INFO(graph::dtype_name(dtype));
    const double high = dtype == DType::kU32 ? 0x1p31 : 0x1p63;
    const Doubles x{3, high, high + high / 2, 1, 0, 2};
    auto reduced = [&](Op op) {
      Model m;
      return m.check(m.node(op, graph::ReduceAttrs{{1}, false}, {m.input(dtype, {2, 3}, x)}), 0);
    };
    CHECK(reduced(Op::kReduceMax) == Doubles{high + high / 2, 2});
    CHECK(reduced(Op::kReduceMin) == Doubles{3, 0});
    auto order = [&](bool largest) {
      Model m;
      return m.check(m.node(Op::kTopK, graph::TopKAttrs{1, 2, largest}, {m.input(dtype, {2, 3}, x)}), 0);
    };
    CHECK(order(true) == Doubles{2, 1, 2, 0});
    CHECK(order(false) == Doubles{0, 1, 1, 0});
    // Sums and products wrap.
    Model sum, product;
    CHECK(
        sum.check(sum.node(Op::kReduceSum, graph::ReduceAttrs{{0}, false}, {sum.input(dtype, {3}, {high, high, high})}),
                  0) == Doubles{high});
    CHECK(product.check(
              product.node(Op::kReduceProd, graph::ReduceAttrs{{0}, false}, {product.input(dtype, {2}, {high, 3})}),
              0) == Doubles{high});
  }
}

TEST_CASE("positions of the greatest and the least elements: ties keep their order, NaN is the greatest") {
  for (bool largest : {true, false}) {
    for (int64_t axis : {0, 1}) {
      INFO(largest << " along " << axis);
      Model m;
      Doubles x = waves(20);
      x[7] = x[9] = x[3];
      m.check(m.node(Op::kTopK, graph::TopKAttrs{axis, 3, largest}, {m.input(DType::kF32, {4, 5}, x)}), 0);
      Model n;
      n.check(n.node(Op::kTopK, graph::TopKAttrs{axis, 2, largest}, {n.input(DType::kI64, {4, 5}, counted(20, 3))}), 0);
    }
    Model e;
    const Doubles edges{1, NAN, INFINITY, -INFINITY, NAN, 0.0, -0.0};
    auto got = e.check(e.node(Op::kTopK, graph::TopKAttrs{0, 7, largest}, {e.input(DType::kF32, {7}, edges)}), 0);
    CHECK(got == (largest ? Doubles{1, 4, 2, 0, 5, 6, 3} : Doubles{3, 5, 6, 0, 2, 1, 4}));
  }
}

TEST_CASE("positions of true elements: as many as there is room for, zeros behind the last") {
  auto found = [](int64_t room, const Doubles& x) {
    Model m;
    const auto count = static_cast<int64_t>(x.size());
    return m.check(m.node(Op::kFind, graph::FindAttrs{room}, {m.input(DType::kBool, {count}, x)}), 0);
  };
  CHECK(found(5, {0, 1, 1, 0, 1}) == Doubles{1, 2, 4, 0, 0});
  CHECK(found(2, {0, 1, 1, 0, 1}) == Doubles{1, 2});
  CHECK(found(3, {0, 0, 0}) == Doubles{0, 0, 0});
  CHECK(found(1, {1}) == Doubles{0});
  Doubles many, places;
  for (int64_t i = 0; i < 300; ++i) many.push_back(i % 7 == 3 || i % 11 == 0 ? 1 : 0);
  for (int64_t i = 0; i < 300; ++i)
    if (many[static_cast<size_t>(i)] != 0) places.push_back(static_cast<double>(i));
  places.resize(300, 0);
  CHECK(found(300, many) == places);
}

TEST_CASE("boxes stay that hide no better one: rows are independent, and a row keeps a number of them at most") {
  auto kept = [](int64_t most, double overlap, double least, const Doubles& scores) {
    Model m;
    // Two boxes of which a third is common, one apart, one equal to the first.
    const Doubles first{0, 0, 2, 2}, second{0, 1, 2, 3}, apart{5, 5, 6, 6};
    Doubles boxes;
    for (const Doubles& box : {first, second, apart, first}) boxes.insert(boxes.end(), box.begin(), box.end());
    return m.check(m.node(Op::kSuppress, graph::SuppressAttrs{most, overlap, least},
                          {m.input(DType::kF32, {1, 4, 4}, boxes), m.input(DType::kF32, {1, 2, 4}, scores)}),
                   0);
  };
  const Doubles scores{9, 8, 7, 6, 1, 3, 2, 3};
  CHECK(kept(4, 0.3, -HUGE_VAL, scores) == Doubles{0, 2, -1, -1, 1, 2, -1, -1});
  CHECK(kept(4, 0.5, -HUGE_VAL, scores) == Doubles{0, 1, 2, -1, 1, 3, 2, -1});
  CHECK(kept(9, 1.0, -HUGE_VAL, scores) == Doubles{0, 1, 2, 3, 1, 3, 2, 0});
  CHECK(kept(1, 0.5, -HUGE_VAL, scores) == Doubles{0, 1});
  CHECK(kept(4, 1.0, 2, scores) == Doubles{0, 1, 2, 3, 1, 3, -1, -1});
  CHECK(kept(2, 1.0, 3, scores) == Doubles{0, 1, -1, -1});
  CHECK(kept(3, 1.0, -HUGE_VAL, {NAN, -INFINITY, INFINITY, 0, NAN, NAN, NAN, NAN}) == Doubles{2, 3, -1, -1, -1, -1});
}

TEST_CASE("the position of the greatest or the least element: the first or the last of several, NaN before all") {
  for (bool greatest : {true, false})
    for (bool last : {false, true}) {
      INFO((greatest ? "greatest" : "least") << (last ? ", last" : ""));
      for (int64_t axis : {0, 1, 2}) {
        Model m;
        m.check(m.node(Op::kArg, graph::ArgAttrs{axis, greatest, last}, {m.input(DType::kF32, {4, 5, 3}, waves(60))}),
                0);
        Model n;
        n.check(
            n.node(Op::kArg, graph::ArgAttrs{axis, greatest, last}, {n.input(DType::kI64, {4, 5, 3}, counted(60, 3))}),
            0);
      }
      auto of = [&](const Doubles& x, DType dtype) {
        Model e;
        const auto n = static_cast<int64_t>(x.size());
        return e.check(e.node(Op::kArg, graph::ArgAttrs{0, greatest, last}, {e.input(dtype, {n}, x)}), 0);
      };
      CHECK(of({1, NAN, INFINITY, -INFINITY, NAN, 0.0}, DType::kF32) == Doubles{last ? 4.0 : 1.0});
      CHECK(of({2, INFINITY, -INFINITY, INFINITY, -INFINITY, 0}, DType::kF16) ==
            Doubles{greatest ? (last ? 3.0 : 1.0) : (last ? 4.0 : 2.0)});
      CHECK(of({0, -0.0, 0}, DType::kF32) == Doubles{last ? 2.0 : 0.0});
      for (DType dtype : {DType::kU32, DType::kU64})
        CHECK(of({4294967295.0, 3, 4294967295.0, 3, 2147483648.0}, dtype) ==
              Doubles{greatest ? (last ? 2.0 : 0.0) : (last ? 3.0 : 1.0)});
      CHECK(of({255, 0, 255, 0}, DType::kU8) == Doubles{greatest ? (last ? 2.0 : 0.0) : (last ? 3.0 : 1.0)});
    }
}

TEST_CASE("elements between elements, along one axis and two") {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kF64}) {
    INFO(graph::dtype_name(dtype));
    Model m;
    ValueId x = m.input(dtype, {2, 3, 4}, waves(24));
    ValueId p = m.input(DType::kI64, {5, 2}, {0, 1, 0, 1, 1, 2, -1, 1, 2, 9}), w = m.input(dtype, {5, 2}, waves(10));
    ValueId q = m.input(DType::kI32, {3, 3}, counted(9, 4)), v = m.input(dtype, {3, 3}, waves(9));
    m.check(m.node(Op::kResample, graph::ResampleAttrs{{1, 2}}, {x, p, w, q, v}), 5e-3);
    Model one;
    x = one.input(dtype, {2, 3}, waves(6));
    p = one.input(DType::kI64, {4, 1}, {0, 1, 1, 2}), w = one.input(dtype, {4, 1}, {1, 1, 0.5, 1});
    one.check(one.node(Op::kResample, graph::ResampleAttrs{{1}}, {x, p, w}), 5e-3);
  }
}

TEST_CASE("blocks go back to their places in an image, and are summed where they overlap") {
  // One axis: stride below, at and above the block's extent, with gaps in the blocks, pads, infinite numbers.
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32})
    for (int64_t stride : {1, 2, 3, 4})
      for (int64_t dilation : {1, 2, 3})
        for (int64_t pad : {0, 2}) {
          INFO(graph::dtype_name(dtype) << ", stride " << stride << ", dilation " << dilation << ", pad " << pad);
          const int64_t blocks = 5, block = 3, extent = (blocks - 1) * stride + (block - 1) * dilation + 1 - pad;
          Doubles x = counted(2 * block * blocks, 50);
          if (graph::is_float(dtype)) x[4] = INFINITY;
          Model m;
          m.check(m.node(Op::kFold, graph::FoldAttrs{{extent}, {stride}, {dilation}, {pad}},
                         {m.input(dtype, {1, 2, block, blocks}, x)}),
                  0);
        }
  // Positions of the image that no block reaches, and elements beyond its end.
  Model wide, narrow;
  wide.check(
      wide.node(Op::kFold, graph::FoldAttrs{{9}, {4}, {1}, {0}}, {wide.input(DType::kF32, {1, 1, 2, 2}, waves(4))}), 0);
  narrow.check(
      narrow.node(Op::kFold, graph::FoldAttrs{{2}, {3}, {1}, {1}}, {narrow.input(DType::kF32, {1, 1, 2, 3}, waves(6))}),
      0);
  Model image;
  image.check(image.node(Op::kFold, graph::FoldAttrs{{7, 6}, {2, 1}, {1, 2}, {1, 0}},
                         {image.input(DType::kF32, {2, 3, 3, 2, 4, 4}, waves(2 * 3 * 3 * 2 * 4 * 4))}),
              1e-6);
}

TEST_CASE("determinants of matrices, also of singular ones and of those that rows change places in") {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kF64})
    for (int64_t n : {1, 2, 3, 16, 17, 33}) {
      INFO(graph::dtype_name(dtype) << ", " << n << " rows");
      Rng rng(static_cast<uint64_t>(n));
      Doubles x(static_cast<size_t>(3 * n * n));
      for (double& v : x) v = (2 * rng.uniform() - 1) * std::sqrt(3.0 / static_cast<double>(n));
      Model m;
      m.check(m.node(Op::kDeterminant, graph::NoAttrs{}, {m.input(dtype, {3, n, n}, x)}),
              dtype == DType::kF16 ? 2e-2 : 1e-4);
    }
  Model m;
  const Doubles got =
      m.check(m.node(Op::kDeterminant, graph::NoAttrs{},
                     {m.input(DType::kF32, {4, 3, 3}, {0, 1, 2, 1, 0, 3,  4, -3, 8, 0, 1, 2, 0, 5, 3, 0, -3, 8,
                                                       1, 2, 3, 0, 0, -2, 0, 4,  1, 0, 0, 0, 0, 0, 0, 0, 0,  0})}),
              1e-6);
  CHECK(got == Doubles{-2, 0, 8, 0});
}

TEST_CASE("extrema with NaN: kept where the node says so, else not looked at") {
  const Doubles x{1, NAN, 3, NAN, NAN, NAN, -INFINITY, 2, INFINITY, -INFINITY, -INFINITY, -INFINITY};
  for (Op op : {Op::kReduceMax, Op::kReduceMin}) {
    Model keeps;
    auto got =
        keeps.check(keeps.node(op, graph::ReduceAttrs{{1}, false, true}, {keeps.input(DType::kF32, {4, 3}, x)}), 0);
    CHECK(std::isnan(got[0]));
    CHECK(std::isnan(got[1]));
    CHECK(got[3] == -INFINITY);
    Model columns;
    columns.check(columns.node(op, graph::ReduceAttrs{{0}, true, true}, {columns.input(DType::kF32, {4, 3}, x)}), 0);
    Model leaves;
    got = leaves.check(leaves.node(op, graph::ReduceAttrs{{1}, false}, {leaves.input(DType::kF32, {4, 3}, x)}), 0);
    CHECK(got[0] == (op == Op::kReduceMax ? 3 : 1));
  }
  Model pool;
  graph::PoolAttrs window;
  window.kernel = {2};
  window.strides = {1};
  window.dilations = {1};
  window.pads_begin = {1};
  window.pads_end = {0};
  const Doubles row{-INFINITY, -INFINITY, NAN, 5};
  CHECK(pool.check(pool.node(Op::kMaxPool, window, {pool.input(DType::kF32, {1, 1, 4}, row)}), 0) ==
        Doubles{-INFINITY, -INFINITY, -INFINITY, 5});
}

TEST_CASE("products of integers wrap") {
  for (DType dtype : {DType::kI32, DType::kI64}) {
    Model m;
    ValueId x = m.input(dtype, {2, 3}, {1, -2, 3, 100000, 2, 70000}),
            y = m.input(dtype, {3, 2}, {1, 2, 3, 4, 50000, 6});
    auto got = m.check(m.node(Op::kMatMul, graph::MatMulAttrs{}, {x, y}), 0);
    CHECK(got[2] == (dtype == DType::kI64 ? 3500100006.0 : 3500100006.0 - 0x1p32));
    Model g;
    x = g.input(dtype, {2, 3}, {1, -2, 3, 4, 5, 6});
    y = g.input(dtype, {2, 3}, {1, 0, 2, -1, 1, 1});
    ValueId c = g.input(dtype, {2}, {10, 20});
    CHECK(g.check(g.node(Op::kGemm, graph::GemmAttrs{2, 1, false, true}, {x, y, c}), 0) == Doubles{24, 20, 42, 34});
  }
  Model conv;
  ValueId x = conv.input(DType::kI32, {1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  ValueId w = conv.input(DType::kI32, {1, 2, 2}, {1, -1, 2, 0});
  graph::ConvAttrs a;
  a.kernel = {2};
  a.strides = a.dilations = {1};
  a.pads_begin = a.pads_end = {0};
  CHECK(conv.check(conv.node(Op::kConv, a, {x, w}), 0) == Doubles{9, 11, 13});
}
