// Operators on bytes that are quantized floats.
#include "random_draw.h"

namespace tcc::benchmarks {
namespace {

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
  if (op == "QLinearAveragePool" || op == "NhwcMaxPool") {
    const int64_t kernel = d.between(1, 3);
    Shape pixels{shape[0], shape[1], shape[2] + kernel, shape[3] + kernel};
    d.attribute("kernel_shape", Ints{kernel, kernel});
    d.attribute("strides", Ints(2, d.between(1, 2)));
    d.attribute("pads", Ints(4, kernel / 2));
    if (op == "NhwcMaxPool") {
      std::rotate(pixels.begin() + 1, pixels.begin() + 2, pixels.end());
      return finish({d.input(pixels, DType::kU8)}, DType::kU8);
    }
    return finish({d.input(pixels, DType::kU8), scale, zero, scale, zero}, DType::kU8);
  }
  const std::string x = d.input(shape, DType::kU8);
  if (op == "QLinearGlobalAveragePool") {
    d.attribute("channels_last", int64_t{0});
    return finish({x, scale, zero, other, zero}, DType::kU8);
  }
  if (op == "QLinearLeakyRelu" || op == "QLinearSigmoid") {
    if (op == "QLinearLeakyRelu") d.attribute("alpha", 0.1f);
    return finish({x, scale, zero, other, zero}, DType::kU8);
  }
  if (op == "QLinearSoftmax") {
    d.attribute("axis", d.chance(0.7) ? int64_t{-1} : d.between(0, 3));
    d.attribute("opset", int64_t{13});
    return finish({x, scale, zero, d.scalar(0.00390625f), d.typed_scalar(0, DType::kU8)}, DType::kU8);
  }
  if (op == "QLinearConcat") {
    shape[1] = d.extent(1, 2.0 * static_cast<double>(shape[1]));
    d.attribute("axis", int64_t{1});
    return finish({other, zero, x, scale, zero, d.input(shape, DType::kU8), other, zero}, DType::kU8);
  }
  std::vector<std::string> inputs{x, scale, zero, d.input(shape, DType::kU8), other, zero, d.scalar(0.05f), zero};
  if (op == "QLinearWhere") inputs.insert(inputs.begin(), d.input(shape, DType::kBool));
  return finish(inputs, DType::kU8);
}

}  // namespace

std::vector<OperatorFamily> quantized_families() {
  return {
      {"quantized",
       2,
       {"ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul",
        "QuantizeLinear"},
       quantized},
      {"quantized_fused",
       0.7,
       {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits", "NhwcMaxPool", "QLinearAdd",
        "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul",
        "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere"},
       quantized_fused},
  };
}

}  // namespace tcc::benchmarks
