// Families of operators that networks of floats seldom have: of bytes and other integers, of signals, those that place
// elements, and fused ones of com.microsoft.
#include "random_draw.h"

namespace tcc::benchmarks {
namespace {

constexpr const char* kMicrosoft = "com.microsoft";

// Extents of a product with at most kFlops and kElements.
struct ProductExtents {
  int64_t m, n, k;
};
ProductExtents product_extents(Draw& d, double most = 1024) {
  ProductExtents e{d.extent(1, most), d.extent(1, most), d.extent(1, most)};
  while (2.0 * static_cast<double>(e.m * e.n * e.k) > kFlops) e.m = std::max<int64_t>(1, e.m / 2);
  return e;
}

RandomOperator quantized(Draw& d, const std::string& family, const std::string& op) {
  if (op == "QuantizeLinear") {
    const std::string x = d.input(d.shape(d.between(1, 4)));
    const DType type = d.chance(0.5) ? DType::kU8 : DType::kI8;
    const std::string scale = d.scalar(0.0078125f + 0.001f * static_cast<float>(d.between(0, 9)));
    return d.finish(family, op, {x, scale, d.typed_scalar(3, type)}, type);
  }
  if (op == "DequantizeLinear") {
    const DType type = d.chance(0.5) ? DType::kU8 : DType::kI8;
    const std::string x = d.input(d.shape(d.between(1, 4)), type);
    return d.finish(family, op, {x, d.scalar(0.02f), d.typed_scalar(3, type)});
  }
  if (op == "DynamicQuantizeLinear") {
    const std::string x = d.input(d.shape(d.between(1, 4)));
    return d.finish_typed(family, op, {x}, {DType::kU8, DType::kF32, DType::kU8});
  }
  if (op == "MatMulInteger" || op == "QLinearMatMul") {
    const ProductExtents e = product_extents(d);
    const std::string x = d.input({e.m, e.k}, DType::kU8);
    const bool constant = op == "QLinearMatMul" || d.chance(0.8);
    const std::string w = constant ? d.bytes({e.k, e.n}, DType::kI8) : d.input({e.k, e.n}, DType::kI8);
    if (op == "MatMulInteger") return d.finish(family, op, {x, w, d.typed_scalar(128, DType::kU8)}, DType::kI32);
    const std::string scale = d.scalar(0.02f), zero = d.typed_scalar(128, DType::kU8);
    const std::string zero_w = d.typed_scalar(0, DType::kI8), out = d.scalar(0.25f);
    return d.finish(family, op, {x, scale, zero, w, scale, zero_w, out, zero}, DType::kU8);
  }
  // ConvInteger, QLinearConv: of two axes.
  const int64_t kernel = d.one_of<int64_t>({1, 1, 3, 3, 5}), stride = d.between(1, 2);
  int64_t channels = d.extent(1, 256), filters = d.extent(1, 256), group = 1;
  if (op == "QLinearConv" && d.chance(0.3)) group = filters = channels;
  int64_t size = d.extent(static_cast<double>(kernel), 112);
  while (static_cast<double>(size * size * std::max(channels, filters)) > kElements ||
         2.0 * static_cast<double>(size * size * channels / group * filters * kernel * kernel) > kFlops)
    size = std::max(kernel, size / 2), channels = group > 1 ? channels : std::max<int64_t>(1, channels / 2);
  const std::string x = d.input({1, channels, size, size}, DType::kU8);
  const std::string w = d.bytes({filters, channels / group, kernel, kernel}, DType::kI8);
  d.attribute("kernel_shape", Ints{kernel, kernel});
  d.attribute("strides", Ints{stride, stride});
  d.attribute("pads", Ints(4, kernel / 2));
  d.attribute("group", group);
  if (op == "ConvInteger") return d.finish(family, op, {x, w, d.typed_scalar(128, DType::kU8)}, DType::kI32);
  const std::string scale = d.scalar(0.02f), zero = d.typed_scalar(128, DType::kU8);
  const std::string zero_w = d.typed_scalar(0, DType::kI8), out = d.scalar(0.25f);
  return d.finish(family, op, {x, scale, zero, w, scale, zero_w, out, zero}, DType::kU8);
}

// com.microsoft, as its quantizer writes them.
RandomOperator quantized_fused(Draw& d, const std::string& family, const std::string& op) {
  auto finish = [&](const std::vector<std::string>& inputs, DType result) {
    return d.finish_typed(family, op, inputs, {result}, kMicrosoft);
  };
  if (op == "MatMulNBits") {
    const int64_t block = d.one_of<int64_t>({32, 64, 128}), k = block * d.between(1, 16), n = 8 * d.between(1, 128);
    const std::string x = d.input({1, d.extent(1, 128), k});
    d.attribute("K", k);
    d.attribute("N", n);
    d.attribute("bits", int64_t{4});
    d.attribute("block_size", block);
    const std::string w = d.bytes({n, k / block, block / 2}, DType::kU8, 255);
    return finish({x, w, d.weights({n * (k / block)}, 0.02)}, DType::kF32);
  }
  const std::string scale = d.scalar(0.02f), other = d.scalar(0.03f), zero = d.typed_scalar(120, DType::kU8);
  if (op == "MatMulIntegerToFloat" || op == "DynamicQuantizeMatMul") {
    const ProductExtents e = product_extents(d);
    if (op == "DynamicQuantizeMatMul") {
      const std::string x = d.input({e.m, e.k});
      return finish({x, d.bytes({e.k, e.n}, DType::kI8), scale}, DType::kF32);
    }
    const std::string x = d.input({e.m, e.k}, DType::kU8);
    return finish({x, d.bytes({e.k, e.n}, DType::kI8), scale, other, zero}, DType::kF32);
  }
  Shape shape = d.shape(4);
  const std::string x = d.input(shape, DType::kU8);
  if (op == "QLinearGlobalAveragePool") {
    d.attribute("channels_last", int64_t{0});
    return finish({x, scale, zero, other, zero}, DType::kU8);
  }
  if (op == "QLinearLeakyRelu") {
    d.attribute("alpha", 0.1f);
    return finish({x, scale, zero, other, zero}, DType::kU8);
  }
  if (op == "QLinearConcat") {
    shape[1] = d.extent(1, 2.0 * static_cast<double>(shape[1]));
    d.attribute("axis", int64_t{1});
    return finish({other, zero, x, scale, zero, d.input(shape, DType::kU8), other, zero}, DType::kU8);
  }
  return finish({x, scale, zero, d.input(shape, DType::kU8), other, zero, d.scalar(0.05f), zero}, DType::kU8);
}

// Losses, and norms of language models.
RandomOperator classes(Draw& d, const std::string& family, const std::string& op) {
  const int64_t rows = d.extent(1, 1024), width = d.extent(2, 2048);
  if (op == "SimplifiedLayerNormalization") {
    const std::string x = d.input({1, rows, width});
    d.attribute("axis", int64_t{-1});
    return d.finish(family, op, {x, d.weights({width}, 0.5, 1)});
  }
  const std::string x = d.input({rows, width});
  return d.finish(family, op, {x, d.indices({rows}, width)});
}

RandomOperator integers(Draw& d, const std::string& family, const std::string& op) {
  const Shape full = d.shape(d.between(1, 4));
  if (op == "BitwiseNot") return d.finish(family, op, {d.input(full, DType::kI32)}, DType::kI32);
  if (op == "BitShift") {
    const std::string x = d.input(full, DType::kU8);
    d.attribute("direction", std::string(d.chance(0.5) ? "LEFT" : "RIGHT"));
    return d.finish(family, op, {x, d.bytes(full, DType::kU8, 7)}, DType::kU8);
  }
  Shape other = full;
  for (int64_t& n : other)
    if (d.chance(0.3)) n = 1;
  const DType type = d.chance(0.5) ? DType::kI32 : DType::kI64;
  const std::string x = d.input(full, type);
  return d.finish(family, op, {x, d.input(other, type)}, type);
}

RandomOperator signals(Draw& d, const std::string& family, const std::string& op) {
  const int64_t batch = d.between(1, 8);
  if (op == "STFT") {
    const int64_t frame = 16 * d.between(2, 32), step = std::max<int64_t>(1, frame / d.between(2, 4));
    const std::string x = d.input({batch, frame * d.between(4, 40), 1});
    d.attribute("onesided", int64_t{1});
    return d.finish(family, op, {x, d.typed_scalar(static_cast<double>(step), DType::kI64), d.weights({frame})});
  }
  const bool complex = d.chance(0.5);
  const std::string x = d.input({batch, d.extent(8, 2048), complex ? 2 : 1});
  d.attribute("axis", int64_t{1});
  if (!complex) d.attribute("onesided", d.between(0, 1));
  return d.finish(family, op, {x});
}

RandomOperator placed(Draw& d, const std::string& family, const std::string& op) {
  if (op == "ScatterND") {
    const int64_t rows = d.extent(2, 4096), columns = d.extent(1, 512), updates = d.extent(1, 2.0 * rows);
    const std::string x = d.input({rows, columns}), at = d.indices({updates, 1}, rows);
    d.attribute("reduction", std::string("add"));
    return d.finish(family, op, {x, at, d.input({updates, columns})});
  }
  if (op == "ReverseSequence") {
    const int64_t batch = d.between(1, 16), time = d.extent(2, 256), width = d.extent(1, 256);
    const std::string x = d.input({batch, time, width});
    Ints lengths;
    for (int64_t i = 0; i < batch; ++i) lengths.push_back(d.between(1, time));
    d.attribute("batch_axis", int64_t{0});
    d.attribute("time_axis", int64_t{1});
    return d.finish(family, op, {x, d.numbers(lengths)});
  }
  if (op == "Det") {
    const int64_t n = d.between(1, 24);
    return d.finish(family, op, {d.input({d.extent(1, 512), n, n})});
  }
  if (op == "CumProd") {
    const Shape shape = d.shape(d.between(1, 3));
    const std::string x = d.input(shape);
    return d.finish(family, op,
                    {x, d.typed_scalar(static_cast<double>(d.between(0, std::ssize(shape) - 1)), DType::kI64)});
  }
  const int64_t channels = d.extent(1, 128), size = d.extent(4, 64);
  if (op == "Col2Im") {
    const int64_t kernel = d.between(2, 3);
    const std::string x = d.input({1, channels * kernel * kernel, (size - kernel + 1) * (size - kernel + 1)});
    const std::string image = d.numbers({size, size});
    return d.finish(family, op, {x, image, d.numbers({kernel, kernel})});
  }
  if (op == "CenterCropPad") {
    const std::string x = d.input({channels, size, size});
    d.attribute("axes", Ints{1, 2});
    return d.finish(family, op, {x, d.numbers({d.between(1, 2 * size), d.between(1, 2 * size)})});
  }
  if (op == "AffineGrid") {
    const int64_t batch = d.between(1, 4);
    const std::string theta = d.input({batch, 2, 3});
    return d.finish(family, op, {theta, d.numbers({batch, channels, size, size})});
  }
  // RoiAlign: boxes inside of the image.
  const std::string x = d.input({1, channels, size, size});
  const int64_t boxes = d.between(1, 64), cells = d.between(1, 7);
  std::vector<double> corners;
  for (int64_t i = 0; i < boxes; ++i)
    for (int half = 0; half < 2; ++half)
      for (int axis = 0; axis < 2; ++axis)
        corners.push_back(static_cast<double>(half) * static_cast<double>(size) / 2 +
                          static_cast<double>(d.between(0, size / 2)));
  d.attribute("output_height", cells);
  d.attribute("output_width", cells);
  d.attribute("sampling_ratio", int64_t{2});
  const std::string rois = d.typed_constant({boxes, 4}, DType::kF32, corners);
  return d.finish(family, op, {x, rois, d.indices({boxes}, 1)});
}

RandomOperator fused(Draw& d, const std::string& family, const std::string& op) {
  const int64_t rows = d.extent(1, 512), width = 8 * d.between(1, 128);
  if (op == "FusedMatMul") {
    const ProductExtents e = product_extents(d);
    const std::string x = d.input({e.m, e.k});
    d.attribute("transB", int64_t{1});
    d.attribute("alpha", 0.125f);
    return d.finish_typed(family, op, {x, d.input({e.n, e.k})}, {DType::kF32}, kMicrosoft);
  }
  if (op == "MultiHeadAttention") {
    const int64_t heads = d.between(1, 12), depth = 8 * d.between(1, 16), tokens = d.extent(1, 256);
    const Shape shape{1, tokens, heads * depth};
    d.attribute("num_heads", heads);
    const std::string q = d.input(shape), k = d.input(shape);
    return d.finish_typed(family, op, {q, k, d.input(shape)}, {DType::kF32}, kMicrosoft);
  }
  const std::string x = d.input({1, rows, width});
  if (op == "SkipLayerNormalization") {
    const std::string skip = d.input({1, rows, width}), gamma = d.weights({width}, 0.5, 1);
    return d.finish_typed(family, op, {x, skip, gamma, d.weights({width})}, {DType::kF32}, kMicrosoft);
  }
  std::vector<std::string> inputs{x};
  if (op == "BiasGelu") inputs.push_back(d.weights({width}));
  return d.finish_typed(family, op, inputs, {DType::kF32}, kMicrosoft);
}

}  // namespace

std::vector<OperatorFamily> further_families() {
  return {
      {"quantized",
       2,
       {"ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul",
        "QuantizeLinear"},
       quantized},
      {"quantized_fused",
       0.7,
       {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits", "QLinearAdd", "QLinearConcat",
        "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul"},
       quantized_fused},
      {"classes",
       0.4,
       {"NegativeLogLikelihoodLoss", "SimplifiedLayerNormalization", "SoftmaxCrossEntropyLoss"},
       classes},
      {"integers",
       0.7,
       {"Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Max", "Min", "Mul", "Sub"},
       integers},
      {"signals", 0.4, {"DFT", "STFT"}, signals},
      {"placed",
       0.8,
       {"AffineGrid", "CenterCropPad", "Col2Im", "CumProd", "Det", "ReverseSequence", "RoiAlign", "ScatterND"},
       placed},
      {"fused",
       0.7,
       {"BiasGelu", "FastGelu", "FusedMatMul", "MultiHeadAttention", "QuickGelu", "SkipLayerNormalization"},
       fused},
  };
}

}  // namespace tcc::benchmarks
