// A tagger of recurrent layers, the encoder of Whisper, a step of Llama with its past, and MobileNet-V2 in 8-bit
// integers, each in the operators that exporters write for it.
#include <fmt/format.h>

#include "zoo_builder.h"

namespace tcc::onnx {
namespace {

using graph::DType;

// Xavier: the weights of a product from `in` to `out` numbers.
double deviation_of(int64_t in, int64_t out) {
  return std::sqrt(2.0 / static_cast<double>(in + out));
}

}  // namespace

// Words to tags: an embedding, layers of LSTMs in both directions, a linear layer. Huang, Xu, Yu, Bidirectional
// LSTM-CRF Models for Sequence Tagging, 2015, without the CRF.
std::string make_lstm_tagger(const ZooOptions& options) {
  constexpr int64_t kWords = 10'000, kEmbedding = 128, kHidden = 128, kLayers = 2, kTags = 45;
  NetworkBuilder b("lstm-tagger", options, 3'000'000);
  ModelWriter& w = b.writer();
  w.integer_input("words", {options.batch, options.sequence});
  std::string x = w.node("Gather", {b.normal("embedding.weight", {kWords, kEmbedding}, 1), "words"}, {"embedding"});
  x = w.node("Transpose", {x}, {"steps"}, {{"perm", Ints{1, 0, 2}}});
  w.initializer("joined", {{3}, Ints{0, 0, 2 * kHidden}});
  int64_t in = kEmbedding;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("lstm.{}", layer);
    const double deviation = 1 / std::sqrt(static_cast<double>(kHidden));
    Strings inputs{x, b.normal(name + ".W", {2, 4 * kHidden, in}, deviation),
                   b.normal(name + ".R", {2, 4 * kHidden, kHidden}, deviation),
                   b.normal(name + ".B", {2, 8 * kHidden}, deviation)};
    x = w.node("LSTM", inputs, {name}, {{"hidden_size", kHidden}, {"direction", std::string("bidirectional")}});
    // Steps, directions, batch, hidden to steps, batch, both directions.
    x = w.node("Transpose", {x}, {name + "/Transpose"}, {{"perm", Ints{0, 2, 1, 3}}});
    x = w.node("Reshape", {x, "joined"}, {name + "/Reshape"});
    in = 2 * kHidden;
  }
  x = w.node("Transpose", {x}, {"sentences"}, {{"perm", Ints{1, 0, 2}}});
  x = w.node("MatMul", {x, b.normal("tags.weight", {in, kTags}, deviation_of(in, kTags))}, {"tags/MatMul"});
  w.node("Add", {x, b.normal("tags.bias", {kTags}, 0.05)}, {"scores"});
  w.output("scores", {options.batch, options.sequence, kTags});
  return w.finish();
}

// Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, 2022: the smallest encoder. The spectrum
// has two frames for each position.
std::string make_whisper_encoder(const ZooOptions& options) {
  constexpr int64_t kMel = 80, kHidden = 384, kHeads = 6, kLayers = 4, kSize = kHidden / kHeads;
  NetworkBuilder b("whisper-tiny-encoder", options, 8'000'000);
  ModelWriter& w = b.writer();
  const int64_t positions = options.sequence;
  w.input("mel", {options.batch, kMel, 2 * positions});
  auto conv = [&](const std::string& name, const std::string& x, int64_t in, int64_t stride) {
    std::string weight = b.normal(name + ".weight", {kHidden, in, 3}, std::sqrt(2.0 / static_cast<double>(3 * in)));
    std::string y = w.node("Conv", {x, weight, b.normal(name + ".bias", {kHidden}, 0.05)}, {name},
                           {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}, {"strides", Ints{stride}}});
    return w.node("Gelu", {y}, {name + "/Gelu"});
  };
  std::string x = conv("conv2", conv("conv1", "mel", kMel, 1), kHidden, 2);
  x = w.node("Transpose", {x}, {"frames"}, {{"perm", Ints{0, 2, 1}}});
  x = w.node("Add", {x, b.normal("positions", {positions, kHidden}, 0.5)}, {"embedded"});
  w.initializer("split", {{4}, Ints{0, 0, kHeads, kSize}});
  w.initializer("join", {{3}, Ints{0, 0, kHidden}});
  w.initializer("scale", {{}, std::vector<float>{1 / std::sqrt(static_cast<float>(kSize))}});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    std::string normal = b.layer_norm(name + ".attention_norm", x, kHidden);
    auto heads = [&](const char* which, const Ints& perm, bool bias) {
      std::string y = b.dense(fmt::format("{}.{}", name, which), normal, kHidden, kHidden, bias);
      y = w.node("Reshape", {y, "split"}, {fmt::format("{}.{}/Reshape", name, which)});
      return w.node("Transpose", {y}, {fmt::format("{}.{}/Transpose", name, which)}, {{"perm", perm}});
    };
    std::string query = heads("query", {0, 2, 1, 3}, true), key = heads("key", {0, 2, 3, 1}, false),
                value = heads("value", {0, 2, 1, 3}, true);
    query = w.node("Mul", {query, "scale"}, {name + ".query/Mul"});
    std::string weights = w.node("Softmax", {w.node("MatMul", {query, key}, {name + ".scores"})}, {name + ".weights"},
                                 {{"axis", int64_t{-1}}});
    std::string context = w.node("Transpose", {w.node("MatMul", {weights, value}, {name + ".context"})},
                                 {name + ".context/Transpose"}, {{"perm", Ints{0, 2, 1, 3}}});
    context = w.node("Reshape", {context, "join"}, {name + ".context/Reshape"});
    x = w.node("Add", {x, b.dense(name + ".out", context, kHidden, kHidden)}, {name + ".attended"});
    std::string inner = b.dense(name + ".fc1", b.layer_norm(name + ".norm", x, kHidden), kHidden, 4 * kHidden);
    inner = w.node("Gelu", {inner}, {name + ".fc1/Gelu"});
    x = w.node("Add", {x, b.dense(name + ".fc2", inner, 4 * kHidden, kHidden)}, {name + ".output"});
  }
  b.layer_norm("norm", x, kHidden, 1e-5f, "last_hidden_state");
  w.output("last_hidden_state", {options.batch, positions, kHidden});
  return w.finish();
}

// Touvron et al., LLaMA, 2023: one token after options.sequence - 1 of the past, heads of keys shared by four heads of
// queries.
std::string make_llama_decode(const ZooOptions& options) {
  constexpr int64_t kWords = 8192, kHidden = 256, kHeads = 8, kKeyHeads = 2, kLayers = 2, kInner = 688,
                    kSize = kHidden / kHeads;
  NetworkBuilder b("llama-tiny", options, 6'000'000);
  ModelWriter& w = b.writer();
  const int64_t past = options.sequence - 1;
  w.integer_input("input_ids", {options.batch, 1});
  w.integer_input("position_ids", {options.batch, 1});
  // Angles of all positions, as exporters store them.
  std::vector<float> cosines, sines;
  for (int64_t p = 0; p < kBertPositions; ++p) {
    for (int64_t i = 0; i < kSize / 2; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) / kSize);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  w.initializer("cos", {{kBertPositions, kSize / 2}, cosines});
  w.initializer("sin", {{kBertPositions, kSize / 2}, sines});
  auto norm = [&](const std::string& name, const std::string& x) {
    return w.node("RMSNormalization", {x, b.uniform(name + ".weight", {kHidden}, 0.8, 1.2)}, {name},
                  {{"axis", int64_t{-1}}, {"epsilon", 1e-5f}});
  };
  std::string x = w.node("Gather", {b.normal("embedding", {kWords, kHidden}, 1), "input_ids"}, {"embedded"});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    std::string h = norm(name + ".input_norm", x);
    auto turned = [&](const char* which, int64_t heads) {
      std::string y = b.dense(fmt::format("{}.{}", name, which), h, kHidden, heads * kSize, false);
      return w.node("RotaryEmbedding", {y, "cos", "sin", "position_ids"}, {fmt::format("{}.{}/Rotary", name, which)},
                    {{"num_heads", heads}});
    };
    std::string query = turned("q", kHeads), key = turned("k", kKeyHeads),
                value = b.dense(name + ".v", h, kHidden, kKeyHeads * kSize, false);
    Strings inputs{query, key, value}, outputs{name + ".context"};
    if (past > 0) {
      for (const char* which : {"key", "value"}) {
        const std::string input = fmt::format("past_key_values.{}.{}", layer, which);
        w.input(input, {options.batch, kKeyHeads, past, kSize});
        if (inputs.size() == 3) inputs.emplace_back();
        inputs.push_back(input);
        outputs.push_back(fmt::format("present.{}.{}", layer, which));
      }
    }
    h = w.node("Attention", inputs, outputs,
               {{"q_num_heads", kHeads}, {"kv_num_heads", kKeyHeads}, {"is_causal", int64_t{1}}});
    for (size_t i = 1; i < outputs.size(); ++i) w.output(outputs[i], {options.batch, kKeyHeads, past + 1, kSize});
    x = w.node("Add", {x, b.dense(name + ".o", h, kHidden, kHidden, false)}, {name + ".attended"});
    h = norm(name + ".post_norm", x);
    std::string gate = b.dense(name + ".gate", h, kHidden, kInner, false);
    gate = w.node("Mul", {gate, w.node("Sigmoid", {gate}, {name + ".gate/Sigmoid"})}, {name + ".gate/Mul"});
    gate = w.node("Mul", {gate, b.dense(name + ".up", h, kHidden, kInner, false)}, {name + ".inner"});
    x = w.node("Add", {x, b.dense(name + ".down", gate, kInner, kHidden, false)}, {name + ".output"});
  }
  w.node("MatMul", {norm("norm", x), b.normal("head", {kHidden, kWords}, deviation_of(kHidden, kWords))}, {"logits"});
  w.output("logits", {options.batch, 1, kWords});
  return w.finish();
}

namespace {

// Layers between pairs of DequantizeLinear and QuantizeLinear, as quantizers of models write them: weights of 8 bits
// with a scale for each channel, activations of 8 bits with one scale and zero point.
class QuantizedBuilder {
 public:
  QuantizedBuilder(const std::string& name, const ZooOptions& options)
      : b_(name, options), w_(b_.writer()), rng_(options.seed ^ 0x51a7) {
    w_.typed_initializer("zero.i8", DType::kI8, {}, {0});
  }

  ModelWriter& writer() { return w_; }

  // A tensor of numbers from `low` on, in steps of a 255th of the range.
  std::string quantized(const std::string& x, double low, double high) {
    const double step = (high - low) / 255;
    const std::string scale = w_.initializer(x + ".scale", {{}, std::vector<float>{static_cast<float>(step)}});
    const std::string zero = w_.typed_initializer(x + ".zero", DType::kU8, {}, {std::nearbyint(-low / step)});
    std::string q = w_.node("QuantizeLinear", {x, scale, zero}, {x + ".q"});
    return w_.node("DequantizeLinear", {q, scale, zero}, {x + ".dq"});
  }

  std::string conv(const std::string& name, const std::string& x, double x_scale, int64_t in, int64_t out,
                   int64_t kernel, int64_t stride, int64_t group, double gain) {
    const int64_t each = in / group * kernel * kernel;
    const double deviation = gain * std::sqrt(2.0 / static_cast<double>(each));
    std::vector<double> weights, biases;
    std::vector<float> scales, bias_scales;
    for (int64_t m = 0; m < out; ++m) {
      // Weights of about four deviations fill the range.
      const double scale = deviation * (0.8 + 0.4 * rng_.uniform()) * 4 / 127;
      for (int64_t i = 0; i < each; ++i)
        weights.push_back(std::clamp(std::nearbyint(deviation * rng_.normal() / scale), -127.0, 127.0));
      scales.push_back(static_cast<float>(scale));
      bias_scales.push_back(static_cast<float>(scale * x_scale));
      biases.push_back(std::nearbyint(0.1 * gain * rng_.normal() / (scale * x_scale)));
    }
    auto stored = [&](const std::string& part, DType dtype, const graph::Shape& shape, const std::vector<double>& v,
                      const std::vector<float>& s) {
      const std::string tensor = w_.typed_initializer(name + part, dtype, shape, v);
      const std::string scale = w_.initializer(name + part + ".scale", {{out}, s});
      return w_.node("DequantizeLinear", {tensor, scale}, {name + part + ".dq"}, {{"axis", int64_t{0}}});
    };
    const int64_t pad = kernel / 2;
    return w_.node("Conv",
                   {x, stored(".weight", DType::kI8, {out, in / group, kernel, kernel}, weights, scales),
                    stored(".bias", DType::kI32, {out}, biases, bias_scales)},
                   {name + ".output"},
                   {{"group", group},
                    {"kernel_shape", Ints{kernel, kernel}},
                    {"pads", Ints{pad, pad, pad, pad}},
                    {"strides", Ints{stride, stride}}});
  }

 private:
  NetworkBuilder b_;
  ModelWriter& w_;
  Rng rng_;
};

}  // namespace

// MobileNet-V2 with BatchNormalization folded away, quantized to 8 bits.
std::string make_mobilenet_v2_int8(const ZooOptions& options) {
  constexpr double kSix = 6, kRange = 4;  // of clipped activations, and of those between blocks
  QuantizedBuilder b("mobilenet_v2-int8", options);
  ModelWriter& w = b.writer();
  w.input("input", {options.batch, 3, options.image, options.image});
  w.initializer("relu6.min", {{}, std::vector<float>{0}});
  w.initializer("relu6.max", {{}, std::vector<float>{6}});
  auto unit = [&](const std::string& name, const std::string& x, double scale, int64_t in, int64_t out, int64_t kernel,
                  int64_t stride, int64_t group) {
    std::string y = b.conv(name, x, scale, in, out, kernel, stride, group, 1);
    y = w.node("Clip", {y, "relu6.min", "relu6.max"}, {name + ".clip"});
    return b.quantized(y, 0, kSix);
  };
  struct Stage {
    int64_t expansion, out, count, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  const double six = kSix / 255, wide = 2 * kRange / 255;
  std::string x = unit("features.0", b.quantized("input", -kRange, kRange), wide, 3, 32, 3, 2, 1);
  double scale = six;
  int64_t in = 32, index = 1;
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.count; ++i, ++index) {
      const int64_t stride = i == 0 ? stage.stride : 1, hidden = in * stage.expansion;
      const bool residual = stride == 1 && in == stage.out;
      const std::string name = fmt::format("features.{}", index);
      std::string y = x;
      double y_scale = scale;
      if (stage.expansion != 1) y = unit(name + ".expand", y, y_scale, in, hidden, 1, 1, 1), y_scale = six;
      y = unit(name + ".depthwise", y, y_scale, hidden, hidden, 3, stride, hidden);
      y = b.quantized(b.conv(name + ".project", y, six, hidden, stage.out, 1, 1, 1, residual ? 0.25 : 0.7), -kRange,
                      kRange);
      if (residual) y = b.quantized(w.node("Add", {x, y}, {name + ".add"}), -kRange, kRange);
      x = y;
      scale = wide;
      in = stage.out;
    }
  }
  x = unit("features.18", x, wide, in, 1280, 1, 1, 1);
  x = b.quantized(w.node("GlobalAveragePool", {x}, {"pool"}), 0, kSix);
  x = b.conv("classifier", x, six, 1280, 1000, 1, 1, 1, 1);
  w.node("Flatten", {x}, {"output"}, {{"axis", int64_t{1}}});
  w.output("output", {options.batch, 1000});
  return w.finish();
}

}  // namespace tcc::onnx
