// A model of half precision for Hopper from the command line, in a library beside code for an older device, proved on
// emulated devices of both.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/gpu_library.h"
#include "cli/model_bytes.h"

using namespace cli_test;
using Json = nlohmann::json;

namespace {

constexpr uint64_t kHalf = 10;  // TensorProto.FLOAT16

std::string half_tensor(const std::string& name, const std::vector<uint64_t>& shape) {
  std::string dims;
  for (uint64_t n : shape) dims += field(1, number(1, n));
  return field(1, name) + field(2, field(1, number(1, kHalf) + field(2, dims)));
}

// Small multiples of 1/32, none the same as its neighbors.
std::string half_weights(const std::string& name, uint64_t rows, uint64_t columns) {
  constexpr uint16_t kValues[] = {0x2800, 0xac00, 0x0000, 0x2c00, 0xa800, 0x2e00, 0xae00};
  std::string raw;
  uint64_t state = rows + columns;
  for (uint64_t i = 0; i < rows * columns; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint16_t bits = kValues[(state >> 33) % 7];
    raw += static_cast<char>(bits & 255);
    raw += static_cast<char>(bits >> 8);
  }
  return number(1, rows) + number(1, columns) + number(2, kHalf) + field(8, name) + field(9, raw);
}

std::string half_model(const std::vector<std::string>& parts) {
  std::string graph = field(2, "half");
  for (const std::string& part : parts) graph += part;
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

std::string half_node(const std::string& op, const std::vector<std::string>& from, const std::string& to) {
  std::string bytes;
  for (const std::string& name : from) bytes += field(1, name);
  return field(1, bytes + field(2, to) + field(4, op));
}

// y = relu(x * w) * v: 200 x 136 by 136 x 264 by 264 x 72, none of them a multiple of a tile.
std::string half_mlp() {
  return half_model({half_node("MatMul", {"x", "w"}, "h"), half_node("Relu", {"h"}, "r"),
                     half_node("MatMul", {"r", "v"}, "y"), field(5, half_weights("w", 136, 264)),
                     field(5, half_weights("v", 264, 72)), field(11, half_tensor("x", {200, 136})),
                     field(12, half_tensor("y", {200, 72}))});
}

// y = x * w: 136 x 264 by 264 x 136, where other modules make programs that are no slower.
std::string half_product() {
  return half_model({half_node("MatMul", {"x", "w"}, "y"), field(5, half_weights("w", 264, 136)),
                     field(11, half_tensor("x", {136, 264})), field(12, half_tensor("y", {136, 136}))});
}

// Tuned for one target and built for two.
struct HopperLibrary : GpuLibrary {
  HopperLibrary()
      : GpuLibrary([](const Sandbox& box) { spill(box.path("half.onnx"), half_mlp()); },
                   {"tune", "half.onnx", "--target", "h200", "--db", "r.db", "--trials", "6"},
                   {"build", "half.onnx", "--target", "a100,h200", "--db", "r.db", "-o", "out", "--emit", "cu,ptx",
                    "--allow-jit"}) {}
  static HopperLibrary& get() {
    static HopperLibrary built;
    return built;
  }
};

// By tensor copies and warpgroups, which such a small product would not be made by otherwise.
struct ByWarpgroups : GpuLibrary {
  ByWarpgroups()
      : GpuLibrary([](const Sandbox& box) { spill(box.path("product.onnx"), half_product()); },
                   {"tune", "product.onnx", "--target", "h200", "--space", "inline_constants,gpu_wgmma,gpu_inline",
                    "--db", "w.db", "--trials", "2"},
                   {"build", "product.onnx", "--target", "h200", "--db", "w.db", "-o", "out", "--emit", "cu,ptx"}) {}
};

}  // namespace

TEST_CASE("kernels for Hopper are proved without a device, tuned and not", "[cli]") {
  HopperLibrary& built = HopperLibrary::get();
  if (!built.here) SKIP("no compiler for GPU code");
  for (const bool tuned : {true, false}) {
    std::vector<std::string> words = {"verify", "half.onnx", "--target", "h200", "--emulate", "--json"};
    if (tuned) words.insert(words.end(), {"--db", "r.db"});
    Outcome json = built.box.tcc(words);
    INFO(json.out << json.err);
    REQUIRE(json.exit_code == 0);
    const Json report = Json::parse(json.out);
    CHECK(report["failed"] == 0);
    CHECK(report["ok"] == 2);
    for (const Json& task : report["tasks"]) {
      CHECK(task["races"] == 0);
      CHECK(task["schedule"] == (tuned ? "predicted" : "default"));
    }
  }
}

TEST_CASE("explain and show speak of the program that build takes", "[cli]") {
  HopperLibrary& built = HopperLibrary::get();
  if (!built.here) SKIP("no compiler for GPU code");
  const Json metadata = Json::parse(built.box.tcc({"inspect", "out/libhalf.so", "--json"}).out);
  for (const bool tuned : {true, false}) {
    std::vector<std::string> words = {"explain", "half.onnx", "--target", tuned ? "h200" : "a100", "--task", "0"};
    words.insert(words.end(), {"--db", "r.db", "--json"});
    const Json explained = Json::parse(built.box.tcc(words).out);
    CHECK(explained["predicted"] == tuned);
    CHECK(explained["tuned"] == tuned);
    const Json& code = metadata["tasks"][0]["code"][tuned ? 1 : 0];
    if (tuned) CHECK(explained["seconds"].get<double>() == Approx(code["predicted_seconds"].get<double>()));
    words[0] = "show";
    const Json shown = Json::parse(built.box.tcc(words).out);
    CHECK(shown["predicted"] == tuned);
    CHECK_FALSE(shown["trace"].get<std::string>().empty());
  }
  Outcome text = built.box.tcc({"explain", "half.onnx", "--target", "h200", "--task", "0", "--db", "r.db"});
  CHECK_THAT(text.out, Catch::Contains("predicted by an analytical model"));
}

TEST_CASE("a library for two generations says what no device has conformed on", "[cli]") {
  HopperLibrary& built = HopperLibrary::get();
  if (!built.here) SKIP("no compiler for GPU code");
  CHECK_THAT(built.build.err, Catch::Contains("not tuned for a100"));
  const Json metadata = Json::parse(built.box.tcc({"inspect", "out/libhalf.so", "--json"}).out);
  CHECK_THAT(metadata["architectures"].dump(), Catch::Contains("sm_80") && Catch::Contains("sm_90a"));
  const std::string never = metadata["conformance"]["never_conformed"].dump();
  INFO(metadata["conformance"].dump());
  CHECK_THAT(never, Catch::Contains("sm_90a"));
  CHECK_THAT(never, Catch::Contains("tcc_wgmma") || Catch::Contains("tcc_mma_m16n8k16_f32_f16"));
  for (const Json& task : metadata["tasks"]) {
    CHECK(task["code"][0]["record"] == "default");
    CHECK(task["code"][1]["record"] == "predicted");
  }
  CHECK_THAT(built.box.tcc({"inspect", "out/libhalf.so"}).out, Catch::Contains("sm_90a cubin for h200"));
}

#ifdef TCC_FAKE_GPU
TEST_CASE("a compiler for GPUs works where it takes the emulated device for the system's driver", "[cli]") {
  HopperLibrary& built = HopperLibrary::get();
  if (!built.here) SKIP("no compiler for GPU code");
  // NVRTC asks the driver for its tables while it looks for the folder of its cache, which is in the home.
  const std::string folder = fs::path(TCC_FAKE_GPU).parent_path().string();
  Outcome build = built.box.run({"env", "LD_LIBRARY_PATH=" + folder, "HOME=" + built.box.str("home"),
                                 std::string(TCC_BINARY_DIR) + "/tools/tcc", "build", "half.onnx", "--target", "h200",
                                 "--db", "r.db", "-o", "beside"});
  INFO(build.err);
  CHECK(build.exit_code == 0);
}

TEST_CASE("on emulated devices of both generations a library computes what its model says", "[emulation]") {
  HopperLibrary& built = HopperLibrary::get();
  if (!built.here) SKIP("no compiler for GPU code");
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
  for (const char* architecture : {"arch=80", "arch=90"}) {
    // The texts that were written beside the library say what its cubins do.
    const std::string device = std::string("FAKE_CUDA=") + architecture + ",ptx=" + built.box.str("out/kernels");
    Outcome verify = built.box.run(
        {"env", device, tcc, "verify", "out/libhalf.so", "--cuda-driver", TCC_FAKE_GPU, "--tolerance", "0.01"});
    INFO(architecture << verify.out << verify.err);
    CHECK(verify.exit_code == 0);
    CHECK_THAT(verify.out, Catch::Contains("self test ok") && Catch::Contains("passed"));
  }
}

TEST_CASE("a library whose kernels take tensor maps computes what its model says", "[emulation]") {
  ByWarpgroups built;
  if (!built.here) SKIP("no compiler for GPU code");
  const Json metadata = Json::parse(built.box.tcc({"inspect", "out/libproduct.so", "--json"}).out);
  CHECK_THAT(metadata["conformance"]["never_conformed"].dump(),
             Catch::Contains("tcc_wgmma") && Catch::Contains("tcc_tma_load"));
  Outcome verify = built.box.run({"env", "FAKE_CUDA=arch=90,ptx=" + built.box.str("out/kernels"),
                                  std::string(TCC_BINARY_DIR) + "/tools/tcc", "verify", "out/libproduct.so",
                                  "--cuda-driver", TCC_FAKE_GPU, "--tolerance", "0.01"});
  INFO(verify.out << verify.err);
  CHECK(verify.exit_code == 0);
  CHECK_THAT(verify.out, Catch::Contains("self test ok") && Catch::Contains("passed"));
}
#endif
