// Families of operators that networks of floats seldom have: of integers, of signals, those that place and find
// elements, and fused ones of com.microsoft.
#include "random_draw.h"

namespace tcc::benchmarks {
namespace {

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
  if (op == "Div" || op == "Mod") {
    const std::string x = d.input(full, type);
    std::vector<double> divisors(static_cast<size_t>(graph::element_count(other)));
    for (double& v : divisors) v = static_cast<double>(d.between(1, 9) * (d.chance(0.3) ? -1 : 1));
    return d.finish(family, op, {x, d.typed_constant(other, type, divisors)}, type);
  }
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
  if (op == "DeformConv") {
    const int64_t kernel = d.one_of<int64_t>({1, 3, 3}), filters = d.extent(1, 128);
    const std::string x = d.input({1, channels, size, size}), w = d.weights({filters, channels, kernel, kernel}, 0.1);
    d.attribute("kernel_shape", Ints{kernel, kernel});
    d.attribute("pads", Ints(4, kernel / 2));
    return d.finish(family, op, {x, w, d.input({1, 2 * kernel * kernel, size, size})});
  }
  if (op == "MaxUnpool") {
    // Each window's place is one of its four elements.
    const std::string x = d.input({1, channels, size, size});
    std::vector<double> at;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j)
          at.push_back(
              static_cast<double>((c * 2 * size + 2 * i + d.between(0, 1)) * 2 * size + 2 * j + d.between(0, 1)));
    d.attribute("kernel_shape", Ints{2, 2});
    d.attribute("strides", Ints{2, 2});
    return d.finish(family, op, {x, d.typed_constant({1, channels, size, size}, DType::kI64, at)});
  }
  if (op == "Upsample") {
    const std::string x = d.input({1, channels, size, size});
    d.attribute("mode", std::string(d.chance(0.5) ? "nearest" : "linear"));
    const auto by = static_cast<double>(d.between(2, 3));
    return d.finish(family, op, {x, d.typed_constant({4}, DType::kF32, {1, 1, by, by})});
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

// Results as long as the data say.
RandomOperator found(Draw& d, const std::string& family, const std::string& op) {
  if (op == "NonMaxSuppression") {
    const int64_t boxes = d.extent(1, 2000), classes = d.extent(1, 80);
    std::vector<double> corners;
    for (int64_t i = 0; i < boxes; ++i) {
      const auto y = static_cast<double>(d.between(0, 500)), x = static_cast<double>(d.between(0, 500));
      for (double v : {y, x, y + static_cast<double>(d.between(1, 80)), x + static_cast<double>(d.between(1, 80))})
        corners.push_back(v);
    }
    const std::string b = d.typed_constant({1, boxes, 4}, DType::kF32, corners), s = d.input({1, classes, boxes});
    const std::string most = d.numbers({d.between(1, 100)}), overlap = d.scalar(0.5f);
    return d.finish(family, op, {b, s, most, overlap, d.scalar(0.25f)}, DType::kI64);
  }
  const Shape shape = d.shape(d.between(1, 3), 1e6);
  if (op == "NonZero")
    return d.finish(family, op, {d.input(shape, d.chance(0.5) ? DType::kBool : DType::kF32)}, DType::kI64);
  if (op == "Unique") {
    const DType type = d.chance(0.5) ? DType::kF32 : DType::kI64;
    d.attribute("sorted", int64_t{1});
    return d.finish_typed(family, op, {d.input(shape, type)}, {type, DType::kI64, DType::kI64, DType::kI64});
  }
  const int64_t axis = d.between(0, std::ssize(shape) - 1);
  d.attribute("axis", axis);
  const std::string x = d.input(shape);
  return d.finish(family, op, {x, d.input({shape[static_cast<size_t>(axis)]}, DType::kBool)});
}

// Attention with a cache of keys and values, and rotated embeddings.
RandomOperator decoders(Draw& d, const std::string& family, const std::string& op) {
  const int64_t shared = d.between(1, 4), heads = shared * d.between(1, 8), depth = 16 * d.between(1, 8);
  const int64_t tokens = d.chance(0.5) ? 1 : d.extent(1, 128);
  if (op == "RotaryEmbedding") {
    const bool flat = d.chance(0.5);
    const std::string x = d.input(flat ? Shape{1, tokens, heads * depth} : Shape{1, heads, tokens, depth});
    if (flat) d.attribute("num_heads", heads);
    if (d.chance(0.3)) d.attribute("interleaved", int64_t{1});
    const std::string cosines = d.weights({1, tokens, depth / 2});
    return d.finish(family, op, {x, cosines, d.weights({1, tokens, depth / 2})});
  }
  const int64_t past = d.extent(1, 512);
  d.attribute("num_heads", heads);
  d.attribute("kv_num_heads", shared);
  const Shape cache{1, shared, past, depth};
  const std::string q = d.input({1, tokens, heads * depth}), k = d.input({1, tokens, shared * depth});
  const std::string v = d.input({1, tokens, shared * depth}), keys = d.input(cache), values = d.input(cache);
  const std::string last = d.typed_constant({1}, DType::kI32, {static_cast<double>(past + tokens - 1)});
  const std::string all = d.typed_scalar(static_cast<double>(past + tokens), DType::kI32);
  return d.finish_typed(family, op, {q, k, v, keys, values, last, all}, {DType::kF32, DType::kF32, DType::kF32},
                        kMicrosoft);
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
      {"classes",
       0.4,
       {"NegativeLogLikelihoodLoss", "SimplifiedLayerNormalization", "SoftmaxCrossEntropyLoss"},
       classes},
      {"integers",
       0.7,
       {"Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Div", "Max", "Min", "Mod", "Mul",
        "Sub"},
       integers},
      {"signals", 0.4, {"DFT", "STFT"}, signals},
      {"placed",
       0.8,
       {"AffineGrid", "CenterCropPad", "Col2Im", "CumProd", "DeformConv", "Det", "MaxUnpool", "ReverseSequence",
        "RoiAlign", "ScatterND", "Upsample"},
       placed},
      {"found", 0.4, {"Compress", "NonMaxSuppression", "NonZero", "Unique"}, found},
      {"fused",
       0.7,
       {"BiasGelu", "FastGelu", "FusedMatMul", "MultiHeadAttention", "QuickGelu", "SkipLayerNormalization"},
       fused},
      {"decoders", 0.4, {"GroupQueryAttention", "RotaryEmbedding"}, decoders},
  };
}

}  // namespace tcc::benchmarks
