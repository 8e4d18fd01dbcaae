// Image networks written the way a PyTorch export looks: convolution, BatchNormalization and activation as separate
// nodes, Flatten before a Gemm with a transposed weight.
#include "tcc/onnx/zoo.h"

#include <algorithm>
#include <limits>

#include "handlers.h"
#include "tcc/onnx/load.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"
#include "zoo_builder.h"

namespace tcc::onnx {
namespace {

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
                         int64_t out, int64_t stride, int64_t groups) {
  bool bottleneck = out != width;
  std::string y;
  if (bottleneck) {
    y = b.relu(name + ".relu1", b.batch_norm(name + ".bn1", b.conv(name + ".conv1", x, in, width, 1), width));
    y = b.relu(name + ".relu2",
               b.batch_norm(name + ".bn2", b.conv(name + ".conv2", y, width, width, 3, stride, groups), width));
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

// Inner convolutions of bottlenecks: `wide` times the usual channels, in groups.
struct Bottleneck {
  int64_t expansion = 4, wide = 1, groups = 1;
};

std::string make_resnet(const std::string& name, const Ints& blocks, const Bottleneck& inner,
                        const ZooOptions& options) {
  NetworkBuilder b(name, options);
  std::string x = resnet_stem(b, options);
  int64_t in = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t base = int64_t{64} << stage, out = base * inner.expansion;
    for (int64_t i = 0; i < blocks[stage]; ++i) {
      int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      x = resnet_block(b, fmt::format("layer{}.{}", stage + 1, i), x, in, base * inner.wide, out, stride, inner.groups);
      in = out;
    }
  }
  b.head(x, in, options.batch, "fc");
  return b.writer().finish();
}

// Sandler et al., MobileNetV2, CVPR 2018, and its released code: channels by the width multiplier, in multiples of 8,
// never less than nine tenths of the exact number.
int64_t scale_channels(int64_t channels, int64_t percent) {
  const int64_t exact = channels * percent;  // hundredths
  const int64_t rounded = std::max<int64_t>((exact + 400) / 800 * 8, 8);
  return rounded * 1000 < exact * 9 ? rounded + 8 : rounded;
}

std::string make_mobilenet_v2(const ZooOptions& options) {
  auto scaled = [&](int64_t channels) { return scale_channels(channels, options.width); };
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
  int64_t in = scaled(32), index = 1;
  std::string x = unit("features.0", "input", 3, in, 3, 2, 1);
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.count; ++i, ++index) {
      int64_t stride = i == 0 ? stage.stride : 1, hidden = in * stage.expansion, out = scaled(stage.out);
      bool residual = stride == 1 && in == out;
      std::string name = fmt::format("features.{}", index), y = x;
      if (stage.expansion != 1) y = unit(name + ".expand", y, in, hidden, 1, 1, 1);
      y = unit(name + ".depthwise", y, hidden, hidden, 3, stride, hidden);
      y = b.batch_norm(name + ".project.1", b.conv(name + ".project.0", y, hidden, out, 1), out,
                       residual ? kBranchGain : 1);
      x = residual ? b.writer().node("Add", {x, y}, {name + ".output"}) : y;
      in = out;
    }
  }
  // Narrower networks keep the width of the last layer.
  const int64_t last = scale_channels(1280, std::max<int64_t>(options.width, 100));
  x = unit("features.18", x, in, last, 1, 1, 1);
  b.head(x, last, options.batch, "classifier");
  return b.writer().finish();
}

std::string make_vgg16(const ZooOptions& options) {
  const int64_t side = options.image / 32;
  NetworkBuilder b("vgg16", options, 36'000'000 + 512 * side * side * 4096);
  b.writer().input("input", {options.batch, 3, options.image, options.image});
  std::string x = "input";
  int64_t in = 3, index = 0, size = options.image;
  for (const Ints& stage : std::vector<Ints>{{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}) {
    for (int64_t out : stage) {
      std::string name = fmt::format("features.{}", index);
      x = b.relu(fmt::format("features.{}.output", index + 1), b.biased_conv(name, x, in, out));
      in = out;
      index += 2;
    }
    x = b.writer().node("MaxPool", {x}, {fmt::format("features.{}.output", index++)},
                        {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
    size /= 2;
  }
  x = b.writer().node("Flatten", {x}, {"flatten.output"}, {{"axis", int64_t{1}}});
  x = b.relu("classifier.1.output", b.linear("classifier.0", x, 512 * size * size, 4096));
  x = b.relu("classifier.4.output", b.linear("classifier.3", x, 4096, 4096));
  b.linear("classifier.6", x, 4096, 1000, "output");
  b.writer().output("output", {options.batch, 1000});
  return b.writer().finish();
}

// A size that only some models have.
struct Size {
  const char* name;
  int64_t ZooOptions::* field;
};
constexpr Size kImage{"image", &ZooOptions::image}, kSequence{"sequence", &ZooOptions::sequence},
    kWidth{"width", &ZooOptions::width}, kLayers{"layers", &ZooOptions::layers}, kPast{"past", &ZooOptions::past};
constexpr Size kSizes[] = {kImage, kSequence, kWidth, kLayers, kPast};
constexpr std::string_view kPrecision = "precision";

struct Row {
  const char* name;
  const char* description;
  int64_t opset;  // the oldest with the network's operators
  std::vector<std::string_view> sizes;
  std::string (*make)(const ZooOptions&);
  int64_t longest = kBertPositions;  // positions that the network knows
};

Row image_row(const char* name, const char* description, int64_t opset, std::string (*make)(const ZooOptions&)) {
  return {name, description, opset, {kImage.name, kPrecision}, make};
}

Row bert_row(const char* name, const char* description, std::string (*make)(const ZooOptions&)) {
  return {name, description, 13, {kSequence.name, kLayers.name, kPrecision}, make};
}

Row decoder_row(const char* name, const char* description, std::string (*make)(const ZooOptions&), int64_t longest) {
  return {name, description, 17, {kSequence.name, kLayers.name, kPast.name, kPrecision}, make, longest};
}
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"mlp", "784-512-512-10 perceptron with ReLU", 13, {kPrecision}, make_mlp},
      image_row("resnet18", "ResNet-18, 1,000 classes", 13,
                [](const ZooOptions& o) { return make_resnet("resnet18", {2, 2, 2, 2}, {.expansion = 1}, o); }),
      image_row("resnet34", "ResNet-34, 1,000 classes", 13,
                [](const ZooOptions& o) { return make_resnet("resnet34", {3, 4, 6, 3}, {.expansion = 1}, o); }),
      image_row("resnet50", "ResNet-50, 1,000 classes", 13,
                [](const ZooOptions& o) { return make_resnet("resnet50", {3, 4, 6, 3}, {}, o); }),
      image_row("wide_resnet50", "WideResNet-50-2, 1,000 classes (280 MB)", 13,
                [](const ZooOptions& o) { return make_resnet("wide_resnet50", {3, 4, 6, 3}, {.wide = 2}, o); }),
      image_row(
          "resnext50", "ResNeXt-50 of 32 groups of 4 channels, 1,000 classes", 13,
          [](const ZooOptions& o) { return make_resnet("resnext50", {3, 4, 6, 3}, {.wide = 2, .groups = 32}, o); }),
      image_row("inception_v3", "Inception-v3, 1,000 classes; published for --image 299", 13, make_inception_v3),
      image_row("densenet121", "DenseNet-121, 1,000 classes", 13, make_densenet121),
      {"mobilenet_v2", "MobileNet-V2, 1,000 classes", 13, {kImage.name, kWidth.name, kPrecision}, make_mobilenet_v2},
      image_row("mobilenet_v3", "MobileNet-V3, large, 1,000 classes", 14, make_mobilenet_v3),
      image_row("vgg16", "VGG-16, 1,000 classes (550 MB)", 13, make_vgg16),
      image_row("resnet3d18", "ResNet3D-18 over 16 frames of half of --image, 1,000 classes", 13, make_resnet3d18),
      {"dcgan", "generator of DCGAN, 64 x 64 pixels", 13, {kPrecision}, make_dcgan},
      image_row("deeplab_v3", "DeepLab-V3 on ResNet-50, 21 classes of pixels", 13, make_deeplab_v3),
      {"vit", "ViT-B/16, 12 layers of 768 (350 MB)", 17, {kImage.name, kLayers.name, kPrecision}, make_vit},
      {"detr",
       "DETR on ResNet-50, 6 layers of 256 in each half, 100 boxes of 92 classes",
       17,
       {kImage.name, kLayers.name, kPrecision},
       make_detr},
      bert_row("bert-tiny", "BERT of 2 layers of 128, vocabulary 30,522",
               [](const ZooOptions& o) { return make_bert({"bert-tiny", 2, 128, 2}, o); }),
      bert_row("bert-small", "BERT of 4 layers of 512, vocabulary 30,522",
               [](const ZooOptions& o) { return make_bert({"bert-small", 4, 512, 8}, o); }),
      bert_row("bert-medium", "BERT of 8 layers of 512, vocabulary 30,522",
               [](const ZooOptions& o) { return make_bert({"bert-medium", 8, 512, 8}, o); }),
      bert_row("bert-base", "BERT of 12 layers of 768, vocabulary 30,522 (440 MB)",
               [](const ZooOptions& o) { return make_bert({"bert-base", 12, 768, 12}, o); }),
      bert_row("bert-large", "BERT of 24 layers of 1,024, vocabulary 30,522 (1.3 GB)",
               [](const ZooOptions& o) { return make_bert({"bert-large", 24, 1024, 16}, o); }),
      decoder_row(
          "gpt2", "GPT-2 of 12 layers of 768, vocabulary 50,257 (500 MB)",
          [](const ZooOptions& o) {
            return make_decoder({"gpt2", DecoderFamily::kGpt2, 12, 768, 12, 12, 3072, 50257, 1024}, o);
          },
          1024),
      decoder_row(
          "opt-1.3b", "2 of the 24 layers of OPT-1.3b of 2,048, vocabulary 50,272 (820 MB)",
          [](const ZooOptions& o) {
            return make_decoder({"opt-1.3b", DecoderFamily::kOpt, 2, 2048, 32, 32, 8192, 50272, 2048}, o);
          },
          2048),
      decoder_row(
          "llama", "Llama of 12 layers of 768, vocabulary 32,000 (650 MB)",
          [](const ZooOptions& o) {
            return make_decoder({"llama", DecoderFamily::kLlama, 12, 768, 12, 12, 3072, 32000, 0}, o);
          },
          2048),
      decoder_row(
          "mistral-7b", "1 of the 32 layers of Mistral-7b of 4,096, vocabulary 32,000 (1.9 GB)",
          [](const ZooOptions& o) {
            return make_decoder({"mistral-7b", DecoderFamily::kLlama, 1, 4096, 32, 8, 14336, 32000, 0}, o);
          },
          4096),
      {"mobilenet_v2-int8",
       "MobileNet-V2 quantized to 8 bits, 1,000 classes",
       13,
       {kImage.name},
       make_mobilenet_v2_int8},
      {"lstm-tagger",
       "two bidirectional LSTMs of 128 over words, 45 tags",
       14,
       {kSequence.name, kPrecision},
       make_lstm_tagger},
      {"whisper-tiny-encoder",
       "encoder of Whisper, 4 layers of 384, two frames a token",
       20,
       {kSequence.name, kPrecision},
       make_whisper_encoder},
      {"llama-tiny",
       "one token of a Llama of 2 layers of 256, after --sequence - 1 of the past",
       23,
       {kSequence.name, kPrecision},
       make_llama_decode},
      image_row("unet-diffusion",
                "U-Net of a diffusion model over features of an eighth of --image, 64 to 128 channels", 13,
                make_diffusion_unet),
  };
  return kRows;
}

bool has_size(const Row& row, std::string_view size) {
  return std::find(row.sizes.begin(), row.sizes.end(), size) != row.sizes.end();
}

}  // namespace

std::optional<graph::DType> find_zoo_precision(std::string_view name) {
  for (graph::DType dtype : {graph::DType::kF32, graph::DType::kF16, graph::DType::kBF16})
    if (graph::dtype_name(dtype) == name) return dtype;
  return std::nullopt;
}

std::vector<ZooEntry> zoo_models() {
  std::vector<ZooEntry> models;
  for (const Row& row : rows()) models.push_back({row.name, row.description});
  return models;
}

Result<void> check_zoo_size(const std::string& name, std::string_view size) {
  const bool is_size = size == kPrecision ||
                       std::any_of(std::begin(kSizes), std::end(kSizes), [&](const Size& s) { return s.name == size; });
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == name; });
  if (!is_size || row == rows().end() || has_size(*row, size)) return {};
  Strings with;
  for (const Row& other : rows())
    if (has_size(other, size)) with.emplace_back(other.name);
  return make_error(ErrorClass::kUsage, fmt::format("zoo: '{}' has no size '{}'", name, size),
                    fmt::format("leave it out; it belongs to {}", fmt::join(with, ", ")));
}

namespace {

// The options with the network's opset; errors where the network has not what they set.
Result<ZooOptions> checked_options(const Row& row, ZooOptions options) {
  for (const Size& size : kSizes)
    if (options.*size.field != ZooOptions().*size.field) TCC_TRY_VOID(check_zoo_size(row.name, size.name));
  if (options.precision != graph::DType::kF32) TCC_TRY_VOID(check_zoo_size(row.name, kPrecision));
  if (options.sequence < 1 || options.past < 0 || options.past + options.sequence > row.longest) {
    return make_error(ErrorClass::kUsage,
                      fmt::format("zoo: sequence {} is not between 1 and {}", options.sequence,
                                  row.longest - std::max<int64_t>(options.past, 0)),
                      options.past == 0 ? "" : "tokens of the past count, too");
  }
  if (options.opset == 0) options.opset = row.opset;
  if (options.opset < row.opset || options.opset > kNewestOpset) {
    return make_error(ErrorClass::kUsage, fmt::format("zoo: opset {} is not between {} and {}, those of '{}'",
                                                      options.opset, row.opset, kNewestOpset, row.name));
  }
  return options;
}

}  // namespace

Result<std::string> zoo_model(const std::string& name, const ZooOptions& options) {
  if (options.batch < 1 || options.batch > 1024) {
    return make_error(ErrorClass::kUsage, fmt::format("zoo: batch {} is not between 1 and 1024", options.batch));
  }
  if (options.image < 32 || options.image > 1024) {
    return make_error(ErrorClass::kUsage, fmt::format("zoo: image size {} is not between 32 and 1024", options.image));
  }
  if (options.layers < 0 || options.layers > 1000) {
    return make_error(ErrorClass::kUsage, fmt::format("zoo: layers {} is not between 0 and 1000", options.layers));
  }
  if (options.width < 10 || options.width > 400) {
    return make_error(ErrorClass::kUsage, fmt::format("zoo: width {} % is not between 10 and 400", options.width));
  }
  Strings names;
  for (const Row& row : rows()) {
    if (name == row.name) {
      TCC_TRY(const ZooOptions checked, checked_options(row, options));
      std::string bytes = row.make(checked);
      if (bytes.size() <= size_t{std::numeric_limits<int32_t>::max()}) return bytes;
      return input_error("zoo: '{}' with these options has more than 2 GiB, the limit of the format", name);
    }
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
