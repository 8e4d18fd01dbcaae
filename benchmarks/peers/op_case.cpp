#include "op_case.h"

#include <algorithm>
#include <array>

#include "peer.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/check.h"

namespace tcc::benchmarks {
namespace {

constexpr std::array<const char*, 3> kAxes = {"d", "h", "w"};

std::string weights(onnx::ModelWriter& w, const std::string& name, const graph::Shape& shape, uint32_t tensor) {
  std::vector<float> values(static_cast<size_t>(graph::element_count(shape)));
  fill(values.data(), static_cast<int64_t>(values.size()), tensor);
  return w.initializer(name, {shape, std::move(values)});
}

// A convolution, with batch normalization where `bn` says so, up to `result`; the output's shape.
graph::Shape add_window(onnx::ModelWriter& w, const OpCase& c, const std::string& result) {
  using Ints = std::vector<int64_t>;
  const Ints size = input_size(c), extents = output_size(c);
  const size_t rank = size.size();
  graph::Shape input{c.get("batch"), c.get("c")}, output{c.get("batch"), c.get("f")}, filter{c.get("f")};
  const bool transposed = c.op == "deconv";
  if (transposed) filter[0] = c.get("c");
  filter.push_back((transposed ? c.get("f") : c.get("c")) / c.get("group"));
  for (size_t i = 0; i < rank; ++i) {
    input.push_back(size[i]);
    output.push_back(extents[i]);
    filter.push_back(c.get("kernel"));
  }
  w.input("x", input);
  std::vector<std::string> inputs = {"x", weights(w, "w", filter, 1)};
  if (c.get("bias")) inputs.push_back(weights(w, "b", {c.get("f")}, 2));
  auto same = [&](const char* name) { return Ints(rank, std::max<int64_t>(c.get(name), 1)); };
  const bool bn = c.get("bn") != 0;
  w.node(transposed ? "ConvTranspose" : "Conv", inputs, {bn ? "plain" : result},
         {{"group", c.get("group")},
          {"kernel_shape", same("kernel")},
          {"pads", Ints(2 * rank, c.get("pad"))},
          {"strides", same("stride")},
          {"dilations", same("dilation")}});
  if (!bn) return output;
  // scale * (v - mean) / sqrt(1) + shift
  std::vector<float> ones(static_cast<size_t>(c.get("f")), 1.0f);
  w.node("BatchNormalization",
         {"plain", weights(w, "scale", {c.get("f")}, 3), weights(w, "shift", {c.get("f")}, 2),
          weights(w, "mean", {c.get("f")}, 4), w.initializer("variance", {{c.get("f")}, ones})},
         {result}, {{"epsilon", 0.0f}});
  return output;
}

}  // namespace

int64_t OpCase::get(const std::string& key) const {
  for (const auto& [k, v] : numbers)
    if (k == key) return v;
  return 0;
}

OpCase gemm_case(const std::string& name, int64_t m, int64_t n, int64_t k, bool bias_relu, bool bf16) {
  return {name, "gemm", {{"m", m}, {"n", n}, {"k", k}, {"bias", bias_relu}, {"relu", bias_relu}, {"bf16", bf16}}, {}};
}

OpCase int8_gemm_case(const std::string& name, int64_t m, int64_t n, int64_t k) {
  return {name, "gemm", {{"m", m}, {"n", n}, {"k", k}, {"int8", 1}}, {}};
}

OpCase conv_case(const std::string& name, int64_t channels, int64_t filters, int64_t size, int64_t kernel,
                 int64_t stride, int64_t group) {
  return {name,
          "conv",
          {{"batch", 1},
           {"c", channels},
           {"h", size},
           {"w", size},
           {"f", filters},
           {"kernel", kernel},
           {"stride", stride},
           {"pad", kernel / 2},
           {"group", group},
           {"bias", 1},
           {"relu", 1}},
          {}};
}

OpCase window_case(const std::string& name, const WindowCase& window) {
  const auto rank = static_cast<int64_t>(window.size.size());
  TCC_CHECK(rank >= 1 && rank <= 3, "{} axes", rank);
  OpCase c{name, window.transposed ? "deconv" : "conv", {{"rank", rank}, {"batch", 1}, {"c", window.channels}}, {}};
  for (int64_t i = 0; i < rank; ++i)
    c.numbers.emplace_back(kAxes[static_cast<size_t>(3 - rank + i)], window.size[static_cast<size_t>(i)]);
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, int64_t>>{{"f", window.filters},
                                                                                         {"kernel", window.kernel},
                                                                                         {"stride", window.stride},
                                                                                         {"pad", window.pad},
                                                                                         {"dilation", window.dilation},
                                                                                         {"group", window.group},
                                                                                         {"bn", window.folded},
                                                                                         {"relu", window.folded}})
    c.numbers.emplace_back(key, value);
  return c;
}

OpCase attention_product_case(const std::string& name, int64_t tokens, int64_t heads, int64_t depth) {
  return {name, "attention", {{"tokens", tokens}, {"heads", heads}, {"depth", depth}}, {}};
}

OpCase dense_gelu_case(const std::string& name, int64_t rows, int64_t cols, int64_t depth) {
  return {name, "dense_gelu", {{"m", rows}, {"n", cols}, {"k", depth}}, {}};
}

OpCase norm_case(const std::string& name, int64_t rows, int64_t cols) {
  return {name, "norm", {{"rows", rows}, {"cols", cols}}, {}};
}

OpCase softmax_case(const std::string& name, const graph::Shape& shape) {
  return {name, "softmax", {{"rows", graph::element_count(shape) / shape.back()}, {"cols", shape.back()}}, shape};
}

OpCase layernorm_case(const std::string& name, int64_t rows, int64_t cols) {
  return {name, "layernorm", {{"rows", rows}, {"cols", cols}}, {}};
}

std::vector<int64_t> input_size(const OpCase& c) {
  const size_t rank = c.get("rank") > 0 ? static_cast<size_t>(c.get("rank")) : 2;
  std::vector<int64_t> out;
  for (size_t i = 3 - rank; i < 3; ++i) out.push_back(c.get(kAxes[i]));
  return out;
}

std::vector<int64_t> output_size(const OpCase& c) {
  std::vector<int64_t> out = input_size(c);
  const int64_t reach = (c.get("kernel") - 1) * std::max<int64_t>(c.get("dilation"), 1) + 1;
  for (int64_t& extent : out)
    extent = c.op == "deconv" ? (extent - 1) * c.get("stride") - 2 * c.get("pad") + reach
                              : (extent + 2 * c.get("pad") - reach) / c.get("stride") + 1;
  return out;
}

double case_flops(const OpCase& c) {
  if (c.op == "gemm" || c.op == "dense_gelu") return 2.0 * static_cast<double>(c.get("m") * c.get("n") * c.get("k"));
  if (c.op == "conv" || c.op == "deconv") {
    // A transposed window is applied at each position of the input.
    double products = static_cast<double>(c.get("batch") * c.get("f") * c.get("c") / c.get("group"));
    for (int64_t extent : c.op == "conv" ? output_size(c) : input_size(c))
      products *= static_cast<double>(extent * c.get("kernel"));
    return 2.0 * products;
  }
  if (c.op == "attention")
    return 2.0 * static_cast<double>(c.get("tokens") * c.get("tokens") * c.get("heads") * c.get("depth"));
  if (c.op == "norm") return 2.0 * static_cast<double>(c.get("rows") * c.get("cols"));
  return 8.0 * static_cast<double>(c.get("rows") * c.get("cols"));
}

std::string prepare_line(const OpCase& c, int threads, bool plain) {
  std::string line = "prepare " + c.op;
  for (const auto& [name, value] : c.numbers) line += fmt::format(" {}={}", name, value);
  return line + fmt::format(" threads={} plain={}", threads, plain ? 1 : 0);
}

std::string case_model(const OpCase& c) {
  using Ints = std::vector<int64_t>;
  TCC_CHECK(c.get("bf16") == 0, "models are f32");
  onnx::ModelWriter w("operator", c.op == "layernorm" ? 17 : 13);
  // A fused ReLU is a node of its own in the file.
  std::string result = c.get("relu") ? "linear" : "y";
  graph::Shape output;
  if (c.get("int8")) {
    w.typed_input("x", graph::DType::kU8, {c.get("m"), c.get("k")});
    const graph::Shape shape{c.get("k"), c.get("n")};
    std::vector<double> values(static_cast<size_t>(graph::element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = signed_byte_at(static_cast<int64_t>(i), 1);
    w.node("MatMulInteger", {"x", w.typed_initializer("w", graph::DType::kI8, shape, values)}, {"y"});
    w.output("y", graph::DType::kI32);
    return w.finish();
  }
  if (c.op == "gemm") {
    output = {c.get("m"), c.get("n")};
    w.input("x", {c.get("m"), c.get("k")});
    std::vector<std::string> inputs = {"x", weights(w, "w", {c.get("k"), c.get("n")}, 1)};
    if (c.get("bias")) inputs.push_back(weights(w, "b", {c.get("n")}, 2));
    w.node(c.get("bias") ? "Gemm" : "MatMul", inputs, {result});
  } else if (c.op == "dense_gelu") {
    output = {c.get("m"), c.get("n")};
    w.input("x", {c.get("m"), c.get("k")});
    auto scalar = [&](const char* name, float value) { return w.initializer(name, {{}, std::vector<float>{value}}); };
    w.node("MatMul", {"x", weights(w, "w", {c.get("k"), c.get("n")}, 1)}, {"product"});
    w.node("Add", {"product", weights(w, "b", {c.get("n")}, 2)}, {"v"});
    w.node("Div", {"v", scalar("root", 1.41421356f)}, {"scaled"});
    w.node("Erf", {"scaled"}, {"erf"});
    w.node("Add", {"erf", scalar("one", 1)}, {"sum"});
    w.node("Mul", {"v", "sum"}, {"twice"});
    w.node("Mul", {"twice", scalar("half", 0.5f)}, {"y"});
  } else if (c.op == "conv" || c.op == "deconv") {
    output = add_window(w, c, result);
  } else if (c.op == "attention") {
    int64_t tokens = c.get("tokens"), heads = c.get("heads"), depth = c.get("depth");
    output = {1, heads, tokens, tokens};
    for (const char* input : {"x", "z"}) w.input(input, {1, tokens, heads, depth});
    w.node("Transpose", {"x"}, {"q"}, {{"perm", Ints{0, 2, 1, 3}}});
    w.node("Transpose", {"z"}, {"k"}, {{"perm", Ints{0, 2, 3, 1}}});
    w.node("MatMul", {"q", "k"}, {"y"});
  } else if (c.op == "norm") {
    output = {1};
    w.input("x", {1, c.get("rows"), c.get("cols")});
    w.node("ReduceL2", {"x"}, {"y"}, {{"axes", Ints{1, 2}}, {"keepdims", int64_t{0}}});
  } else if (c.op == "softmax") {
    output = c.shape;
    w.input("x", output);
    w.node("Softmax", {"x"}, {"y"}, {{"axis", int64_t{-1}}});
  } else {
    output = {c.get("rows"), c.get("cols")};
    w.input("x", output);
    w.node("LayerNormalization", {"x", weights(w, "w", {c.get("cols")}, 1), weights(w, "b", {c.get("cols")}, 2)}, {"y"},
           {{"axis", int64_t{-1}}, {"epsilon", 1e-5f}});
  }
  if (c.get("relu")) w.node("Relu", {result}, {"y"});
  w.output("y", output);
  return w.finish();
}

std::string tiny_model() {
  onnx::ModelWriter w("tiny");
  w.input("x", {16});
  w.node("Relu", {"x"}, {"y"});
  w.output("y", {16});
  return w.finish();
}

}  // namespace tcc::benchmarks
