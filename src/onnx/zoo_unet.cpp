// A small U-Net that removes noise from an image of features, as diffusion models use it: Ho et al., Denoising
// Diffusion Probabilistic Models, 2020; Rombach et al., High-Resolution Image Synthesis with Latent Diffusion Models,
// 2022. The operators are those of PyTorch's exporter: GroupNorm through InstanceNormalization, SiLU as Sigmoid and
// Mul.
#include <fmt/format.h>

#include "zoo_builder.h"

namespace tcc::onnx {
namespace {

constexpr int64_t kLatent = 4, kGroups = 32, kTime = 256, kHeads = 4;

class UnetBuilder {
 public:
  explicit UnetBuilder(const ZooOptions& options)
      : b_("unet-diffusion", options, 8'000'000),
        w_(b_.writer()),
        batch_(options.batch),
        size_(std::max<int64_t>(options.image / 16 * 2, 4)) {}

  std::string make() {
    w_.input("sample", {batch_, kLatent, size_, size_});
    w_.input("timestep", {batch_});
    make_constants();
    time_ = embed_time();
    std::string x = conv("conv_in", "sample", kLatent, 64, 3);
    const std::string wide = residual("down.0", x, 64, 64);
    x = b_.conv("down.0.downsample", wide, 64, 64, 3, 2);
    const std::string narrow = attention("down.1.attention", residual("down.1", x, 64, 128), 128, size_ / 2);
    x = residual("mid.0", narrow, 128, 128);
    x = attention("mid.attention", x, 128, size_ / 2);
    x = residual("mid.1", x, 128, 128);
    x = residual("up.0", w_.node("Concat", {x, narrow}, {"up.0.concat"}, {{"axis", int64_t{1}}}), 256, 128);
    x = w_.node("Resize", {x, "", "twice"}, {"up.0.resize"},
                {{"mode", std::string("nearest")},
                 {"coordinate_transformation_mode", std::string("asymmetric")},
                 {"nearest_mode", std::string("floor")}});
    x = conv("up.0.upsample", x, 128, 128, 3);
    x = residual("up.1", w_.node("Concat", {x, wide}, {"up.1.concat"}, {{"axis", int64_t{1}}}), 192, 64);
    x = silu("norm_out.silu", group_norm("norm_out", x, 64, size_));
    conv("conv_out", x, 64, kLatent, 3, "noise");
    w_.output("noise", {batch_, kLatent, size_, size_});
    return w_.finish();
  }

 private:
  void make_constants() {
    w_.initializer("groups", {{3}, Ints{0, kGroups, -1}});
    w_.initializer("ones", {{kGroups}, std::vector<float>(kGroups, 1)});
    w_.initializer("zeros", {{kGroups}, std::vector<float>(kGroups, 0)});
    w_.typed_initializer("twice", graph::DType::kF32, {4}, {1, 1, 2, 2});  // Resize reads f32 only
    w_.initializer("column", {{2}, Ints{-1, 1}});
    w_.initializer("pixel", {{4}, Ints{0, -1, 1, 1}});
    std::vector<float> frequencies;
    for (int64_t i = 0; i < kTime / 4; ++i)
      frequencies.push_back(static_cast<float>(std::exp(-std::log(1000.0) * static_cast<double>(i) / (kTime / 4.0))));
    w_.initializer("frequencies", {{1, kTime / 4}, frequencies});
  }

  std::string silu(const std::string& name, const std::string& x) {
    return w_.node("Mul", {x, w_.node("Sigmoid", {x}, {name + "/Sigmoid"})}, {name});
  }

  // Sines and cosines of the step at many frequencies, through two layers.
  std::string embed_time() {
    std::string t = w_.node("Mul", {w_.node("Reshape", {"timestep", "column"}, {"time"}), "frequencies"}, {"angles"});
    t = w_.node("Concat", {w_.node("Sin", {t}, {"sines"}), w_.node("Cos", {t}, {"cosines"})}, {"waves"},
                {{"axis", int64_t{1}}});
    t = silu("time.silu", b_.linear("time.0", t, kTime / 2, kTime));
    return silu("time.out", b_.linear("time.1", t, kTime, kTime));
  }

  std::string conv(const std::string& name, const std::string& x, int64_t in, int64_t out, int64_t kernel,
                   const std::string& output = "") {
    const int64_t pad = kernel / 2;
    std::string weight = b_.normal(name + ".weight", {out, in, kernel, kernel},
                                   std::sqrt(1.0 / static_cast<double>(in * kernel * kernel)));
    return w_.node("Conv", {x, weight, b_.normal(name + ".bias", {out}, 0.05)},
                   {output.empty() ? name + ".output" : output},
                   {{"kernel_shape", Ints{kernel, kernel}}, {"pads", Ints{pad, pad, pad, pad}}});
  }

  std::string group_norm(const std::string& name, const std::string& x, int64_t channels, int64_t size) {
    std::string y = w_.node("Reshape", {x, "groups"}, {name + "/Reshape"});
    y = w_.node("InstanceNormalization", {y, "ones", "zeros"}, {name + "/Norm"}, {{"epsilon", 1e-5f}});
    const std::string shape = w_.initializer(name + ".shape", {{4}, Ints{0, channels, size, size}});
    y = w_.node("Reshape", {y, shape}, {name + "/Back"});
    std::string scale = b_.uniform(name + ".weight", {channels, 1, 1}, 0.8, 1.2);
    std::string bias = b_.normal(name + ".bias", {channels, 1, 1}, 0.1);
    return w_.node("Add", {w_.node("Mul", {y, scale}, {name + "/Mul"}), bias}, {name + "/Add"});
  }

  // Two convolutions, the time between them, and the input itself or a projection of it.
  std::string residual(const std::string& name, const std::string& x, int64_t in, int64_t out) {
    const int64_t size = name.starts_with("down.0") || name == "up.1" ? size_ : size_ / 2;
    std::string y = silu(name + ".silu1", group_norm(name + ".norm1", x, in, size));
    y = conv(name + ".conv1", y, in, out, 3);
    std::string t =
        w_.node("Reshape", {b_.linear(name + ".time", time_, kTime, out), "pixel"}, {name + ".time/Reshape"});
    y = w_.node("Add", {y, t}, {name + ".timed"});
    y = silu(name + ".silu2", group_norm(name + ".norm2", y, out, size));
    y = conv(name + ".conv2", y, out, out, 3);
    const std::string skip = in == out ? x : conv(name + ".shortcut", x, in, out, 1);
    return w_.node("Add", {skip, y}, {name + ".output"});
  }

  std::string attention(const std::string& name, const std::string& x, int64_t channels, int64_t size) {
    const int64_t pixels = size * size, each = channels / kHeads;
    const std::string rows = w_.initializer(name + ".rows", {{3}, Ints{0, channels, pixels}}),
                      split = w_.initializer(name + ".split", {{4}, Ints{0, pixels, kHeads, each}}),
                      joined = w_.initializer(name + ".joined", {{3}, Ints{0, pixels, channels}}),
                      image = w_.initializer(name + ".image", {{4}, Ints{0, channels, size, size}});
    const std::string scale =
        w_.initializer(name + ".scale", {{}, std::vector<float>{1 / std::sqrt(static_cast<float>(each))}});
    auto transposed = [&](const std::string& y, const std::string& output, const Ints& perm) {
      return w_.node("Transpose", {y}, {output}, {{"perm", perm}});
    };
    std::string flat = w_.node("Reshape", {group_norm(name + ".norm", x, channels, size), rows}, {name + "/Flat"});
    flat = transposed(flat, name + "/Pixels", {0, 2, 1});
    auto dense = [&](const std::string& part, const std::string& y) {
      std::string weight =
          b_.normal(name + part + ".weight", {channels, channels}, std::sqrt(1.0 / static_cast<double>(channels)));
      return w_.node("MatMul", {y, weight}, {name + part});
    };
    auto heads = [&](const std::string& part, const Ints& perm) {
      std::string y = w_.node("Reshape", {dense(part, flat), split}, {name + part + "/Reshape"});
      return transposed(y, name + part + "/Heads", perm);
    };
    std::string query = heads(".q", {0, 2, 1, 3}), key = heads(".k", {0, 2, 3, 1}), value = heads(".v", {0, 2, 1, 3});
    std::string scores =
        w_.node("Mul", {w_.node("MatMul", {query, key}, {name + ".scores"}), scale}, {name + ".scaled"});
    std::string weights = w_.node("Softmax", {scores}, {name + ".weights"}, {{"axis", int64_t{-1}}});
    std::string y =
        transposed(w_.node("MatMul", {weights, value}, {name + ".context"}), name + ".context/Rows", {0, 2, 1, 3});
    y = dense(".out", w_.node("Reshape", {y, joined}, {name + ".context/Joined"}));
    y = w_.node("Add", {y, b_.normal(name + ".out.bias", {channels}, 0.05)}, {name + ".out/Add"});
    y = w_.node("Reshape", {transposed(y, name + "/Channels", {0, 2, 1}), image}, {name + "/Image"});
    return w_.node("Add", {x, y}, {name + ".output"});
  }

  NetworkBuilder b_;
  ModelWriter& w_;
  int64_t batch_, size_;
  std::string time_;
};

}  // namespace

std::string make_diffusion_unet(const ZooOptions& options) {
  return UnetBuilder(options).make();
}

}  // namespace tcc::onnx
