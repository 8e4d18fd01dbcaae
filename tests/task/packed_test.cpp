// Products with weights of 4 bits.
#include "task/one_group.h"
#include "tcc/graph/passes.h"
#include "tcc/support/rng.h"

namespace tcc::task_test {

namespace {

using Doubles = std::vector<double>;

struct Packed {
  int64_t terms, columns, block;
  int64_t panels() const { return (columns + graph::kPackedColumns - 1) / graph::kPackedColumns; }

  // On x of a shape whose last extent is `terms`.
  ValueId add(Model& m, const Shape& x_shape, Rng& rng, bool constants) const {
    auto drawn = [&](int64_t count, auto&& draw) {
      Doubles v(static_cast<size_t>(count));
      for (double& x : v) x = draw();
      return v;
    };
    const Shape numbers{panels(), terms / 2, graph::kPackedColumns},
        each{panels(), terms / block, graph::kPackedColumns};
    auto constant = [&](DType dtype, const Shape& shape, const Doubles& v) {
      if (!constants) return m.input(dtype, shape, v);
      return m.g.add_constant("c", dtype, shape, graph::make_constant_from_doubles(dtype, v));
    };
    const auto uniform = [&] { return static_cast<double>(static_cast<float>(2 * rng.uniform() - 1)); };
    const ValueId x = m.input(DType::kF32, x_shape, drawn(graph::element_count(x_shape), uniform));
    const ValueId q = constant(
        DType::kU8, numbers, drawn(graph::element_count(numbers), [&] { return static_cast<double>(rng.below(256)); }));
    const ValueId scales = constant(DType::kF32, each, drawn(graph::element_count(each), uniform));
    const ValueId zeros = constant(DType::kF32, each, drawn(graph::element_count(each), uniform));
    return m.node(Op::kPackedMatMul, graph::PackedMatMulAttrs{columns, block}, {x, q, scales, zeros});
  }
};

}  // namespace

TEST_CASE("products with weights of 4 bits: any number of rows and columns, in tiles and element by element") {
  // Rows of 1024 floats are copied where tiles share them.
  for (const Packed& p : {Packed{32, 32, 32}, Packed{64, 40, 16}, Packed{96, 1, 2}, Packed{32, 70, 32},
                          Packed{1024, 12, 4}, Packed{1024, 33, 16}})
    for (const Shape& rows : {Shape{}, Shape{1}, Shape{2, 3}, Shape{7}, Shape{2, 1, 8}})
      for (bool in_order : {false, true}) {
        Shape x = rows;
        x.push_back(p.terms);
        INFO(graph::shape_text(x) << " to " << p.columns << " columns in blocks of " << p.block
                                  << (in_order ? ", in tiles" : ""));
        Rng rng(7);
        Model m;
        m.options.in_order = in_order;
        m.check(p.add(m, x, rng, false), 1e-4);
      }
}

TEST_CASE("weights of 4 bits stay so where that is asked for, and become floats elsewhere") {
  for (bool packed : {false, true}) {
    Rng rng(3);
    Model m;
    const Packed p{64, 40, 32};
    m.g.add_output(p.add(m, {3, 64}, rng, true), "y");
    const Doubles numbers = [&] {
      Doubles v(3 * 64);
      for (double& x : v) x = static_cast<double>(static_cast<float>(rng.normal()));
      return v;
    }();
    const std::vector<graph::HostTensor> inputs{{{3, 64}, numbers}};
    const auto want = graph::run_reference(m.g, inputs, 1);
    const auto evaluator = graph::reference_evaluator();
    REQUIRE(graph::optimize(m.g, evaluator.get(), {.packed_weights = packed}).has_value());
    const auto got = graph::run_reference(m.g, inputs, 1);
    REQUIRE((want.has_value() && got.has_value()));
    for (size_t i = 0; i < want->at(0).data.size(); ++i)
      CHECK(got->at(0).data[i] == Approx(want->at(0).data[i]).epsilon(1e-5).margin(1e-4));
    const bool kept = std::any_of(m.g.order.begin(), m.g.order.end(),
                                  [&](graph::NodeId id) { return m.g.node(id).op == Op::kPackedMatMul; });
    CHECK(kept == packed);
  }
}

}  // namespace tcc::task_test
