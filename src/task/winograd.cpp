// A convolution by tiles (tcc/graph/winograd.h), as three blocks behind the padding:
//
//   V[x, c, t] = (B^T d B)_x of tile t of channel c, all x at once      x: which of the a^2 transformed elements
//   M[x, f, t] = sum over c of U[x, f, c] V[x, c, t]                    a^2 matrix products
//   Y[f, tile t] = A^T M A, the m^2 outputs of the tile at once, and the bias
//
// The transforms are written out as sums of their nonzero terms, along the columns first and then along the rows; the
// expressions of one tile share the first half. A block with several stores is never inlined, so that each tile is
// transformed once. Tiles that reach over the edge write to a copy that is cut afterwards.

#include "tcc/graph/winograd.h"
#include "nest.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;

namespace {

// sum of coefficients[i] * terms[i], without the terms and factors that change nothing.
Expr linear(Builder& b, Type type, const double* coefficients, const Exprs& terms) {
  Expr sum = nullptr;
  for (size_t i = 0; i < terms.size(); ++i) {
    const double c = coefficients[i];
    if (c == 0) continue;
    const bool minus = sum != nullptr && c < 0;
    const double factor = minus ? -c : c;
    Expr term = factor == 1 ? terms[i] : b.mul(terms[i], b.real(factor, type));
    sum = sum == nullptr ? term : minus ? b.sub(sum, term) : b.add(sum, term);
  }
  TCC_CHECK(sum != nullptr);
  return sum;
}

// The rows x rows elements of T x T^T, for the rows of T and x of columns x columns, both row-major.
Exprs sandwich(Builder& b, Type type, const std::vector<double>& matrix, size_t columns, const Exprs& x) {
  const size_t rows = matrix.size() / columns;
  Exprs half, y;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t l = 0; l < columns; ++l) {
      Exprs column;
      for (size_t k = 0; k < columns; ++k) column.push_back(x[k * columns + l]);
      half.push_back(linear(b, type, &matrix[i * columns], column));
    }
  }
  for (size_t i = 0; i < rows; ++i) {
    const Exprs row(half.begin() + static_cast<std::ptrdiff_t>(i * columns),
                    half.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
    for (size_t j = 0; j < rows; ++j) y.push_back(linear(b, type, &matrix[j * columns], row));
  }
  return y;
}

}  // namespace

void GroupNest::plan_winograd(const graph::Node& node) {
  add_stage("conv", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::ConvAttrs>();
    const graph::WinogradMatrices& w = graph::winograd_matrices(a.winograd);
    const graph::Shape in = shape_of(node.inputs[0]), shape = out.shape;
    const int64_t rows = graph::winograd_tiles(shape[2], w.m), columns = graph::winograd_tiles(shape[3], w.m);
    const auto tile_index = [&](const Exprs& at) {
      return b().add(b().scale(b().add(b().scale(at[0], rows), at[2]), columns), at[3]);
    };
    const auto tile_position = [&](const Exprs& at, int64_t i, int64_t side) {
      return Exprs{at[0], at[1], b().offset(b().scale(at[2], w.m), i / side),
                   b().offset(b().scale(at[3], w.m), i % side)};
    };
    const auto tile_axes = [&](const char* channel, int64_t channels) {
      return std::vector<NestAxis>{{"n", shape[0]}, {channel, channels}, {"ty", rows}, {"tx", columns}};
    };
    std::vector<Stmt> nests;

    Tensor source = operand(node.inputs[0]);
    const graph::Shape whole{in[0], in[1], rows * w.m + 2, columns * w.m + 2};
    if (in != whole || a.pads_begin[0] != 0 || a.pads_begin[1] != 0) {
      source = make_temp(kPadBlock, whole);
      nests.push_back(map_nest(kPadBlock, axes_of(whole), source, [&](const Exprs& at) {
        return read_padded(operand(node.inputs[0]), at, whole, {0, 0, a.pads_begin[0], a.pads_begin[1]});
      }));
    }

    const int64_t tiles = shape[0] * rows * columns;
    const Tensor transformed = make_temp("winograd_input", {w.a * w.a, in[1], tiles});
    nests.push_back(tile_nest("winograd_input", tile_axes("c", in[1]), [&](const Exprs& at) {
      Exprs d;
      for (int64_t i = 0; i < w.a * w.a; ++i) d.push_back(read(source, tile_position(at, i, w.a)));
      const Exprs v = sandwich(b(), compute_, w.bt, static_cast<size_t>(w.a), d);
      std::vector<Stmt> stores;
      for (size_t i = 0; i < v.size(); ++i)
        stores.push_back(b().store(transformed.buffer->id,
                                   Exprs{b().integer(static_cast<int64_t>(i)), at[1], tile_index(at)}, v[i]));
      return stores;
    }));

    const Tensor product = make_temp(kWinogradProduct, {w.a * w.a, shape[1], tiles});
    nests.push_back(reduce_nest(kWinogradProduct, {{"x", w.a * w.a}, {"f", shape[1]}, {"t", tiles}}, {{"rc", in[1]}},
                                ReducerKind::kSum, product, nullptr, [&](const Exprs& at, const Exprs& over) {
                                  return b().mul(read(operand(node.inputs[1]), {at[0], at[1], over[0]}),
                                                 read(transformed, {at[0], over[0], at[2]}));
                                }));

    const graph::Shape covered{shape[0], shape[1], rows * w.m, columns * w.m};
    const Tensor result = covered == shape ? out : make_temp("winograd_output", covered);
    nests.push_back(tile_nest("winograd_output", tile_axes("f", shape[1]), [&](const Exprs& at) {
      Exprs m;
      for (int64_t i = 0; i < w.a * w.a; ++i) m.push_back(read(product, {b().integer(i), at[1], tile_index(at)}));
      const Exprs y = sandwich(b(), compute_, w.at, static_cast<size_t>(w.a), m);
      const Expr bias = node.inputs.size() == 3 ? read(operand(node.inputs[2]), {at[1]}) : nullptr;
      std::vector<Stmt> stores;
      for (size_t i = 0; i < y.size(); ++i) {
        const Expr value = bias == nullptr ? y[i] : b().add(y[i], bias);
        stores.push_back(b().store(result.buffer->id, tile_position(at, static_cast<int64_t>(i), w.m),
                                   b().cast(value, result.buffer->type)));
      }
      return stores;
    }));
    if (covered != shape)
      nests.push_back(map_nest(name, axes_of(shape), out, [&](const Exprs& at) { return read(result, at); }));
    return b().seq(nests);
  });
}

}  // namespace tcc::task
