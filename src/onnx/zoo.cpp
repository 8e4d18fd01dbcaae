// Networks written the way a PyTorch export looks: convolution, BatchNormalization and activation as separate nodes,
// Flatten before a Gemm with a transposed weight.
#include "tcc/onnx/zoo.h"

#include <cmath>

#include "tcc/onnx/load.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"
#include "writer.h"

namespace tcc::onnx {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

class NetworkBuilder {
 public:
  NetworkBuilder(const std::string& name, const ZooOptions& options) : writer_(name), rng_(options.seed) {}

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

  // `gain` scales the result: the last normalisation of a residual branch is kept small, as trained networks do.
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
  template <class Draw>
  std::string random(const std::string& name, const graph::Shape& shape, Draw draw) {
    Rng rng = rng_.fork(tensors_++);
    std::vector<float> values(static_cast<size_t>(graph::element_count(shape)));
    for (float& v : values) v = static_cast<float>(draw(rng));
    return writer_.initializer(name, {shape, std::move(values)});
  }

  ModelWriter writer_;
  Rng rng_;
  uint64_t tensors_ = 0;
};

std::string make_mlp(const ZooOptions& options) {
  NetworkBuilder b("mlp", options);
  b.writer().input("input", {options.batch, 784});
  std::string x = b.relu("relu1.output", b.linear("fc1", "input", 784, 512));
  x = b.relu("relu2.output", b.linear("fc2", x, 512, 512));
  b.linear("fc3", x, 512, 10, "output");
  b.writer().output("output", {options.batch, 10});
  return b.writer().finish();
}

std::string resnet_stem(NetworkBuilder& b, const ZooOptions& options) {
  b.writer().input("input", {options.batch, 3, options.image, options.image});
  std::string x = b.relu("relu.output", b.batch_norm("bn1", b.conv("conv1", "input", 3, 64, 7, 2), 64));
  return b.writer().node("MaxPool", {x}, {"maxpool.output"},
                         {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
}

constexpr double kBranchGain = 0.25;

// One residual block: 3x3, 3x3, or 1x1, 3x3, 1x1 for bottlenecks.
std::string resnet_block(NetworkBuilder& b, const std::string& name, const std::string& x, int64_t in, int64_t width,
                         int64_t out, int64_t stride) {
  bool bottleneck = out != width;
  std::string y;
  if (bottleneck) {
    y = b.relu(name + ".relu1", b.batch_norm(name + ".bn1", b.conv(name + ".conv1", x, in, width, 1), width));
    y = b.relu(name + ".relu2",
               b.batch_norm(name + ".bn2", b.conv(name + ".conv2", y, width, width, 3, stride), width));
    y = b.batch_norm(name + ".bn3", b.conv(name + ".conv3", y, width, out, 1), out, kBranchGain);
  } else {
    y = b.relu(name + ".relu1", b.batch_norm(name + ".bn1", b.conv(name + ".conv1", x, in, width, 3, stride), width));
    y = b.batch_norm(name + ".bn2", b.conv(name + ".conv2", y, width, out, 3), out, kBranchGain);
  }
  std::string skip = x;
  if (stride != 1 || in != out) {
    skip = b.batch_norm(name + ".downsample.1", b.conv(name + ".downsample.0", x, in, out, 1, stride), out);
  }
  std::string sum = b.writer().node("Add", {y, skip}, {name + ".add"});
  return b.relu(name + ".output", sum);
}

std::string make_resnet(const std::string& name, const Ints& blocks, int64_t expansion, const ZooOptions& options) {
  NetworkBuilder b(name, options);
  std::string x = resnet_stem(b, options);
  int64_t in = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    int64_t width = int64_t{64} << stage;
    for (int64_t i = 0; i < blocks[stage]; ++i) {
      int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      x = resnet_block(b, fmt::format("layer{}.{}", stage + 1, i), x, in, width, width * expansion, stride);
      in = width * expansion;
    }
  }
  b.head(x, in, options.batch, "fc");
  return b.writer().finish();
}

std::string make_mobilenet_v2(const ZooOptions& options) {
  NetworkBuilder b("mobilenet_v2", options);
  b.writer().input("input", {options.batch, 3, options.image, options.image});
  std::string low = b.writer().initializer("relu6.min", {{}, std::vector<float>{0}});
  std::string high = b.writer().initializer("relu6.max", {{}, std::vector<float>{6}});
  auto unit = [&](const std::string& name, const std::string& x, int64_t in, int64_t out, int64_t kernel,
                  int64_t stride, int64_t group) {
    std::string y = b.batch_norm(name + ".1", b.conv(name + ".0", x, in, out, kernel, stride, group), out);
    return b.writer().node("Clip", {y, low, high}, {name + ".output"});
  };
  struct Stage {
    int64_t expansion, out, count, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::string x = unit("features.0", "input", 3, 32, 3, 2, 1);
  int64_t in = 32, index = 1;
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.count; ++i, ++index) {
      int64_t stride = i == 0 ? stage.stride : 1, hidden = in * stage.expansion;
      bool residual = stride == 1 && in == stage.out;
      std::string name = fmt::format("features.{}", index), y = x;
      if (stage.expansion != 1) y = unit(name + ".expand", y, in, hidden, 1, 1, 1);
      y = unit(name + ".depthwise", y, hidden, hidden, 3, stride, hidden);
      y = b.batch_norm(name + ".project.1", b.conv(name + ".project.0", y, hidden, stage.out, 1), stage.out,
                       residual ? kBranchGain : 1);
      x = residual ? b.writer().node("Add", {x, y}, {name + ".output"}) : y;
      in = stage.out;
    }
  }
  x = unit("features.18", x, in, 1280, 1, 1, 1);
  b.head(x, 1280, options.batch, "classifier");
  return b.writer().finish();
}

struct Row {
  const char* name;
  const char* description;
  std::string (*make)(const ZooOptions&);
};
constexpr Row kZoo[] = {
    {"mlp", "784-512-512-10 perceptron with ReLU", make_mlp},
    {"resnet18", "ResNet-18, 1,000 classes",
     [](const ZooOptions& o) { return make_resnet("resnet18", {2, 2, 2, 2}, 1, o); }},
    {"resnet50", "ResNet-50, 1,000 classes",
     [](const ZooOptions& o) { return make_resnet("resnet50", {3, 4, 6, 3}, 4, o); }},
    {"mobilenet_v2", "MobileNet-V2, 1,000 classes", make_mobilenet_v2},
};

}  // namespace

std::vector<ZooEntry> zoo_models() {
  std::vector<ZooEntry> models;
  for (const Row& row : kZoo) models.push_back({row.name, row.description});
  return models;
}

Result<std::string> zoo_model(const std::string& name, const ZooOptions& options) {
  if (options.batch < 1 || options.batch > 1024) {
    return make_error(ErrorClass::kUsage, fmt::format("zoo: batch {} is not between 1 and 1024", options.batch));
  }
  if (options.image < 32 || options.image > 1024) {
    return make_error(ErrorClass::kUsage, fmt::format("zoo: image size {} is not between 32 and 1024", options.image));
  }
  Strings names;
  for (const Row& row : kZoo) {
    if (name == row.name) return row.make(options);
    names.push_back(row.name);
  }
  std::string near = suggest(name, names);
  return make_error(ErrorClass::kInput, fmt::format("the zoo has no model '{}'", sanitize(name)),
                    near.empty() ? fmt::format("models: {}", fmt::join(names, ", ")) : near);
}

Result<void> write_zoo(const std::string& name, const ZooOptions& options, const std::string& path) {
  TCC_TRY(std::string bytes, zoo_model(name, options));
  return write_file(path, bytes);
}

Result<graph::Graph> load_model(const std::string& model, const ImportOptions& import_options,
                                const ZooOptions& zoo_options) {
  if (!model.starts_with("zoo:")) return import_model(model, import_options);
  TCC_TRY(std::string bytes, zoo_model(model.substr(4), zoo_options));
  return import_bytes(std::make_shared<const std::string>(std::move(bytes)), model, import_options);
}

}  // namespace tcc::onnx
