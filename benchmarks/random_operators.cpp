#include "random_operators.h"

#include <map>
#include <set>

#include "random_draw.h"

namespace tcc::benchmarks {
namespace {

constexpr int64_t kOpset = 18;
const std::map<std::string, int64_t> kLaterOperators = {
    {"Attention", 23},       {"Gelu", 20},       {"GroupNormalization", 21},
    {"Upsample", 9},         {"DeformConv", 19}, {"RMSNormalization", 23},
    {"RotaryEmbedding", 23}, {"Swish", 24},      {"AffineGrid", 20},
    {"CumProd", 26},         {"STFT", 17},       {"DFT", 17}};

DType element_type(Draw& d) {
  return d.chance(0.8) ? DType::kF32 : DType::kF16;
}

RandomOperator elementwise(Draw& d, const std::string& family, const std::string& op) {
  const DType type = op == "Not" ? DType::kBool : element_type(d);
  const std::string x = d.input(d.shape(d.between(1, 4)), type);
  if (op == "IsInf" || op == "IsNaN") return d.finish(family, op, {x}, DType::kBool);
  if (op == "LeakyRelu" || op == "Elu" || op == "Celu") d.attribute("alpha", d.chance(0.5) ? 0.5f : 1.25f);
  return d.finish(family, op, {x}, type);
}

// One operand may lack axes, or have extents of 1.
RandomOperator binary(Draw& d, const std::string& family, const std::string& op) {
  const bool logical = op == "And" || op == "Or" || op == "Xor";
  const bool compares =
      op == "Equal" || op == "Greater" || op == "GreaterOrEqual" || op == "Less" || op == "LessOrEqual";
  const DType type = logical ? DType::kBool : op == "Pow" || op == "Div" || op == "Mod" ? DType::kF32 : element_type(d);
  const Shape full = d.shape(d.between(1, 4));
  Shape other = full;
  if (d.chance(0.6))
    for (int64_t& n : other)
      if (d.chance(0.5)) n = 1;
  if (d.chance(0.3)) other.erase(other.begin(), other.begin() + d.between(0, std::ssize(other) - 1));
  const std::string x = d.input(full, type);
  // A constant divisor or exponent: the inputs have numbers near 0.
  if (op == "Mod") d.attribute("fmod", int64_t{1});
  const std::string y = op == "Div" || op == "Mod" ? d.weights(other, 0.5, 1.5)
                        : op == "Pow"              ? d.scalar(2)
                                                   : d.input(other, type);
  return d.finish(family, op, {x, y}, logical || compares ? DType::kBool : type);
}

RandomOperator select(Draw& d, const std::string& family, const std::string& op) {
  const Shape full = d.shape(d.between(1, 4));
  if (op == "Clip") {
    const std::string x = d.input(full);
    const std::string low = d.scalar(-0.5f), high = d.scalar(0.25f);
    return d.finish(family, op, {x, low, high});
  }
  if (op == "PRelu") {
    Shape slope = full;
    for (size_t i = 0; i < slope.size(); ++i)
      if (i != 1) slope[i] = 1;
    const std::string x = d.input(full);
    return d.finish(family, op, {x, d.weights(slope)});
  }
  if (op == "Cast") {
    const bool widens = d.chance(0.5);
    const std::string x = d.input(full, widens ? DType::kF16 : DType::kF32);
    d.attribute("to", int64_t{widens ? 1 : 10});  // TensorProto.FLOAT, FLOAT16
    return d.finish(family, op, {x}, widens ? DType::kF32 : DType::kF16);
  }
  Shape other = full;
  if (d.chance(0.4)) std::fill(other.begin(), other.end(), 1);
  const std::string condition = d.input(full, DType::kBool), x = d.input(full), y = d.input(other);
  return d.finish(family, op, {condition, x, y});
}

RandomOperator product(Draw& d, const std::string& family, const std::string& op) {
  int64_t m = d.extent(1, 2048), n = d.extent(1, 2048), k = d.extent(1, 2048);
  int64_t batch = op == "MatMul" && d.chance(0.4) ? d.extent(2, 64) : 1;
  while (2.0 * batch * m * n * k > kFlops || static_cast<double>(batch) * std::max({m * k, k * n, m * n}) > kElements) {
    int64_t& largest = batch > 8 ? batch : m >= n && m >= k ? m : n >= k ? n : k;
    largest = std::max<int64_t>(1, largest / 2);
  }
  if (op == "Gemm") {
    const bool a = d.chance(0.3), b = d.chance(0.5);
    const std::string x = d.input(a ? Shape{k, m} : Shape{m, k}), w = d.weights(b ? Shape{n, k} : Shape{k, n});
    d.attribute("transA", int64_t{a});
    d.attribute("transB", int64_t{b});
    std::vector<std::string> inputs = {x, w};
    if (d.chance(0.7)) inputs.push_back(d.weights({n}));
    return d.finish(family, op, inputs);
  }
  const DType type = d.chance(0.85) ? DType::kF32 : DType::kF16;
  const bool shared = batch > 1 && d.chance(0.3), constant = type == DType::kF32 && d.chance(0.5);
  const Shape left = batch > 1 ? Shape{batch, m, k} : Shape{m, k};
  const Shape right = batch > 1 && !shared ? Shape{batch, k, n} : Shape{k, n};
  const std::string x = d.input(left, type);
  return d.finish(family, op, {x, constant ? d.weights(right) : d.input(right, type)}, type);
}

// One to three axes; depthwise, grouped or dense; kernels may differ by axis, and paddings by side.
RandomOperator convolution(Draw& d, const std::string& family, const std::string& op) {
  const bool transposed = op == "ConvTranspose";
  const int64_t axes = d.chance(0.75) ? 2 : d.chance(0.6) ? 1 : 3;
  const int64_t batch = d.chance(0.75) ? 1 : d.between(2, 8);
  int64_t group = 1, channels = d.extent(1, 512), filters = d.extent(1, 512);
  if (d.chance(0.3)) {
    group = channels, filters = transposed ? channels : channels * d.between(1, 2);
  } else if (d.chance(0.15)) {
    group = d.one_of<int64_t>({2, 4, 8});
    channels = (channels + group - 1) / group * group, filters = (filters + group - 1) / group * group;
  }
  const double sizes[] = {8192, 224, 32};
  Ints size, kernel, stride, dilation, pads(static_cast<size_t>(2 * axes), 0);
  const bool square = d.chance(0.7);
  for (int64_t i = 0; i < axes; ++i) {
    size.push_back(square && i > 0 ? size[0] : d.extent(1, sizes[axes - 1]));
    kernel.push_back(square && i > 0 ? kernel[0] : d.one_of<int64_t>({1, 1, 2, 3, 3, 3, 4, 5, 7}));
    stride.push_back(square && i > 0 ? stride[0] : d.one_of<int64_t>({1, 1, 1, 2, 2, 3}));
    dilation.push_back(square && i > 0 ? dilation[0] : d.one_of<int64_t>({1, 1, 1, 1, 2, 3}));
  }
  for (int64_t i = 0; i < axes; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t reach = dilation[at] * (kernel[at] - 1);
    if (transposed || d.chance(0.7))
      pads[at] = reach / 2, pads[at + axes] = d.chance(0.8) ? reach / 2 : reach - reach / 2;
    size[at] = std::max(size[at], reach + 1);
  }
  const auto flops = [&] {
    double n = 2.0 * batch * channels / group * filters;
    for (int64_t i = 0; i < axes; ++i)
      n *= static_cast<double>(kernel[i] * size[i]) / (transposed ? 1.0 : static_cast<double>(stride[i]));
    return n;
  };
  const auto elements = [&] {
    double n = static_cast<double>(batch * std::max(channels, filters));
    for (int64_t i = 0; i < axes; ++i) n *= static_cast<double>(size[i] * (transposed ? stride[i] : 1));
    return n;
  };
  while (flops() > kFlops || elements() > kElements) {
    const auto largest = std::max_element(size.begin(), size.end());
    const auto at = static_cast<size_t>(largest - size.begin());
    const int64_t least = dilation[at] * (kernel[at] - 1) + 1;
    if (*largest > 8 && *largest / 2 >= least)
      *largest /= 2;
    else if (group == 1)
      channels = std::max<int64_t>(1, channels / 2), filters = std::max<int64_t>(1, filters / 2);
    else if (channels / 2 % group == 0 && filters / 2 % group == 0)
      channels /= 2, filters /= 2;
    else
      group = std::max<int64_t>(1, group / 2), channels = filters = group;
  }
  Shape shape = {batch, channels};
  shape.insert(shape.end(), size.begin(), size.end());
  Shape weight = transposed ? Shape{channels, filters / group} : Shape{filters, channels / group};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  const std::string x = d.input(shape);
  std::vector<std::string> inputs = {x, d.weights(weight)};
  d.attribute("kernel_shape", kernel);
  d.attribute("strides", stride);
  d.attribute("dilations", dilation);
  d.attribute("pads", pads);
  d.attribute("group", group);
  if (d.chance(0.6)) inputs.push_back(d.weights({filters}));
  return d.finish(family, op, inputs);
}

RandomOperator pooling(Draw& d, const std::string& family, const std::string& op) {
  const int64_t axes = d.chance(0.8) ? 2 : d.chance(0.5) ? 1 : 3;
  const double sizes[] = {8192, 224, 32};
  Shape shape = {d.chance(0.75) ? 1 : d.between(2, 8), d.extent(1, 512)};
  Ints kernel, stride, pads(static_cast<size_t>(2 * axes), 0);
  for (int64_t i = 0; i < axes; ++i) {
    kernel.push_back(i > 0 && d.chance(0.8) ? kernel[0] : d.between(1, 7));
    stride.push_back(i > 0 && d.chance(0.8) ? stride[0] : d.between(1, 3));
    shape.push_back(std::max(kernel.back(), i > 0 && d.chance(0.7) ? shape[2] : d.extent(1, sizes[axes - 1])));
    if (d.chance(0.5)) pads[static_cast<size_t>(i)] = pads[static_cast<size_t>(i + axes)] = kernel.back() / 2;
  }
  while (static_cast<double>(graph::element_count(shape)) > kElements && shape[1] > 1) shape[1] /= 2;
  const std::string x = d.input(shape);
  if (!op.starts_with("Global")) {
    d.attribute("kernel_shape", kernel);
    d.attribute("strides", stride);
    d.attribute("pads", pads);
  }
  if (op == "AveragePool" && d.chance(0.5)) d.attribute("count_include_pad", int64_t{1});
  return d.finish(family, op, {x});
}

RandomOperator reduction(Draw& d, const std::string& family, const std::string& op) {
  const Shape shape = d.shape(d.between(1, 4));
  const std::string x = d.input(shape);
  d.attribute("keepdims", d.between(0, 1));
  if (op == "ArgMax" || op == "ArgMin") {
    d.attribute("axis", d.between(0, std::ssize(shape) - 1));
    return d.finish(family, op, {x}, DType::kI64);
  }
  const Ints axes = d.some_axes(std::ssize(shape));
  // Opset 18 gives the axes as an input.
  return d.finish(family, op, {x, d.numbers(axes)});
}

RandomOperator normalization(Draw& d, const std::string& family, const std::string& op) {
  const bool images =
      op == "BatchNormalization" || op == "GroupNormalization" || op == "InstanceNormalization" || op == "LRN";
  Shape shape = d.shape(images ? 4 : d.between(2, 4));
  // Of a single element ONNX Runtime makes NaN, the operator's definition 0.
  if (op == "MeanVarianceNormalization")
    for (int64_t& n : shape) n = std::max<int64_t>(n, 2);
  const std::string x = d.input(shape);
  const int64_t last = std::ssize(shape) - 1;
  if (op == "LayerNormalization") {
    d.attribute("axis", last);
    return d.finish(family, op, {x, d.weights({shape.back()}, 0.5, 1), d.weights({shape.back()})});
  }
  if (op == "GroupNormalization") {
    const int64_t groups = shape[1] % 4 == 0 ? 4 : 1;
    d.attribute("num_groups", groups);
    return d.finish(family, op, {x, d.weights({shape[1]}, 0.5, 1), d.weights({shape[1]})});
  }
  if (op == "RMSNormalization") {
    d.attribute("axis", last);
    return d.finish(family, op, {x, d.weights({shape.back()}, 0.5, 1)});
  }
  if (op == "BatchNormalization") {
    const Shape channels = {shape[1]};
    const std::string scale = d.weights(channels), bias = d.weights(channels), mean = d.weights(channels);
    return d.finish(family, op, {x, scale, bias, mean, d.weights(channels, 0.5, 1)});
  }
  if (op == "InstanceNormalization")
    return d.finish(family, op, {x, d.weights({shape[1]}, 0.5, 1), d.weights({shape[1]})});
  if (op == "LRN") {
    d.attribute("size", 2 * d.between(0, 3) + 1);
    return d.finish(family, op, {x});
  }
  const int64_t axis = d.between(0, last);
  if (op == "LpNormalization") d.attribute("p", d.between(1, 2));
  if (op != "MeanVarianceNormalization") d.attribute("axis", axis);
  if (op == "MeanVarianceNormalization") d.attribute("axes", d.some_axes(last + 1));
  return d.finish(family, op, {x});
}

RandomOperator move(Draw& d, const std::string& family, const std::string& op) {
  const DType type = d.one_of<DType>({DType::kF32, DType::kF32, DType::kF32, DType::kF16, DType::kI32, DType::kU8});
  Shape shape = d.shape(op == "DepthToSpace" || op == "SpaceToDepth" ? 4 : d.between(1, 5));
  const int64_t rank = std::ssize(shape), axis = d.between(0, rank - 1);
  int64_t& along = shape[static_cast<size_t>(axis)];
  if (op == "Transpose") {
    // Colors of an image, or columns of few numbers.
    if (rank > 1 && d.chance(0.25)) along = d.between(2, 4);
    const std::string x = d.input(shape, type);
    d.attribute("perm", d.permutation(rank));
    return d.finish(family, op, {x}, type);
  }
  if (op == "Concat") {
    std::vector<std::string> inputs;
    for (int64_t i = d.between(2, 4); i > 0; --i)
      inputs.push_back(d.input(shape, type)), along = d.extent(1, 2.0 * along);
    d.attribute("axis", axis);
    return d.finish(family, op, inputs, type);
  }
  if (op == "Split") {
    const int64_t parts = d.between(2, 3);
    along *= parts;
    const std::string x = d.input(shape, type);
    d.attribute("axis", axis);
    d.attribute("num_outputs", parts);
    return d.finish(family, op, {x}, type, parts);
  }
  if (op == "Slice") {
    const int64_t step = d.one_of<int64_t>({1, 1, 2, 3}), begin = d.between(0, along - 1);
    const int64_t end = d.between(begin + 1, along);
    const std::string x = d.input(shape, type), starts = d.numbers({begin}), ends = d.numbers({end});
    const std::string axes = d.numbers({axis});
    return d.finish(family, op, {x, starts, ends, axes, d.numbers({step})}, type);
  }
  if (op == "Pad") {
    Ints pads(static_cast<size_t>(2 * rank), 0);
    pads[static_cast<size_t>(axis)] = d.between(0, std::min<int64_t>(4, along - 1));
    pads[static_cast<size_t>(axis + rank)] = d.between(0, std::min<int64_t>(4, along - 1));
    const std::string x = d.input(shape, DType::kF32);
    d.attribute("mode", d.one_of<std::string>({"constant", "constant", "reflect", "edge"}));
    return d.finish(family, op, {x, d.numbers(pads)});
  }
  if (op == "Expand" || op == "Tile") {
    Ints to(shape.begin(), shape.end());
    const int64_t times = d.extent(2, std::max(2.0, std::min(64.0, kElements / graph::element_count(shape))));
    if (op == "Expand") to[static_cast<size_t>(axis)] = along == 1 ? times : along, along = 1;
    if (op == "Tile") std::fill(to.begin(), to.end(), 1), to[static_cast<size_t>(axis)] = times;
    const std::string x = d.input(shape, type);
    return d.finish(family, op, {x, d.numbers(to)}, type);
  }
  if (op == "Trilu") {
    if (rank == 1) shape.push_back(d.extent(1, 64));
    const std::string x = d.input(shape);
    d.attribute("upper", d.between(0, 1));
    return d.finish(family, op, {x});
  }
  const int64_t block = d.between(2, 3);
  if (op == "DepthToSpace") shape[1] *= block * block;
  if (op == "SpaceToDepth") shape[2] *= block, shape[3] *= block;
  const std::string x = d.input(shape, DType::kF32);
  d.attribute("blocksize", block);
  return d.finish(family, op, {x});
}

RandomOperator indexing(Draw& d, const std::string& family, const std::string& op) {
  Shape shape = d.shape(d.between(1, 3));
  const int64_t rank = std::ssize(shape), axis = d.between(0, rank - 1);
  const int64_t along = shape[static_cast<size_t>(axis)];
  if (op == "OneHot") {
    const int64_t depth = d.extent(2, 512);
    const std::string x = d.indices(d.shape(d.between(1, 2), kElements / static_cast<double>(depth)), depth);
    // The values are an input, because a model of constants alone is folded.
    return d.finish(family, op, {x, d.numbers({depth}), d.input({2})});
  }
  const std::string x = d.input(shape);
  if (op == "CumSum") return d.finish(family, op, {x, d.numbers({axis})});
  if (op == "GatherND") return d.finish(family, op, {x, d.indices({d.extent(1, 4096), 1}, shape[0])});
  d.attribute("axis", axis);
  if (op == "GatherElements") return d.finish(family, op, {x, d.indices(shape, along)});
  return d.finish(family, op, {x, d.indices({d.extent(1, 1024)}, along)});
}

RandomOperator recurrent(Draw& d, const std::string& family, const std::string& op) {
  const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1, directions = d.chance(0.3) ? 2 : 1;
  const int64_t steps = d.between(1, 24), batch = d.between(1, 4), in = d.extent(4, 256), hidden = d.extent(4, 256);
  const std::string x = d.input({steps, batch, in}), w = d.weights({directions, gates * hidden, in}, 0.2);
  const std::string r = d.weights({directions, gates * hidden, hidden}, 0.2);
  d.attribute("hidden_size", hidden);
  d.attribute("direction", std::string(directions == 2 ? "bidirectional" : "forward"));
  return d.finish(family, op, {x, w, r, d.weights({directions, 2 * gates * hidden}, 0.2)});
}

RandomOperator attention(Draw& d, const std::string& family, const std::string& op) {
  const int64_t batch = d.between(1, 2), heads = d.between(1, 12), depth = 8 * d.between(1, 16);
  const int64_t queries = d.extent(1, 384), keys = d.chance(0.7) ? queries : d.extent(1, 384);
  const std::string q = d.input({batch, heads, queries, depth}), k = d.input({batch, heads, keys, depth});
  const std::string v = d.input({batch, heads, keys, depth});
  if (queries == keys && d.chance(0.4)) d.attribute("is_causal", int64_t{1});
  return d.finish(family, op, {q, k, v});
}

RandomOperator einsum(Draw& d, const std::string& family, const std::string& op) {
  const int64_t b = d.between(1, 8), h = d.between(1, 8), i = d.extent(1, 128), j = d.extent(1, 128),
                k = d.extent(1, 128);
  struct Form {
    std::string equation;
    Shape left, right;
  };
  const Form form = d.one_of<Form>({{"ij,jk->ik", {i, j}, {j, k}},
                                    {"bij,bkj->bik", {b, i, j}, {b, k, j}},
                                    {"bihd,bjhd->bhij", {b, i, h, k}, {b, j, h, k}},
                                    {"bhij,bjhd->bihd", {b, h, i, j}, {b, j, h, k}},
                                    {"bij,jk->bik", {b, i, j}, {j, k}}});
  const std::string x = d.input(form.left), y = d.input(form.right);
  d.attribute("equation", form.equation);
  return d.finish(family, op, {x, y});
}

RandomOperator rearranged(Draw& d, const std::string& family, const std::string& op) {
  const Shape shape = d.shape(4, 1e6);
  if (op == "TopK") {
    const std::string x = d.input(shape);
    const int64_t axis = d.between(0, 3);
    d.attribute("axis", axis);
    const std::string k = d.numbers({d.between(1, std::min<int64_t>(16, shape[static_cast<size_t>(axis)]))});
    return d.finish_typed(family, op, {x, k}, {DType::kF32, DType::kI64});
  }
  if (op == "ScatterElements") {
    const std::string x = d.input(shape), i = d.indices(shape, shape[0]);
    d.attribute("axis", int64_t{0});
    d.attribute("reduction", std::string("add"));
    return d.finish(family, op, {x, i, d.input(shape)});
  }
  if (op == "GridSample") {
    const std::string x = d.input(shape);
    return d.finish(family, op, {x, d.input({shape[0], d.extent(1, 64), d.extent(1, 64), 2})});
  }
  const std::string x = d.input(shape);
  d.attribute("mode", d.one_of<std::string>({"nearest", "linear", "linear", "cubic"}));
  const int64_t by = d.between(2, 3);
  const std::string sizes = d.numbers({shape[0], shape[1], shape[2] * by, shape[3] * by});
  return d.finish(family, op, {x, "", "", sizes});
}

std::vector<OperatorFamily> with_further(std::vector<OperatorFamily> families) {
  for (OperatorFamily& family : quantized_families()) families.push_back(std::move(family));
  for (OperatorFamily& family : further_families()) families.push_back(std::move(family));
  return families;
}

const std::vector<OperatorFamily>& operator_families() {
  static const std::vector<OperatorFamily> all = with_further({
      {"elementwise",
       3,
       {"Abs",      "Acos",  "Acosh", "Asin",      "Asinh",   "Atan",           "Atanh", "Ceil",        "Celu",
        "Cos",      "Cosh",  "Elu",   "Erf",       "Exp",     "Floor",          "Gelu",  "HardSigmoid", "HardSwish",
        "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log",     "Mish",           "Neg",   "Not",         "Reciprocal",
        "Relu",     "Round", "Selu",  "Shrink",    "Sigmoid", "Sign",           "Sin",   "Sinh",        "Softplus",
        "Softsign", "Sqrt",  "Swish", "Tan",       "Tanh",    "ThresholdedRelu"},
       elementwise},
      {"binary",
       2,
       {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
        "Mul", "Or", "Pow", "Sub", "Sum", "Xor"},
       binary},
      {"select", 1, {"Cast", "Clip", "PRelu", "Where"}, select},
      {"product", 3, {"Gemm", "MatMul"}, product},
      {"convolution", 4, {"Conv", "Conv", "Conv", "ConvTranspose"}, convolution},
      {"einsum", 0.5, {"Einsum"}, einsum},
      {"attention", 0.7, {"Attention"}, attention},
      {"recurrent", 0.5, {"GRU", "LSTM", "RNN"}, recurrent},
      {"rearranged", 1, {"GridSample", "Resize", "ScatterElements", "TopK"}, rearranged},
      {"pooling",
       1.5,
       {"AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"},
       pooling},
      {"reduction",
       2,
       {"ArgMax", "ArgMin", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"},
       reduction},
      {"normalization",
       2,
       {"BatchNormalization", "GroupNormalization", "Hardmax", "InstanceNormalization", "LRN", "LayerNormalization",
        "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "RMSNormalization", "Softmax"},
       normalization},
      {"move",
       3,
       {"Concat", "DepthToSpace", "Expand", "Pad", "Slice", "SpaceToDepth", "Split", "Tile", "Transpose", "Transpose",
        "Trilu"},
       move},
      {"indexing", 1, {"CumSum", "Gather", "GatherElements", "GatherND", "OneHot"}, indexing},
  });
  return all;
}

}  // namespace

RandomOperator draw_operator(uint64_t seed, int64_t row) {
  Rng rng = Rng(seed).fork(static_cast<uint64_t>(row));
  std::vector<double> weights;
  for (const OperatorFamily& family : operator_families()) weights.push_back(family.weight);
  const OperatorFamily& family = operator_families()[static_cast<size_t>(rng.weighted(weights))];
  const std::string& op = family.operators[static_cast<size_t>(rng.below(std::ssize(family.operators)))];
  const auto later = kLaterOperators.find(op);
  Draw draw(rng, later == kLaterOperators.end() ? kOpset : later->second);
  return family.draw(draw, family.name, op);
}

std::vector<std::string> drawn_operators() {
  std::set<std::string> names;
  for (const OperatorFamily& family : operator_families())
    names.insert(family.operators.begin(), family.operators.end());
  return {names.begin(), names.end()};
}

}  // namespace tcc::benchmarks
