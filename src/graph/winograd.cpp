// The transforms of F(2x2, 3x3) and F(4x4, 3x3), and which convolutions take that form.
#include "tcc/graph/winograd.h"

#include <algorithm>
#include <map>

#include "rewrite.h"

namespace tcc::graph {

const WinogradMatrices& winograd_matrices(int64_t m) {
  // Lavin and Gray, section 4.1, and section 4.2 (interpolation at 0, 1, -1, 2, -2 and infinity).
  static const WinogradMatrices kTwo{2,
                                     4,
                                     {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1},
                                     {1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1},
                                     {1, 1, 1, 0, 0, 1, -1, -1}};
  static const WinogradMatrices kFour{4,
                                      6,
                                      {4, 0,  -5, 0, 1, 0, 0, -4, -4, 1,  1, 0, 0, 4, -4, -1, 1, 0,
                                       0, -2, -1, 2, 1, 0, 0, 2,  -1, -2, 1, 0, 0, 4, 0,  -5, 0, 1},
                                      {1.0 / 4, 0, 0, -1.0 / 6, -1.0 / 6, -1.0 / 6, -1.0 / 6, 1.0 / 6, -1.0 / 6,
                                       1.0 / 24, 1.0 / 12, 1.0 / 6, 1.0 / 24, -1.0 / 12, 1.0 / 6, 0, 0, 1},
                                      {1, 1, 1, 1, 1, 0, 0, 1, -1, 2, -2, 0, 0, 1, 1, 4, 4, 0, 0, 1, -1, 8, -8, 1}};
  TCC_CHECK(is_winograd_tile(m), "no matrices for F({0}x{0}, 3x3): tiles are of 2 or 4", m);
  return m == 2 ? kTwo : kFour;
}

bool is_winograd_tile(int64_t m) {
  return m == 2 || m == 4;
}

namespace {

int64_t nonzeros(const std::vector<double>& matrix) {
  return std::count_if(matrix.begin(), matrix.end(), [](double v) { return v != 0; });
}

// rows x rows: M x M^T for a square x of side `columns`.
std::vector<double> sandwich(const std::vector<double>& matrix, int64_t rows, int64_t columns,
                             const std::vector<double>& x) {
  auto at = [](const std::vector<double>& v, int64_t i, int64_t j, int64_t width) {
    return v[static_cast<size_t>(i * width + j)];
  };
  std::vector<double> half(static_cast<size_t>(rows * columns)), y(static_cast<size_t>(rows * rows));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < columns; ++k) sum += at(matrix, i, k, columns) * at(x, k, j, columns);
      half[static_cast<size_t>(i * columns + j)] = sum;
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < rows; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < columns; ++k) sum += at(half, i, k, columns) * at(matrix, j, k, columns);
      y[static_cast<size_t>(i * rows + j)] = sum;
    }
  }
  return y;
}

}  // namespace

std::vector<double> winograd_weight(const std::vector<double>& weight, int64_t filters, int64_t channels, int64_t m) {
  const WinogradMatrices& w = winograd_matrices(m);
  const int64_t maps = filters * channels;
  std::vector<double> out(static_cast<size_t>(w.a * w.a * maps));
  for (int64_t i = 0; i < maps; ++i) {
    const auto first = weight.begin() + i * 9;
    const std::vector<double> u = sandwich(w.g, w.a, 3, {first, first + 9});
    for (int64_t x = 0; x < w.a * w.a; ++x) out[static_cast<size_t>(x * maps + i)] = u[static_cast<size_t>(x)];
  }
  return out;
}

void run_winograd(const ConvAttrs& a, const Shape& in, const Shape& out, const WinogradOperands& operands,
                  int64_t plane, double* y) {
  const WinogradMatrices& w = winograd_matrices(a.winograd);
  const int64_t channels = in[1], filters = out[1], n = plane / filters, f = plane % filters;
  for (int64_t row = 0; row < out[2]; row += w.m) {
    for (int64_t column = 0; column < out[3]; column += w.m) {
      std::vector<double> product(static_cast<size_t>(w.a * w.a), 0.0), d(product.size());
      for (int64_t c = 0; c < channels; ++c) {
        const double* x = operands.x + (n * channels + c) * in[2] * in[3];
        for (int64_t i = 0; i < w.a * w.a; ++i) {
          const int64_t h = row + i / w.a - a.pads_begin[0], v = column + i % w.a - a.pads_begin[1];
          const bool inside = h >= 0 && h < in[2] && v >= 0 && v < in[3];
          d[static_cast<size_t>(i)] = inside ? x[h * in[3] + v] : 0;
        }
        const std::vector<double> transformed = sandwich(w.bt, w.a, w.a, d);
        for (int64_t i = 0; i < w.a * w.a; ++i)
          product[static_cast<size_t>(i)] +=
              operands.u[(i * filters + f) * channels + c] * transformed[static_cast<size_t>(i)];
      }
      const std::vector<double> tile = sandwich(w.at, w.m, w.a, product);
      for (int64_t i = 0; i < std::min(w.m, out[2] - row); ++i)
        for (int64_t j = 0; j < std::min(w.m, out[3] - column); ++j)
          y[(row + i) * out[3] + column + j] =
              tile[static_cast<size_t>(i * w.m + j)] + (operands.bias == nullptr ? 0 : operands.bias[f]);
    }
  }
}

double winograd_flops(const Graph& graph, const Node& node) {
  const Shape &u = graph.value(node.inputs[1]).shape, &out = graph.value(node.output).shape;
  const int64_t m = node.as<ConvAttrs>().winograd;
  return 2 * static_cast<double>(element_count(u)) *
         static_cast<double>(out[0] * winograd_tiles(out[2], m) * winograd_tiles(out[3], m));
}

bool fits_winograd(const Graph& graph, const Node& node) {
  if (node.op != Op::kConv) return false;
  const auto& a = node.as<ConvAttrs>();
  auto all = [](const std::vector<int64_t>& v, int64_t x) {
    return v.size() == 2 && std::all_of(v.begin(), v.end(), [x](int64_t y) { return y == x; });
  };
  const bool plain = a.group == 1 && a.block_in == 1 && a.block_out == 1 && a.winograd == 0;
  return plain && all(a.kernel, 3) && all(a.strides, 1) && all(a.dilations, 1) &&
         graph.value(node.output).dtype == DType::kF32 && graph.value(node.inputs[1]).is_constant();
}

namespace {

// Two vectors of tiles: fewer leave the products of matrices without columns.
constexpr int64_t kMinTiles = 16;

// Estimated times in multiply-adds of a product. Those of a transform take `transform_cost` each: what it works on is
// read and written once, and its accesses have strides.
bool gains(const Graph& graph, const Node& node, int64_t m, double transform_cost) {
  const WinogradMatrices& w = winograd_matrices(m);
  const Shape &in = graph.value(node.inputs[0]).shape, &out = graph.value(node.output).shape;
  const int64_t count = out[0] * winograd_tiles(out[2], m) * winograd_tiles(out[3], m);
  if (count < kMinTiles) return false;
  const auto channels = static_cast<double>(in[1]), filters = static_cast<double>(out[1]);
  const auto tiles = static_cast<double>(count), a = static_cast<double>(w.a);
  const double direct = 9 * channels * static_cast<double>(element_count(out));
  const double into = tiles * channels * static_cast<double>(2 * w.a * nonzeros(w.bt));
  const double back = tiles * filters * static_cast<double>((w.a + w.m) * nonzeros(w.at));
  return a * a * tiles * channels * filters + transform_cost * (into + back) < direct;
}

void mark(Node& node, ValueId weight, int64_t m) {
  node.inputs[1] = weight;
  std::get<ConvAttrs>(node.attrs).winograd = m;
}

}  // namespace

int64_t apply_winograd(Graph& graph, int64_t m, double transform_cost) {
  int64_t count = 0;
  std::map<ValueId, ValueId> transformed;  // a weight that several convolutions read is kept once
  for (NodeId id : graph.order) {
    if (!fits_winograd(graph, graph.node(id)) || !gains(graph, graph.node(id), m, transform_cost)) continue;
    const Value weight = graph.value(graph.node(id).inputs[1]);
    ++count;
    if (auto known = transformed.find(weight.id); known != transformed.end()) {
      mark(graph.node(id), known->second, m);
      continue;
    }
    const int64_t filters = weight.shape[0], channels = weight.shape[1], a = winograd_matrices(m).a;
    const std::vector<double> u =
        winograd_weight(constant_doubles(*weight.constant, weight.dtype, weight.elements()), filters, channels, m);
    const ValueId made = graph.add_constant(weight.name, weight.dtype, {a * a, filters, channels},
                                            make_constant_from_doubles(weight.dtype, u));
    transformed.emplace(weight.id, made);
    mark(graph.node(id), made, m);
  }
  return count;
}

}  // namespace tcc::graph
