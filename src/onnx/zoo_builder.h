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
  NetworkBuilder(const std::string& name, const ZooOptions& options, int64_t parameters = 0, int64_t opset = 13)
      : writer_(name, opset, 8, static_cast<size_t>(parameters) * sizeof(float)), rng_(options.seed) {}

  ModelWriter& writer() { return writer_; }

  std::string normal(const std::string& name, const graph::Shape& shape, double deviation, double mean = 0) {
    return random(name, shape, [=](Rng& rng) { return mean + deviation * rng.normal(); });
  }
  std::string uniform(const std::string& name, const graph::Shape& shape, double low, double high) {
    return random(name, shape, [=](Rng& rng) { return low + (high - low) * rng.uniform(); });
  }

  // Square kernel, "same" padding for odd kernels.
  std::string conv(const std::string& name, const std::string& x, int64_t in, int64_t out, int64_t kernel,
                   int64_t stride = 1, int64_t group = 1) {
    int64_t fan_in = in / group * kernel * kernel, pad = kernel / 2;
    std::string weight =
        normal(name + ".weight", {out, in / group, kernel, kernel}, std::sqrt(2.0 / static_cast<double>(fan_in)));
    return writer_.node("Conv", {x, weight}, {name + ".output"},
                        {{"dilations", Ints{1, 1}},
                         {"group", group},
                         {"kernel_shape", Ints{kernel, kernel}},
                         {"pads", Ints{pad, pad, pad, pad}},
                         {"strides", Ints{stride, stride}}});
  }

  // 3x3 convolution with a bias.
  std::string biased_conv(const std::string& name, const std::string& x, int64_t in, int64_t out) {
    std::string weight = normal(name + ".weight", {out, in, 3, 3}, std::sqrt(2.0 / static_cast<double>(in * 9)));
    std::string bias = normal(name + ".bias", {out}, 0.05);
    return writer_.node("Conv", {x, weight, bias}, {name + ".output"},
                        {{"dilations", Ints{1, 1}},
                         {"group", int64_t{1}},
                         {"kernel_shape", Ints{3, 3}},
                         {"pads", Ints{1, 1, 1, 1}},
                         {"strides", Ints{1, 1}}});
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

  ModelWriter writer_;
  Rng rng_;
  uint64_t tensors_ = 0;
  ThreadPool pool_{static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))};
};

constexpr int64_t kBertPositions = 512;  // the longest sequence

// BERT as PyTorch exports it; see zoo_language.cpp.
struct BertShape {
  const char* name;
  int64_t layers, hidden, heads;
};
std::string make_bert(const BertShape& shape, const ZooOptions& options);

std::string make_lstm_tagger(const ZooOptions& options);
std::string make_whisper_encoder(const ZooOptions& options);
std::string make_llama_decode(const ZooOptions& options);
std::string make_mobilenet_v2_int8(const ZooOptions& options);
std::string make_diffusion_unet(const ZooOptions& options);

}  // namespace tcc::onnx
