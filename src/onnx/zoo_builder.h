// Building the zoo's networks: layers with seeded weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tcc/onnx/writer.h"
#include "tcc/onnx/zoo.h"
#include "tcc/support/parallel.h"
#include "tcc/support/rng.h"

namespace tcc::onnx {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

class NetworkBuilder {
 public:
  // `parameters`: about how many numbers the weights have.
  NetworkBuilder(const std::string& name, const ZooOptions& options, int64_t parameters = 0)
      : opset_(options.opset),
        writer_(name, opset_, 8, static_cast<size_t>(parameters * graph::dtype_size(options.precision))),
        rng_(options.seed) {
    writer_.store_floats_as(options.precision);
  }

  ModelWriter& writer() { return writer_; }
  int64_t opset() const { return opset_; }

  std::string normal(const std::string& name, const graph::Shape& shape, double deviation, double mean = 0) {
    return random(name, shape, [=](Rng& rng) { return mean + deviation * rng.normal(); });
  }
  std::string uniform(const std::string& name, const graph::Shape& shape, double low, double high) {
    return random(name, shape, [=](Rng& rng) { return low + (high - low) * rng.uniform(); });
  }

  // A convolution of any rank, one number for each of its axes; an axis without a number of a list has its first one.
  struct Window {
    Ints kernel, stride{1}, pad{0}, dilation{1};
    int64_t group = 1;
    bool bias = false;
  };
  std::string conv(const std::string& name, const std::string& x, int64_t in, int64_t out, const Window& window) {
    const size_t rank = window.kernel.size();
    auto each = [&](const Ints& of) { return of.size() == rank ? of : Ints(rank, of[0]); };
    graph::Shape shape{out, in / window.group};
    shape.insert(shape.end(), window.kernel.begin(), window.kernel.end());
    const double fan_in = static_cast<double>(graph::element_count(shape) / out);
    Strings inputs{x, normal(name + ".weight", shape, std::sqrt(2.0 / fan_in))};
    if (window.bias) inputs.push_back(normal(name + ".bias", {out}, 0.05));
    Ints pads = each(window.pad);
    pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<int64_t>(rank));
    return writer_.node("Conv", inputs, {name + ".output"},
                        {{"dilations", each(window.dilation)},
                         {"group", window.group},
                         {"kernel_shape", window.kernel},
                         {"pads", pads},
                         {"strides", each(window.stride)}});
  }
  // Square kernel, "same" padding for odd kernels.
  std::string conv(const std::string& name, const std::string& x, int64_t in, int64_t out, int64_t kernel,
                   int64_t stride = 1, int64_t group = 1) {
    return conv(name, x, in, out,
                Window{.kernel = {kernel, kernel}, .stride = {stride}, .pad = {kernel / 2}, .group = group});
  }

  // 3x3 convolution with a bias.
  std::string biased_conv(const std::string& name, const std::string& x, int64_t in, int64_t out) {
    return conv(name, x, in, out, Window{.kernel = {3, 3}, .pad = {1}, .bias = true});
  }

  // `gain` scales the result: the last normalization of a residual branch is kept small, as trained networks do.
  std::string batch_norm(const std::string& name, const std::string& x, int64_t channels, double gain = 1) {
    std::string scale = uniform(name + ".weight", {channels}, 0.8 * gain, 1.2 * gain);
    std::string bias = normal(name + ".bias", {channels}, 0.1);
    std::string mean = normal(name + ".running_mean", {channels}, 0.1);
    std::string variance = uniform(name + ".running_var", {channels}, 0.8, 1.2);
    return writer_.node("BatchNormalization", {x, scale, bias, mean, variance}, {name + ".output"},
                        {{"epsilon", 1e-5f}, {"momentum", 0.9f}});
  }

  std::string relu(const std::string& name, const std::string& x) { return writer_.node("Relu", {x}, {name}); }

  std::string linear(const std::string& name, const std::string& x, int64_t in, int64_t out,
                     const std::string& output = "") {
    std::string weight = normal(name + ".weight", {out, in}, std::sqrt(2.0 / static_cast<double>(in)));
    std::string bias = normal(name + ".bias", {out}, 0.05);
    return writer_.node("Gemm", {x, weight, bias}, {output.empty() ? name + ".output" : output},
                        {{"alpha", 1.0f}, {"beta", 1.0f}, {"transB", int64_t{1}}});
  }

  // x W + b, W stored in x out, by MatMul and Add, with Xavier's deviation.
  std::string dense(const std::string& name, const std::string& x, int64_t in, int64_t out, bool bias = true,
                    const std::string& output = "") {
    std::string weight = normal(name + ".weight", {in, out}, std::sqrt(2.0 / static_cast<double>(in + out)));
    const std::string product = output.empty() || bias ? name + "/MatMul" : output;
    std::string y = writer_.node("MatMul", {x, weight}, {product});
    if (!bias) return y;
    return writer_.node("Add", {y, normal(name + ".bias", {out}, 0.05)}, {output.empty() ? name + "/Add" : output});
  }

  // One operator from opset 17 on.
  std::string layer_norm(const std::string& name, const std::string& x, int64_t hidden, float epsilon = 1e-5f,
                         const std::string& output = "") {
    std::string scale = uniform(name + ".weight", {hidden}, 0.8, 1.2), bias = normal(name + ".bias", {hidden}, 0.05);
    return writer_.node("LayerNormalization", {x, scale, bias}, {output.empty() ? name + "/Norm" : output},
                        {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
  }

  // Global pooling, Flatten and the classifier.
  void head(const std::string& x, int64_t channels, int64_t batch, const std::string& name) {
    std::string pooled = writer_.node("GlobalAveragePool", {x}, {"avgpool.output"});
    std::string flat = writer_.node("Flatten", {pooled}, {"flatten.output"}, {{"axis", int64_t{1}}});
    linear(name, flat, channels, 1000, "output");
    writer_.output("output", {batch, 1000});
  }

 private:
  // Numbers are drawn in blocks of their own generators: their values do not depend on the threads.
  template <class Draw>
  std::string random(const std::string& name, const graph::Shape& shape, Draw draw) {
    constexpr int64_t kBlock = 1 << 16;
    const Rng rng = rng_.fork(tensors_++);
    std::vector<float> values(static_cast<size_t>(graph::element_count(shape)));
    auto count = static_cast<int64_t>(values.size());
    pool_.parallel_for((count + kBlock - 1) / kBlock, [&](int64_t block, int) {
      Rng own = rng.fork(static_cast<uint64_t>(block));
      for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i)
        values[static_cast<size_t>(i)] = static_cast<float>(draw(own));
    });
    return writer_.initializer(name, {shape, std::move(values)});
  }

  int64_t opset_;
  ModelWriter writer_;
  Rng rng_;
  uint64_t tensors_ = 0;
  ThreadPool pool_{static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))};
};

constexpr int64_t kBertPositions = 512;  // the longest sequence of most language networks

// BERT as PyTorch exports it; see zoo_language.cpp.
struct BertShape {
  const char* name;
  int64_t layers, hidden, heads;
};
std::string make_bert(const BertShape& shape, const ZooOptions& options);

// Language models that predict the next token; see zoo_decoders.cpp. `layers` is what the zoo writes where the options
// name no number.
enum class DecoderFamily { kGpt2, kOpt, kLlama };
struct DecoderShape {
  const char* name;
  DecoderFamily family;
  int64_t layers, hidden, heads, key_heads, inner, words, positions;
};
std::string make_decoder(const DecoderShape& shape, const ZooOptions& options);

std::string make_inception_v3(const ZooOptions& options);
std::string make_densenet121(const ZooOptions& options);
std::string make_mobilenet_v3(const ZooOptions& options);
std::string make_resnet3d18(const ZooOptions& options);
std::string make_dcgan(const ZooOptions& options);
std::string make_deeplab_v3(const ZooOptions& options);
std::string make_vit(const ZooOptions& options);
std::string make_detr(const ZooOptions& options);
std::string make_lstm_tagger(const ZooOptions& options);
std::string make_whisper_encoder(const ZooOptions& options);
std::string make_llama_decode(const ZooOptions& options);
std::string make_mobilenet_v2_int8(const ZooOptions& options);
std::string make_diffusion_unet(const ZooOptions& options);

}  // namespace tcc::onnx
