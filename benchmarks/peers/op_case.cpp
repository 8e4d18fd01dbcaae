#include "op_case.h"

#include "onnx/writer.h"
#include "peer.h"
#include "tcc/support/check.h"

namespace tcc::benchmarks {
namespace {

int64_t output_extent(const OpCase& c, const char* axis) {
  return (c.get(axis) + 2 * c.get("pad") - c.get("kernel")) / c.get("stride") + 1;
}

std::string weights(onnx::ModelWriter& w, const std::string& name, const graph::Shape& shape, uint32_t tensor) {
  std::vector<float> values(static_cast<size_t>(graph::element_count(shape)));
  fill(values.data(), static_cast<int64_t>(values.size()), tensor);
  return w.initializer(name, {shape, std::move(values)});
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

OpCase softmax_case(const std::string& name, const graph::Shape& shape) {
  return {name, "softmax", {{"rows", graph::element_count(shape) / shape.back()}, {"cols", shape.back()}}, shape};
}

OpCase layernorm_case(const std::string& name, int64_t rows, int64_t cols) {
  return {name, "layernorm", {{"rows", rows}, {"cols", cols}}, {}};
}

double case_flops(const OpCase& c) {
  if (c.op == "gemm") return 2.0 * static_cast<double>(c.get("m") * c.get("n") * c.get("k"));
  if (c.op == "conv") {
    int64_t outputs = c.get("batch") * c.get("f") * output_extent(c, "h") * output_extent(c, "w");
    return 2.0 * static_cast<double>(outputs * (c.get("c") / c.get("group")) * c.get("kernel") * c.get("kernel"));
  }
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
  if (c.op == "gemm") {
    output = {c.get("m"), c.get("n")};
    w.input("x", {c.get("m"), c.get("k")});
    std::vector<std::string> inputs = {"x", weights(w, "w", {c.get("k"), c.get("n")}, 1)};
    if (c.get("bias")) inputs.push_back(weights(w, "b", {c.get("n")}, 2));
    w.node(c.get("bias") ? "Gemm" : "MatMul", inputs, {result});
  } else if (c.op == "conv") {
    output = {c.get("batch"), c.get("f"), output_extent(c, "h"), output_extent(c, "w")};
    w.input("x", {c.get("batch"), c.get("c"), c.get("h"), c.get("w")});
    int64_t k = c.get("kernel"), p = c.get("pad"), s = c.get("stride"), g = c.get("group");
    w.node("Conv", {"x", weights(w, "w", {c.get("f"), c.get("c") / g, k, k}, 1), weights(w, "b", {c.get("f")}, 2)},
           {result}, {{"group", g}, {"kernel_shape", Ints{k, k}}, {"pads", Ints{p, p, p, p}}, {"strides", Ints{s, s}}});
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
