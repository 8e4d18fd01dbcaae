// The transforms of F(2x2, 3x3) and F(4x4, 3x3), and which convolutions take that form.
#include "tcc/graph/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

namespace {

constexpr size_t kMaxSide = 6;  // of a tile of inputs
using TransformedFilter = std::array<double, kMaxSide * kMaxSide>;

// G g G^T of one filter of one channel, without memory of its own: models have millions of them.
TransformedFilter transform_filter(const WinogradMatrices& w, const double* filter) {
  const auto a = static_cast<size_t>(w.a);
  std::array<double, kMaxSide * 3> half{};
  TransformedFilter u{};
  for (size_t i = 0; i < a; ++i)
    for (size_t j = 0; j < 3; ++j)
      for (size_t k = 0; k < 3; ++k) half[i * 3 + j] += w.g[i * 3 + k] * filter[k * 3 + j];
  for (size_t i = 0; i < a; ++i)
    for (size_t j = 0; j < a; ++j)
      for (size_t k = 0; k < 3; ++k) u[i * a + j] += half[i * 3 + k] * w.g[j * 3 + k];
  return u;
}

}  // namespace

std::vector<double> winograd_weight(const std::vector<double>& weight, int64_t filters, int64_t channels, int64_t m) {
  const WinogradMatrices& w = winograd_matrices(m);
  const int64_t maps = filters * channels;
  std::vector<double> out(static_cast<size_t>(w.a * w.a * maps));
  for (int64_t i = 0; i < maps; ++i) {
    const TransformedFilter u = transform_filter(w, weight.data() + i * 9);
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

namespace {

// A convolution of f32 by a constant 3x3, whatever the layout of its channels.
bool is_winograd_convolution(const Graph& graph, const Node& node) {
  if (node.op != Op::kConv) return false;
  const auto& a = node.as<ConvAttrs>();
  auto all = [](const std::vector<int64_t>& v, int64_t x) {
    return v.size() == 2 && std::all_of(v.begin(), v.end(), [x](int64_t y) { return y == x; });
  };
  return a.group == 1 && a.winograd == 0 && all(a.kernel, 3) && all(a.strides, 1) && all(a.dilations, 1) &&
         graph.value(node.output).dtype == DType::kF32 && graph.value(node.inputs[1]).is_constant();
}

}  // namespace

bool fits_winograd(const Graph& graph, const Node& node) {
  if (!is_winograd_convolution(graph, node)) return false;
  const auto& a = node.as<ConvAttrs>();
  return a.block_in == 1 && a.block_out == 1;
}

namespace {

// Two vectors of tiles: fewer leave the products of matrices without columns.
constexpr int64_t kMinTiles = 16;

// Channels side by side or not: N, C, H, W of an operand or result.
std::array<int64_t, 4> plain_extents(const Shape& shape, int64_t block) {
  return {shape[0], shape[1] * block, shape[2], shape[3]};
}

// Of the rows of A^T, B^T, with weights: the most that one of them makes of |U| by column, squared.
double largest_growth(const WinogradMatrices& w, const TransformedFilter& squares) {
  const auto a = static_cast<size_t>(w.a), m = static_cast<size_t>(w.m);
  std::array<double, kMaxSide> input{};
  for (size_t k = 0; k < a; ++k)
    for (size_t l = 0; l < a; ++l) input[k] += std::fabs(w.bt[k * a + l]);
  double most = 0;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (size_t k = 0; k < a; ++k)
        for (size_t l = 0; l < a; ++l) {
          const double factor = w.at[i * a + k] * w.at[j * a + l] * input[k] * input[l];
          sum += factor * factor * squares[k * a + l];
        }
      most = std::max(most, sum);
    }
  return most;
}

// No filter's growth is above this, by |U_kl| <= |G_k|_2 |g|_2 |G_l|_2.
double growth_of_any_filter(const WinogradMatrices& w) {
  const auto a = static_cast<size_t>(w.a);
  TransformedFilter squares{};
  std::array<double, kMaxSide> rows{};
  for (size_t k = 0; k < a; ++k)
    for (size_t j = 0; j < 3; ++j) rows[k] += w.g[k * 3 + j] * w.g[k * 3 + j];
  for (size_t k = 0; k < a; ++k)
    for (size_t l = 0; l < a; ++l) squares[k * a + l] = rows[k] * rows[l];
  return largest_growth(w, squares);
}

// Errors of `channels` products, independent of each other.
double error_of_growth(int64_t channels, double growth) {
  constexpr double kDeviations = 4, kUnit = 0x1p-24;
  return kDeviations * kUnit * std::sqrt(static_cast<double>(channels) * growth);
}

}  // namespace

double winograd_error(const Graph& graph, const Node& node, int64_t m) {
  const WinogradMatrices& w = winograd_matrices(m);
  const Value& weight = graph.value(node.inputs[1]);
  const int64_t filters = weight.shape[0], channels = weight.shape[1];
  const std::vector<double> g = constant_doubles(*weight.constant, weight.dtype, weight.elements());
  double most = 0;
  for (int64_t f = 0; f < filters; ++f) {
    TransformedFilter squares{};
    double norm = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const double* filter = g.data() + (f * channels + c) * 9;
      for (size_t i = 0; i < 9; ++i) norm += filter[i] * filter[i];
      const TransformedFilter u = transform_filter(w, filter);
      for (size_t x = 0; x < squares.size(); ++x) squares[x] += u[x] * u[x];
    }
    if (norm > 0) most = std::max(most, largest_growth(w, squares) / norm);
  }
  return error_of_growth(channels, most);
}

bool is_winograd_accurate(const Graph& graph, const Node& node, int64_t m) {
  const int64_t channels = graph.value(node.inputs[1]).shape[1];
  return error_of_growth(channels, growth_of_any_filter(winograd_matrices(m))) <= kWinogradTolerance ||
         winograd_error(graph, node, m) <= kWinogradTolerance;
}

double winograd_gain(const Graph& graph, const Node& node, int64_t m, double transform_cost) {
  const WinogradMatrices& w = winograd_matrices(m);
  const auto& attrs = node.as<ConvAttrs>();
  const auto in = plain_extents(graph.value(node.inputs[0]).shape, attrs.block_in);
  const auto out = plain_extents(graph.value(node.output).shape, attrs.block_out);
  const int64_t count = out[0] * winograd_tiles(out[2], m) * winograd_tiles(out[3], m);
  if (count < kMinTiles) return 0;
  const auto channels = static_cast<double>(in[1]), filters = static_cast<double>(out[1]);
  const auto tiles = static_cast<double>(count), a = static_cast<double>(w.a);
  const double direct = 9 * channels * static_cast<double>(out[0] * out[1] * out[2] * out[3]);
  const double into = tiles * channels * static_cast<double>(2 * w.a * nonzeros(w.bt));
  const double back = tiles * filters * static_cast<double>((w.a + w.m) * nonzeros(w.at));
  return direct / (a * a * tiles * channels * filters + transform_cost * (into + back));
}

void set_winograd(Graph& graph, NodeId node, int64_t m, WinogradWeights& made) {
  const Value& plain = graph.value(graph.node(node).inputs[1]);
  const auto [place, fresh] = made.try_emplace({plain.id, m}, kNone);
  if (fresh) {
    const int64_t filters = plain.shape[0], channels = plain.shape[1], a = winograd_matrices(m).a;
    const std::vector<double> u =
        winograd_weight(constant_doubles(*plain.constant, plain.dtype, plain.elements()), filters, channels, m);
    place->second = graph.add_constant(plain.name, plain.dtype, {a * a, filters, channels},
                                       make_constant_from_doubles(plain.dtype, u));
  }
  graph.node(node).inputs[1] = place->second;
  std::get<ConvAttrs>(graph.node(node).attrs).winograd = m;
}

int64_t apply_winograd(Graph& graph, int64_t m, double transform_cost) {
  int64_t count = 0;
  WinogradWeights made;
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    if (!fits_winograd(graph, node) || winograd_gain(graph, node, m, transform_cost) <= 1 ||
        !is_winograd_accurate(graph, node, m))
      continue;
    set_winograd(graph, id, m, made);
    ++count;
  }
  return count;
}

std::vector<NodeId> refused_winograd(const Graph& graph, int64_t m, double transform_cost) {
  std::vector<NodeId> refused;
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    if (is_winograd_convolution(graph, node) && graph.value(node.inputs[1]).shape.size() == 4 &&
        winograd_gain(graph, node, m, transform_cost) > 1 && !is_winograd_accurate(graph, node, m))
      refused.push_back(id);
  }
  return refused;
}

}  // namespace tcc::graph
