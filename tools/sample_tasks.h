// Tasks without a model, for tests, benchmarks and the GPU check: one-operator graphs, fused. Extents must be positive
// and fit together (TCC_CHECK).
#pragma once

#include <cstdint>
#include <vector>

#include "tcc/task/task.h"

namespace tcc::task {

struct GemmParams {
  int64_t m = 1, n = 1, k = 1;
  bool bias = false, relu = false;
  bool constant_weights = false;  // B is a weight
  bool trans_a = false, trans_b = false;
  graph::DType dtype = graph::DType::kF32;
};
Task make_gemm(const GemmParams& params);

struct ConvParams {
  int64_t batch = 1, channels = 1, filters = 1, group = 1;
  std::vector<int64_t> size, kernel;              // one entry per spatial axis
  std::vector<int64_t> strides, dilations, pads;  // empty: 1, 1, 0; pads count on both sides
  bool bias = false, relu = false, residual = false;
  int64_t block_in = 1, block_out = 1;  // of channels, as in ConvAttrs
  graph::DType dtype = graph::DType::kF32;
};
Task make_conv(const ConvParams& params);

struct PoolParams {
  bool average = false;
  int64_t batch = 1, channels = 1;
  std::vector<int64_t> size, kernel;   // one entry per spatial axis
  std::vector<int64_t> strides, pads;  // empty: 1, 0
  bool ceil_mode = false, count_include_pad = false;
};
Task make_pool(const PoolParams& params);

Task make_softmax(const graph::Shape& shape, int64_t axis);

// softmax(Q K^T * scale + mask) V for each of `heads`; Q, K and V are stored (batch, tokens, heads, depth), as the
// projections of a transformer leave them, and so is the result.
struct AttentionParams {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, depth = 1;
  int64_t width = 0;         // of V; 0: depth
  bool mask = false;         // (batch, 1, 1, keys), added to the scores
  bool heads_first = false;  // stored (batch, heads, tokens, depth) instead
  graph::DType dtype = graph::DType::kF32;
};
Task make_attention(const AttentionParams& params);
// op: kReduceMean, kReduceMax or kReduceSum.
Task make_reduction(const graph::Shape& shape, const std::vector<int64_t>& axes, graph::Op op);
// relu(x * w + y) with w of one value per channel (axis 1) where the rank allows.
Task make_elementwise(const graph::Shape& shape);

}  // namespace tcc::task
