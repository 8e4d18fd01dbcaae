// Convolutions by 3x3 with fewer multiplications: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"
// (CVPR 2016), equation 8:
//
//   Y = A^T [ (G g G^T) . (B^T d B) ] A
//
// for one tile of m x m outputs y, a = m + 2 inputs d a side, and a filter g of 3 x 3; the products of the a x a
// transformed elements are summed over the channels before the last transform, which makes a^2 matrix products.
//
// F(2x2, 3x3) needs 16 products for 4 outputs (2.25 times fewer than 36), F(4x4, 3x3) 36 for 16 (4 times fewer). The
// price is accuracy: sums and differences of the transforms make intermediate values larger than those of the direct
// form, up to 7.1 (m = 2) and 256 (m = 4) times in the worst case.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::graph {

// Row-major transforms of one axis: bt is a x a, g is a x 3, at is m x a.
struct WinogradMatrices {
  int64_t m = 0, a = 0;
  std::vector<double> bt, g, at;
};
// m is 2 (section 4.1) or 4 (section 4.2).
const WinogradMatrices& winograd_matrices(int64_t m);
bool is_winograd_tile(int64_t m);

// How many tiles cover `extent` outputs of one axis.
inline int64_t winograd_tiles(int64_t extent, int64_t m) {
  return (extent + m - 1) / m;
}

// U = G g G^T of a weight M,C,3,3, computed in double: (m+2)^2,M,C.
std::vector<double> winograd_weight(const std::vector<double>& weight, int64_t filters, int64_t channels, int64_t m);

// Is `node` a convolution that this form computes: f32, constant weight, two spatial axes, 3x3, strides, dilations and
// group 1, plain channels?
bool fits_winograd(const Graph& graph, const Node& node);

// The arithmetic of a convolution with attrs.winograd: the products over the tiles, without the transforms.
double winograd_flops(const Graph& graph, const Node& node);

// How far the form may be from the direct one by its own rounding, as a share of the largest result that inputs of
// random signs give, max|x| |g|_2 of a filter g:
//
//   4 u sqrt(C) max over f, i, j of sqrt(sum over k, l of (A^T_ik A^T_jl b_k b_l)^2 sum over c of U_fckl^2) / |g_f|_2
//
// with U = G g G^T, b_k the sum of |B^T_k| (the transformed input is at most b_k b_l max|x|) and u the unit roundoff of
// f32. C products are summed up in each of the a^2 sums. Their errors are taken to be independent, with four standard
// deviations, as sums are in tcc/graph/error_bound.h. `node` fits the form, or has fitted it before layouts were
// chosen: its weight is M,C,3,3.
double winograd_error(const Graph& graph, const Node& node, int64_t m);
// Convolutions whose error may be larger keep the direct form: the relative tolerance of ONNX's own tests of operators.
inline constexpr double kWinogradTolerance = 1e-3;
// Is it at most that? Most weights need not be looked at.
bool is_winograd_accurate(const Graph& graph, const Node& node, int64_t m);

// The estimated time of the direct form over that of this one; 0: there are too few tiles. Estimates count
// multiply-adds of products; `transform_cost` of them take as long as one of a transform (target/core_model.h).
double winograd_gain(const Graph& graph, const Node& node, int64_t m, double transform_cost);

// Gives a convolution that fits the form, with a transformed weight. One that several convolutions read is transformed
// once: `made` knows the weights by the plain one and m.
using WinogradWeights = std::map<std::pair<ValueId, int64_t>, ValueId>;
void set_winograd(Graph& graph, NodeId node, int64_t m, WinogradWeights& made);

// Gives the form to each convolution that fits, gains, and stays within kWinogradTolerance. Returns how many.
int64_t apply_winograd(Graph& graph, int64_t m, double transform_cost = 4);

// The convolutions whose form would fit and gain, if its error stayed within kWinogradTolerance. Layouts may have been
// chosen since.
std::vector<NodeId> refused_winograd(const Graph& graph, int64_t m, double transform_cost = 4);

}  // namespace tcc::graph
