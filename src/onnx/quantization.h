// Quantized numbers: a tensor of integers q stands for (q - zero point) * scale.
#pragma once

#include "handlers.h"

namespace tcc::onnx {

struct Quantization {
  graph::ValueId scale = graph::kNone;
  std::optional<graph::ValueId> zero;  // absent: 0
  int64_t axis = 1;                    // of a vector of scales
  int64_t block = 0;                   // above 0: as many neighbors along the axis have one scale
};

// Inputs `scale` and `zero` (which may be absent) of a node. Refuses constant scales that are not positive.
Result<Quantization> read_quantization(NodeContext& c, size_t scale, size_t zero);

// `parameter` in a shape that broadcasts with a tensor of `shape`.
Made spread_parameter(NodeContext& c, graph::ValueId parameter, const graph::Shape& shape, const Quantization& q);

// Integers minus their zero point, as f32.
Made centered(NodeContext& c, graph::ValueId x, const Quantization& q);
// (x - zero) * scale, in `to`.
Made dequantize(NodeContext& c, graph::ValueId x, const Quantization& q, graph::DType to);
// Rounded to nearest even, plus zero, at the limits of `to`, or of integers of fewer bits in it, beyond them.
Made quantize(NodeContext& c, const Made& x, const Quantization& q, graph::DType to, const SmallType* small = nullptr);

}  // namespace tcc::onnx
