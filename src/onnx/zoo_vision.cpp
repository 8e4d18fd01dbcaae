// Image networks of concatenated branches, three axes, transposed convolutions, segmentation and attention, in the
// operators that PyTorch's exporter writes for them.
#include <fmt/format.h>

#include "zoo_builder.h"

namespace tcc::onnx {
namespace {

using Window = NetworkBuilder::Window;

std::string concat(NetworkBuilder& b, const std::string& name, const Strings& parts, int64_t axis = 1) {
  return b.writer().node("Concat", parts, {name}, {{"axis", axis}});
}

std::string max_pool(NetworkBuilder& b, const std::string& name, const std::string& x, int64_t kernel, int64_t stride,
                     int64_t pad = 0) {
  return b.writer().node(
      "MaxPool", {x}, {name},
      {{"kernel_shape", Ints{kernel, kernel}}, {"pads", Ints{pad, pad, pad, pad}}, {"strides", Ints{stride, stride}}});
}

std::string average_pool(NetworkBuilder& b, const std::string& name, const std::string& x, int64_t kernel,
                         int64_t stride, int64_t pad = 0) {
  return b.writer().node("AveragePool", {x}, {name},
                         {{"kernel_shape", Ints{kernel, kernel}},
                          {"pads", Ints{pad, pad, pad, pad}},
                          {"strides", Ints{stride, stride}},
                          {"count_include_pad", int64_t{1}}});
}

// Convolution, normalization, ReLU; one padding for each axis that keeps its extent.
std::string unit(NetworkBuilder& b, const std::string& name, const std::string& x, int64_t in, int64_t out,
                 const Window& window) {
  return b.relu(name + ".relu", b.batch_norm(name + ".bn", b.conv(name + ".conv", x, in, out, window), out));
}

// Szegedy et al., Rethinking the Inception Architecture for Computer Vision, 2016, as torchvision builds it.
class Inception {
 public:
  explicit Inception(const ZooOptions& options) : b_("inception_v3", options, 24'000'000) {}

  std::string make(const ZooOptions& options) {
    b_.writer().input("input", {options.batch, 3, options.image, options.image});
    std::string x = square("Conv2d_1a", "input", 3, 32, 3, 2, 0);
    x = square("Conv2d_2b", square("Conv2d_2a", x, 32, 32, 3, 1, 0), 32, 64, 3, 1, 1);
    x = max_pool(b_, "maxpool1", x, 3, 2);
    x = square("Conv2d_4a", square("Conv2d_3b", x, 64, 80, 1, 1, 0), 80, 192, 3, 1, 0);
    x = max_pool(b_, "maxpool2", x, 3, 2);
    x = small("Mixed_5b", x, 192, 32);
    x = small("Mixed_5c", x, 256, 64);
    x = small("Mixed_5d", x, 288, 64);
    std::string y = square("Mixed_6a.dbl1", x, 288, 64, 1, 1, 0);
    y = square("Mixed_6a.dbl3", square("Mixed_6a.dbl2", y, 64, 96, 3, 1, 1), 96, 96, 3, 2, 0);
    x = concat(b_, "Mixed_6a",
               {square("Mixed_6a.3x3", x, 288, 384, 3, 2, 0), y, max_pool(b_, "Mixed_6a.pool", x, 3, 2)});
    const int64_t widths[] = {128, 160, 160, 192};
    for (size_t i = 0; i < 4; ++i) x = long_kernels(fmt::format("Mixed_6{}", "bcde"[i]), x, widths[i]);
    y = square("Mixed_7a.3x3_2", square("Mixed_7a.3x3_1", x, 768, 192, 1, 1, 0), 192, 320, 3, 2, 0);
    std::string z = seven("Mixed_7a.7", square("Mixed_7a.7x7_1", x, 768, 192, 1, 1, 0), {192, 192, 192}, true);
    z = square("Mixed_7a.7x7_4", z, 192, 192, 3, 2, 0);
    x = concat(b_, "Mixed_7a", {y, z, max_pool(b_, "Mixed_7a.pool", x, 3, 2)});
    x = wide("Mixed_7c", wide("Mixed_7b", x, 1280), 2048);
    b_.head(x, 2048, options.batch, "fc");
    return b_.writer().finish();
  }

 private:
  std::string square(const std::string& name, const std::string& x, int64_t in, int64_t out, int64_t kernel,
                     int64_t stride, int64_t pad) {
    return unit(b_, name, x, in, out, Window{.kernel = {kernel, kernel}, .stride = {stride}, .pad = {pad}});
  }
  std::string rows(const std::string& name, const std::string& x, int64_t in, int64_t out, int64_t h, int64_t w) {
    return unit(b_, name, x, in, out, Window{.kernel = {h, w}, .pad = {h / 2, w / 2}});
  }
  // Kernels of 1x7 and 7x1 in turns.
  std::string seven(const std::string& name, std::string x, const Ints& widths, bool flat_first) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      const bool flat = flat_first == (i % 2 == 0);
      x = rows(fmt::format("{}_{}", name, i), x, widths[i], widths[i + 1], flat ? 1 : 7, flat ? 7 : 1);
    }
    return x;
  }
  std::string pooled(const std::string& name, const std::string& x, int64_t in, int64_t out) {
    return square(name + ".pool", average_pool(b_, name + ".avg", x, 3, 1, 1), in, out, 1, 1, 0);
  }
  std::string small(const std::string& name, const std::string& x, int64_t in, int64_t pool) {
    std::string five = square(name + ".5x5_2", square(name + ".5x5_1", x, in, 48, 1, 1, 0), 48, 64, 5, 1, 2);
    std::string dbl = square(name + ".dbl2", square(name + ".dbl1", x, in, 64, 1, 1, 0), 64, 96, 3, 1, 1);
    dbl = square(name + ".dbl3", dbl, 96, 96, 3, 1, 1);
    return concat(b_, name, {square(name + ".1x1", x, in, 64, 1, 1, 0), five, dbl, pooled(name, x, in, pool)});
  }
  std::string long_kernels(const std::string& name, const std::string& x, int64_t c) {
    std::string seven_once = seven(name + ".7", square(name + ".7x7", x, 768, c, 1, 1, 0), {c, c, 192}, true);
    std::string seven_twice = seven(name + ".d", square(name + ".dbl", x, 768, c, 1, 1, 0), {c, c, c, c, 192}, false);
    return concat(b_, name,
                  {square(name + ".1x1", x, 768, 192, 1, 1, 0), seven_once, seven_twice, pooled(name, x, 768, 192)});
  }
  std::string wide(const std::string& name, const std::string& x, int64_t in) {
    auto both = [&](const std::string& part, const std::string& y) {
      return concat(b_, part, {rows(part + "_a", y, 384, 384, 1, 3), rows(part + "_b", y, 384, 384, 3, 1)});
    };
    std::string y = both(name + ".3x3", square(name + ".3x3_1", x, in, 384, 1, 1, 0));
    std::string z = square(name + ".dbl2", square(name + ".dbl1", x, in, 448, 1, 1, 0), 448, 384, 3, 1, 1);
    return concat(b_, name,
                  {square(name + ".1x1", x, in, 320, 1, 1, 0), y, both(name + ".dbl3", z), pooled(name, x, in, 192)});
  }

  NetworkBuilder b_;
};

}  // namespace

std::string make_inception_v3(const ZooOptions& options) {
  return Inception(options).make(options);
}

// Huang et al., Densely Connected Convolutional Networks, 2017. Normalization comes before the convolutions.
std::string make_densenet121(const ZooOptions& options) {
  constexpr int64_t kGrowth = 32;
  NetworkBuilder b("densenet121", options, 8'000'000);
  b.writer().input("input", {options.batch, 3, options.image, options.image});
  std::string x = unit(b, "conv0", "input", 3, 64, {.kernel = {7, 7}, .stride = {2}, .pad = {3}});
  x = max_pool(b, "pool0", x, 3, 2, 1);
  auto normal = [&](const std::string& name, const std::string& y, int64_t channels) {
    return b.relu(name + ".relu", b.batch_norm(name, y, channels));
  };
  int64_t channels = 64, block = 1;
  for (int64_t layers : {6, 12, 24, 16}) {
    for (int64_t i = 0; i < layers; ++i, channels += kGrowth) {
      const std::string name = fmt::format("block{}.layer{}", block, i);
      std::string y = b.conv(name + ".conv1", normal(name + ".norm1", x, channels), channels, 4 * kGrowth, 1);
      y = b.conv(name + ".conv2", normal(name + ".norm2", y, 4 * kGrowth), 4 * kGrowth, kGrowth, 3);
      x = concat(b, name, {x, y});
    }
    if (block == 4) break;
    const std::string name = fmt::format("transition{}", block++);
    x = b.conv(name + ".conv", normal(name + ".norm", x, channels), channels, channels / 2, 1);
    x = average_pool(b, name + ".pool", x, 2, 2);
    channels /= 2;
  }
  b.head(normal("norm5", x, channels), channels, options.batch, "classifier");
  return b.writer().finish();
}

// Howard et al., Searching for MobileNetV3, 2019: the large network.
std::string make_mobilenet_v3(const ZooOptions& options) {
  NetworkBuilder b("mobilenet_v3", options, 6'000'000);
  ModelWriter& w = b.writer();
  w.input("input", {options.batch, 3, options.image, options.image});
  auto layer = [&](const std::string& name, const std::string& x, int64_t in, int64_t out, int64_t kernel,
                   int64_t stride, int64_t group, const char* activation) {
    std::string y = b.batch_norm(name + ".bn", b.conv(name, x, in, out, kernel, stride, group), out);
    return activation == nullptr ? y : w.node(activation, {y}, {name + ".act"});
  };
  struct Row {
    int64_t kernel, hidden, out;
    bool squeeze;
    const char* activation;
    int64_t stride;
  };
  const char *relu = "Relu", *swish = "HardSwish";
  const Row rows[] = {{3, 16, 16, false, relu, 1},   {3, 64, 24, false, relu, 2},   {3, 72, 24, false, relu, 1},
                      {5, 72, 40, true, relu, 2},    {5, 120, 40, true, relu, 1},   {5, 120, 40, true, relu, 1},
                      {3, 240, 80, false, swish, 2}, {3, 200, 80, false, swish, 1}, {3, 184, 80, false, swish, 1},
                      {3, 184, 80, false, swish, 1}, {3, 480, 112, true, swish, 1}, {3, 672, 112, true, swish, 1},
                      {5, 672, 160, true, swish, 2}, {5, 960, 160, true, swish, 1}, {5, 960, 160, true, swish, 1}};
  std::string x = layer("features.0", "input", 3, 16, 3, 2, 1, swish);
  int64_t in = 16, index = 1;
  for (const Row& row : rows) {
    const std::string name = fmt::format("features.{}", index++);
    std::string y = row.hidden == in ? x : layer(name + ".expand", x, in, row.hidden, 1, 1, 1, row.activation);
    y = layer(name + ".depthwise", y, row.hidden, row.hidden, row.kernel, row.stride, row.hidden, row.activation);
    if (row.squeeze) {
      const int64_t narrow = (row.hidden / 4 + 7) / 8 * 8;
      const Window one{.kernel = {1, 1}, .bias = true};
      std::string s = w.node("GlobalAveragePool", {y}, {name + ".pool"});
      s = b.relu(name + ".fc1.relu", b.conv(name + ".fc1", s, row.hidden, narrow, one));
      s = w.node("HardSigmoid", {b.conv(name + ".fc2", s, narrow, row.hidden, one)}, {name + ".scale"},
                 {{"alpha", 1.0f / 6}});
      y = w.node("Mul", {s, y}, {name + ".squeezed"});
    }
    y = layer(name + ".project", y, row.hidden, row.out, 1, 1, 1, nullptr);
    x = row.stride == 1 && in == row.out ? w.node("Add", {y, x}, {name + ".output"}) : y;
    in = row.out;
  }
  x = layer("features.16", x, in, 960, 1, 1, 1, swish);
  std::string y = w.node("GlobalAveragePool", {x}, {"avgpool.output"});
  y = w.node("Flatten", {y}, {"flatten.output"}, {{"axis", int64_t{1}}});
  y = w.node("HardSwish", {b.linear("classifier.0", y, 960, 1280)}, {"classifier.1"});
  b.linear("classifier.3", y, 1280, 1000, "output");
  w.output("output", {options.batch, 1000});
  return w.finish();
}

// Tran et al., A Closer Look at Spatiotemporal Convolutions for Action Recognition, 2018: ResNet3D of 18 layers over 16
// frames of half of the image size.
std::string make_resnet3d18(const ZooOptions& options) {
  NetworkBuilder b("resnet3d18", options, 34'000'000);
  ModelWriter& w = b.writer();
  const int64_t side = options.image / 2;
  w.input("input", {options.batch, 3, 16, side, side});
  std::string x = unit(b, "stem", "input", 3, 64, {.kernel = {3, 7, 7}, .stride = {1, 2, 2}, .pad = {1, 3, 3}});
  int64_t in = 64;
  for (int64_t stage = 0; stage < 4; ++stage) {
    const int64_t out = int64_t{64} << stage;
    for (int64_t i = 0; i < 2; ++i, in = out) {
      const std::string name = fmt::format("layer{}.{}", stage + 1, i);
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      std::string y = unit(b, name + ".1", x, in, out, {.kernel = {3, 3, 3}, .stride = {stride}, .pad = {1}});
      y = b.batch_norm(name + ".2.bn", b.conv(name + ".2", y, out, out, {.kernel = {3, 3, 3}, .pad = {1}}), out, 0.25);
      const Window shortcut{.kernel = {1, 1, 1}, .stride = {stride}};
      const std::string skip =
          in == out ? x : b.batch_norm(name + ".skip.bn", b.conv(name + ".skip", x, in, out, shortcut), out);
      x = b.relu(name + ".output", w.node("Add", {y, skip}, {name + ".add"}));
    }
  }
  b.head(x, in, options.batch, "fc");
  return w.finish();
}

// Radford, Metz, Chintala, Unsupervised Representation Learning with Deep Convolutional Generative Adversarial
// Networks, 2016: the generator.
std::string make_dcgan(const ZooOptions& options) {
  constexpr int64_t kNoise = 100;
  NetworkBuilder b("dcgan", options, 4'000'000);
  ModelWriter& w = b.writer();
  w.input("noise", {options.batch, kNoise, 1, 1});
  std::string x = "noise";
  int64_t in = kNoise;
  for (int64_t out : {512, 256, 128, 64, 3}) {
    const bool first = in == kNoise;
    const std::string name = fmt::format("main.{}", out);
    const double deviation = std::sqrt(2.0 / static_cast<double>(in * (first ? 1 : 4)));
    const int64_t pad = first ? 0 : 1, stride = first ? 1 : 2;
    x = w.node("ConvTranspose", {x, b.normal(name + ".weight", {in, out, 4, 4}, deviation)}, {name},
               {{"dilations", Ints{1, 1}},
                {"group", int64_t{1}},
                {"kernel_shape", Ints{4, 4}},
                {"pads", Ints{pad, pad, pad, pad}},
                {"strides", Ints{stride, stride}}});
    if (out != 3) x = b.relu(name + ".relu", b.batch_norm(name + ".bn", x, out));
    in = out;
  }
  w.node("Tanh", {x}, {"image"});
  w.output("image", {options.batch, 3, 64, 64});
  return w.finish();
}

namespace {

// The body of ResNet-50; the last `dilated` stages keep their extent and spread their kernels. Its frozen normalization
// is a product and a sum where `affine` holds, as DETR has it.
class Backbone {
 public:
  Backbone(NetworkBuilder& b, int64_t dilated, bool affine) : b_(b), dilated_(dilated), affine_(affine) {}

  std::string make(const std::string& input) {
    std::string x = b_.relu("backbone.relu", normal("backbone.bn1", b_.conv("backbone.conv1", input, 3, 64, 7, 2), 64));
    x = max_pool(b_, "backbone.pool", x, 3, 2, 1);
    int64_t in = 64, dilation = 1, stage = 0;
    for (int64_t blocks : {3, 4, 6, 3}) {
      const int64_t width = int64_t{64} << stage, before = dilation;
      const bool keeps = stage >= 4 - dilated_;
      if (keeps) dilation *= 2;
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t stride = i == 0 && stage > 0 && !keeps ? 2 : 1;
        x = block(fmt::format("backbone.layer{}.{}", stage + 1, i), x, in, width, stride, i == 0 ? before : dilation);
        in = width * 4;
      }
      ++stage;
    }
    return x;
  }

 private:
  std::string normal(const std::string& name, const std::string& x, int64_t channels, double gain = 1) {
    if (!affine_) return b_.batch_norm(name, x, channels, gain);
    const std::string scale = b_.uniform(name + ".scale", {1, channels, 1, 1}, 0.8 * gain, 1.2 * gain),
                      bias = b_.normal(name + ".bias", {1, channels, 1, 1}, 0.1);
    return b_.writer().node("Add", {b_.writer().node("Mul", {x, scale}, {name + "/Mul"}), bias}, {name + "/Add"});
  }
  std::string block(const std::string& name, const std::string& x, int64_t in, int64_t width, int64_t stride,
                    int64_t dilation) {
    std::string y = b_.relu(name + ".relu1", normal(name + ".bn1", b_.conv(name + ".conv1", x, in, width, 1), width));
    y = b_.conv(name + ".conv2", y, width, width,
                Window{.kernel = {3, 3}, .stride = {stride}, .pad = {dilation}, .dilation = {dilation}});
    y = b_.relu(name + ".relu2", normal(name + ".bn2", y, width));
    y = normal(name + ".bn3", b_.conv(name + ".conv3", y, width, width * 4, 1), width * 4, 0.25);
    std::string skip = x;
    if (in != width * 4)
      skip = normal(name + ".skip.bn", b_.conv(name + ".skip", x, in, width * 4, 1, stride), width * 4);
    return b_.relu(name + ".output", b_.writer().node("Add", {y, skip}, {name + ".add"}));
  }

  NetworkBuilder& b_;
  int64_t dilated_;
  bool affine_;
};

}  // namespace

// Chen et al., Rethinking Atrous Convolution for Semantic Image Segmentation, 2017, on ResNet-50, 21 classes.
std::string make_deeplab_v3(const ZooOptions& options) {
  constexpr int64_t kWide = 2048, kNarrow = 256, kClasses = 21;
  NetworkBuilder b("deeplab_v3", options, 42'000'000);
  ModelWriter& w = b.writer();
  w.input("input", {options.batch, 3, options.image, options.image});
  const std::string x = Backbone(b, 2, false).make("input");
  auto resize = [&](const std::string& name, const std::string& y, const std::string& sizes) {
    return w.node("Resize", {y, "", "", sizes}, {name},
                  {{"mode", std::string("linear")},
                   {"coordinate_transformation_mode", std::string("half_pixel")},
                   {"cubic_coeff_a", -0.75f}});
  };
  // The sizes are computed at run time from those of the input and of the features, as the exporter writes them.
  w.initializer("zero", {{1}, Ints{0}});
  w.initializer("two", {{1}, Ints{2}});
  w.initializer("four", {{1}, Ints{4}});
  auto sizes = [&](const std::string& name, const std::string& like, int64_t channels) {
    const std::string shape = w.node("Shape", {like}, {name + "/Shape"});
    const std::string plane = w.node("Slice", {shape, "two", "four", "zero"}, {name + "/Slice"});
    return concat(b, name + "/Concat", {w.initializer(name + ".head", {{2}, Ints{options.batch, channels}}), plane}, 0);
  };
  Strings parts{unit(b, "aspp.0", x, kWide, kNarrow, {.kernel = {1, 1}})};
  for (int64_t rate : {12, 24, 36})
    parts.push_back(unit(b, fmt::format("aspp.rate{}", rate), x, kWide, kNarrow,
                         {.kernel = {3, 3}, .pad = {rate}, .dilation = {rate}}));
  std::string pooled = w.node("GlobalAveragePool", {x}, {"aspp.pool"});
  pooled = unit(b, "aspp.pooled", pooled, kWide, kNarrow, {.kernel = {1, 1}});
  parts.push_back(resize("aspp.pool.resize", pooled, sizes("aspp.sizes", x, kNarrow)));
  std::string y = unit(b, "aspp.project", concat(b, "aspp.concat", parts), 5 * kNarrow, kNarrow, {.kernel = {1, 1}});
  y = unit(b, "head", y, kNarrow, kNarrow, {.kernel = {3, 3}, .pad = {1}});
  y = b.conv("classifier", y, kNarrow, kClasses, {.kernel = {1, 1}, .bias = true});
  resize("scores", y, sizes("sizes", "input", kClasses));
  w.output("scores", {options.batch, kClasses, options.image, options.image});
  return w.finish();
}

namespace {

// Transformer layers over rows of numbers, in the small operators of the eager models.
class Transformer {
 public:
  Transformer(NetworkBuilder& b, int64_t batch, int64_t hidden, int64_t heads, int64_t inner)
      : b_(b), w_(b.writer()), batch_(batch), hidden_(hidden), heads_(heads), inner_(inner) {
    const double root = std::sqrt(static_cast<double>(hidden / heads));
    w_.initializer("attention.scale", {{}, std::vector<float>{static_cast<float>(1 / root)}});
    w_.initializer("attention.join", {{3}, Ints{batch, -1, hidden}});
    w_.initializer("attention.split", {{4}, Ints{batch, -1, heads, hidden / heads}});
    w_.initializer("gelu.root2", {{}, std::vector<float>{1.41421354f}});
    w_.initializer("gelu.one", {{}, std::vector<float>{1}});
    w_.initializer("gelu.half", {{}, std::vector<float>{0.5f}});
  }

  std::string add(const std::string& name, const std::string& x, const std::string& y) {
    return w_.node("Add", {x, y}, {name});
  }
  std::string norm(const std::string& name, const std::string& x, float epsilon) {
    return b_.layer_norm(name, x, hidden_, epsilon);
  }
  std::string attention(const std::string& name, const std::string& query, const std::string& key,
                        const std::string& value) {
    auto heads = [&](const char* which, const std::string& x, const Ints& perm) {
      const std::string part = fmt::format("{}.{}", name, which);
      std::string y = w_.node("Reshape", {b_.dense(part, x, hidden_, hidden_), "attention.split"}, {part + "/Reshape"});
      return w_.node("Transpose", {y}, {part + "/Transpose"}, {{"perm", perm}});
    };
    const std::string q = heads("query", query, {0, 2, 1, 3}), k = heads("key", key, {0, 2, 3, 1}),
                      v = heads("value", value, {0, 2, 1, 3});
    std::string scores =
        w_.node("Mul", {w_.node("MatMul", {q, k}, {name + "/Scores"}), "attention.scale"}, {name + "/Scaled"});
    std::string weights = w_.node("Softmax", {scores}, {name + "/Softmax"}, {{"axis", int64_t{-1}}});
    std::string y = w_.node("Transpose", {w_.node("MatMul", {weights, v}, {name + "/Context"})}, {name + "/Transpose"},
                            {{"perm", Ints{0, 2, 1, 3}}});
    return b_.dense(name + ".out", w_.node("Reshape", {y, "attention.join"}, {name + "/Join"}), hidden_, hidden_);
  }
  std::string gelu(const std::string& name, const std::string& x) {
    std::string e = w_.node("Erf", {w_.node("Div", {x, "gelu.root2"}, {name + "/Div"})}, {name + "/Erf"});
    std::string y = w_.node("Mul", {x, w_.node("Add", {e, "gelu.one"}, {name + "/Add"})}, {name + "/Mul"});
    return w_.node("Mul", {y, "gelu.half"}, {name + "/Gelu"});
  }
  std::string feed_forward(const std::string& name, const std::string& x, bool relu) {
    std::string y = b_.dense(name + ".fc1", x, hidden_, inner_);
    y = relu ? b_.relu(name + "/Relu", y) : gelu(name, y);
    return b_.dense(name + ".fc2", y, inner_, hidden_);
  }

 private:
  NetworkBuilder& b_;
  ModelWriter& w_;
  int64_t batch_, hidden_, heads_, inner_;
};

}  // namespace

// Dosovitskiy et al., An Image is Worth 16x16 Words, 2021: ViT-B/16.
std::string make_vit(const ZooOptions& options) {
  constexpr int64_t kPatch = 16, kHidden = 768, kHeads = 12;
  const int64_t layers = options.layers > 0 ? options.layers : 12, side = options.image / kPatch;
  NetworkBuilder b("vit", options, layers * 7'100'000 + 2'000'000);
  ModelWriter& w = b.writer();
  w.input("pixel_values", {options.batch, 3, options.image, options.image});
  Transformer t(b, options.batch, kHidden, kHeads, 4 * kHidden);
  std::string x =
      b.conv("patches", "pixel_values", 3, kHidden, {.kernel = {kPatch, kPatch}, .stride = {kPatch}, .bias = true});
  w.initializer("rows", {{3}, Ints{options.batch, kHidden, -1}});
  x = w.node("Transpose", {w.node("Reshape", {x, "rows"}, {"flat"})}, {"tokens"}, {{"perm", Ints{0, 2, 1}}});
  w.initializer("each", {{3}, Ints{options.batch, -1, -1}});
  // Expand keeps an extent where the shape says 1.
  w.initializer("classes", {{3}, Ints{options.batch, 1, 1}});
  const std::string first = w.node("Expand", {b.normal("cls_token", {1, 1, kHidden}, 0.5), "classes"}, {"cls/Expand"});
  x = concat(b, "with_class", {first, x});
  x = t.add("embedded", x, b.normal("positions", {1, side * side + 1, kHidden}, 0.5));
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("layer.{}", layer), n = t.norm(name + ".norm1", x, 1e-12f);
    x = t.add(name + ".attended", t.attention(name + ".attention", n, n, n), x);
    x = t.add(name + ".output", t.feed_forward(name, t.norm(name + ".norm2", x, 1e-12f), false), x);
  }
  w.initializer("class_row", {{}, Ints{0}});
  x = w.node("Gather", {t.norm("norm", x, 1e-12f), "class_row"}, {"class"}, {{"axis", int64_t{1}}});
  b.linear("classifier", x, kHidden, 1000, "logits");
  w.output("logits", {options.batch, 1000});
  return w.finish();
}

// Carion et al., End-to-End Object Detection with Transformers, 2020, on ResNet-50: 100 boxes of 92 classes.
std::string make_detr(const ZooOptions& options) {
  constexpr int64_t kHidden = 256, kHeads = 8, kQueries = 100, kClasses = 92;
  const int64_t layers = options.layers > 0 ? options.layers : 6, side = (options.image + 31) / 32;
  NetworkBuilder b("detr", options, 25'000'000 + layers * 3'000'000);
  ModelWriter& w = b.writer();
  w.input("pixel_values", {options.batch, 3, options.image, options.image});
  std::string x = Backbone(b, 0, true).make("pixel_values");
  x = b.conv("input_projection", x, 2048, kHidden, {.kernel = {1, 1}, .bias = true});
  Transformer t(b, options.batch, kHidden, kHeads, 2048);
  w.initializer("rows", {{3}, Ints{options.batch, kHidden, -1}});
  x = w.node("Transpose", {w.node("Reshape", {x, "rows"}, {"flat"})}, {"tokens"}, {{"perm", Ints{0, 2, 1}}});
  // Sines and cosines of the row and the column, which the exporter folds where no pixel is masked.
  std::vector<float> positions;
  for (int64_t p = 0; p < side * side; ++p) {
    for (int64_t i = 0; i < kHidden; ++i) {
      const int64_t half = kHidden / 2, along = i < half ? p / side : p % side, j = i % half;
      const double turn = 2 * 3.14159265358979 * static_cast<double>(along + 1) / static_cast<double>(side);
      const double angle = turn / std::pow(10000.0, static_cast<double>(j / 2 * 2) / static_cast<double>(half));
      positions.push_back(static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
  const std::string where = w.initializer("positions", {{1, side * side, kHidden}, positions});
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("encoder.{}", layer), at = t.add(name + ".positions", x, where);
    x = t.norm(name + ".norm1", t.add(name + ".attended", x, t.attention(name + ".attention", at, at, x)), 1e-5f);
    x = t.norm(name + ".norm2", t.add(name + ".sum", x, t.feed_forward(name, x, true)), 1e-5f);
  }
  const std::string queries = b.normal("queries", {1, kQueries, kHidden}, 0.5), memory = x;
  const std::string memory_at = t.add("decoder.positions", memory, where);
  x = w.initializer("targets", {{options.batch, kQueries, kHidden},
                                std::vector<float>(static_cast<size_t>(options.batch * kQueries * kHidden), 0)});
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("decoder.{}", layer), at = t.add(name + ".queries", x, queries);
    x = t.norm(name + ".norm1", t.add(name + ".own", x, t.attention(name + ".self", at, at, x)), 1e-5f);
    const std::string asks = t.add(name + ".asks", x, queries);
    x = t.norm(name + ".norm2", t.add(name + ".seen", x, t.attention(name + ".cross", asks, memory_at, memory)), 1e-5f);
    x = t.norm(name + ".norm3", t.add(name + ".sum", x, t.feed_forward(name, x, true)), 1e-5f);
  }
  x = t.norm("decoder.norm", x, 1e-5f);
  b.dense("classes", x, kHidden, kClasses, true, "logits");
  std::string box = b.relu("box.0.relu", b.dense("box.0", x, kHidden, kHidden));
  box = b.dense("box.2", b.relu("box.1.relu", b.dense("box.1", box, kHidden, kHidden)), kHidden, 4);
  w.node("Sigmoid", {box}, {"boxes"});
  w.output("logits", {options.batch, kQueries, kClasses});
  w.output("boxes", {options.batch, kQueries, 4});
  return w.finish();
}

}  // namespace tcc::onnx
