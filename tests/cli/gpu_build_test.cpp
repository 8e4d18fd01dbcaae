// Libraries for GPUs that are not here, from the command line.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/gpu_library.h"

using namespace cli_test;
using Json = nlohmann::json;

namespace {

struct Built : GpuLibrary {
  Built()
      : GpuLibrary([](const Sandbox&) {},
                   {"tune", "zoo:mlp", "--target", "a100", "--db", "r.db", "--trials", "3", "--tasks", "0,1"},
                   {"build", "zoo:mlp", "--target", "a100,h100", "--db", "r.db", "-o", "out", "--emit", "cu,ptx,cubin",
                    "--allow-jit"}) {}
  static Built& get() {
    static Built built;
    return built;
  }
};

std::vector<std::string> with_driver(std::vector<std::string> words) {
  words.insert(words.end(), {"--cuda-driver", TCC_FAKE_CUDA});
  return words;
}

}  // namespace

TEST_CASE("one library holds code for each GPU that was named, and says where it is from", "[cli]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  // Two kernels are predicted for one of the targets; the others are named.
  CHECK_THAT(built.build.err, Catch::Contains("4 of 6 kernels are not tuned") &&
                                  Catch::Contains("not tuned for h100") &&
                                  Catch::Contains("2 of 6 kernels are chosen by predictions"));
  CHECK_THAT(built.build.out, Catch::Contains(".sm_80.cubin") && Catch::Contains(".sm_90a.ptx"));
  Outcome inspect = built.box.tcc({"inspect", "out/libmlp.so"});
  INFO(inspect.out);
  CHECK(inspect.exit_code == 0);
  CHECK_THAT(inspect.out, Catch::Contains("sm_80 cubin for a100") && Catch::Contains("sm_90a cubin for h100") &&
                              Catch::Contains("sm_80 ptx") && Catch::Contains("predicted") &&
                              Catch::Contains("default") && Catch::Contains("on a device"));
  Outcome json = built.box.tcc({"inspect", "out/libmlp.so", "--json"});
  const Json metadata = Json::parse(json.out);
  CHECK(metadata["tasks"][0]["code"][0]["record"] == "predicted");
  CHECK(metadata["tasks"][0]["code"][0]["predicted_seconds"].get<double>() > 0);
  CHECK(metadata["tasks"][0]["code"][1]["record"] == "default");
}

TEST_CASE("without a driver a library for GPUs says what is missing", "[cli][errors]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  for (std::vector<std::string> words : {std::vector<std::string>{"run", "out/libmlp.so", "--random"},
                                         {"verify", "out/libmlp.so"},
                                         {"bench", "out/libmlp.so"}}) {
    words.insert(words.end(), {"--cuda-driver", "libtcc-absent-driver.so.1"});
    Outcome refused = built.box.tcc(words);
    INFO(words[0]);
    CHECK(refused.exit_code == 1);
    CHECK_THAT(refused.err, Catch::Contains("the CUDA driver library cannot be opened") &&
                                Catch::Contains("libtcc-absent-driver.so.1") && Catch::Contains("NVIDIA"));
  }
}

TEST_CASE("a device that the library is not for, is too small or fails says what to do", "[cli][errors]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
  const std::pair<const char*, std::vector<const char*>> cases[] = {{"arch=75", {"7.5", "sm_80", "build"}},
                                                                    {"memory=20000", {"memory", "smaller batch"}},
                                                                    {"fail=cuLaunchKernel:700", {"700"}},
                                                                    {"devices=0", {"device"}}};
  for (const auto& [setting, parts] : cases) {
    for (const char* command : {"run", "bench"}) {
      std::vector<std::string> words = {"env", std::string("FAKE_CUDA=") + setting, tcc, command, "out/libmlp.so"};
      if (command == std::string("run")) words.emplace_back("--random");
      Outcome refused = built.box.run(with_driver(words));
      CAPTURE(setting, command, refused.err);
      CHECK(refused.exit_code == 1);
      for (const char* part : parts) CHECK_THAT(refused.err, Catch::Contains(part));
    }
  }
}

TEST_CASE("bench times a library on a device, with and without a graph", "[cli]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  Outcome json = built.box.tcc(with_driver({"bench", "out/libmlp.so", "--seconds", "0.05", "--per-kernel", "--json"}));
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const Json report = Json::parse(json.out);
  CHECK(report["device"] == "Fake GPU");
  CHECK(report["code"] == "sm_80");
  CHECK(report["target"] == "a100");
  // The fake's clock: a launch costs a fixed time, three quarters of it in a graph, twice as much after the cache was
  // overwritten.
  const double warm = report["device_warm"]["median"], cold = report["device_cold"]["median"];
  CHECK(cold == Approx(2 * warm).epsilon(0.01));
  CHECK(report["device_warm"]["runs"].get<int64_t>() >= 10);
  CHECK(report["seconds_graph"]["median"].get<double>() > 0);
  const double roofline = report["roofline_seconds"];
  CHECK(roofline > 0);
  CHECK(report["roofline_share"].get<double>() == Approx(roofline / warm));
  double kernels = 0, least = 0;
  for (const Json& k : report["kernels"]) {
    kernels += k["seconds"]["median"].get<double>();
    least += k["roofline_seconds"].get<double>();
  }
  CHECK(report["kernels"].size() == 3);
  CHECK(0.75 * kernels == Approx(warm).epsilon(0.01));
  CHECK(least == Approx(roofline));
  Outcome text = built.box.tcc(with_driver({"bench", "out/libmlp.so", "--seconds", "0.05", "--per-kernel"}));
  CHECK_THAT(text.out, Catch::Contains("device, cold") && Catch::Contains("graph and wait") &&
                           Catch::Contains("of roofline") && Catch::Contains("p99"));
}

TEST_CASE("bench shows what CUPTI says of the kernels and the device", "[cli]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  const auto bench = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench", "out/libmlp.so", "--seconds", "0.05", "--per-kernel"};
    words.insert(words.end(), more.begin(), more.end());
    return built.box.tcc(with_driver(words));
  };
  Outcome json = bench({"--cupti", TCC_FAKE_CUPTI, "--json"});
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const Json report = Json::parse(json.out);
  CHECK(report["kernels_alone"]["median"].get<double>() > 0);
  CHECK(report["kernels_alone"]["median"].get<double>() <= report["device_warm"]["median"].get<double>() * 1.34);
  CHECK(report["counters"]["dram_bytes"].get<double>() >= 3 * 1500);
  CHECK(report["counters"]["tensor_share"] == 0.25);
  double alone = 0;
  for (const Json& k : report["kernels"]) alone += k["seconds_alone"].get<double>() * k["weight"].get<double>();
  CHECK(alone == Approx(report["kernels_alone"]["median"].get<double>()).epsilon(0.01));
  Outcome text = bench({"--cupti", TCC_FAKE_CUPTI});
  CHECK_THAT(text.out, Catch::Contains("kernels alone") && Catch::Contains("counters of a run: ") &&
                           Catch::Contains("tensor cores busy 25%"));
  // Without it everything else is there, and a note says why.
  Outcome without = bench({"--cupti", "/nonexistent/libcupti.so"});
  CHECK(without.exit_code == 0);
  CHECK_THAT(without.out, !Catch::Contains("kernels alone") && Catch::Contains("device, cold"));
  CHECK_THAT(without.err, Catch::Contains("no times and counters by CUPTI"));
}

TEST_CASE("run and verify take the device's results for what they are", "[cli]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  Outcome run = built.box.tcc(with_driver({"run", "out/libmlp.so", "--random"}));
  INFO(run.err);
  CHECK(run.exit_code == 0);
  // The fake executes nothing, and verification says so.
  Outcome verify = built.box.tcc(with_driver({"verify", "out/libmlp.so"}));
  CHECK(verify.exit_code == 1);
  CHECK_THAT(verify.err, Catch::Contains("does not compute what its model says"));
}

#ifdef TCC_FAKE_GPU
TEST_CASE("an emulated device says which kernels it does not execute", "[cli]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  Outcome verify = built.box.tcc({"verify", "out/libmlp.so", "--cuda-driver", TCC_FAKE_GPU});
  INFO(verify.err);
  CHECK(verify.exit_code == 1);
  CHECK_THAT(verify.err, Catch::Contains("is machine code, which is not executed") &&
                             Catch::Contains("FAKE_CUDA=ptx=FOLDER") && Catch::Contains("tcc build --emit ptx"));
}

TEST_CASE("models of single precision built in shorter types are verified on an emulated device", "[emulation]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
  for (const std::string precision : {"tf32", "f16", "bf16"}) {
    INFO(precision);
    Outcome build = built.box.tcc(
        {"build", "zoo:mlp", "--target", "a100", "--precision", precision, "-o", precision, "--emit", "ptx", "-q"});
    INFO(build.err);
    REQUIRE(build.exit_code == 0);
    const std::string library = precision + "/libmlp.so";
    CHECK_THAT(built.box.tcc({"inspect", library}).out, Catch::Contains("--precision " + precision));
    const std::string device = "FAKE_CUDA=arch=80,ptx=" + built.box.str(precision + "/kernels");
    const auto verify = [&](std::vector<std::string> more) {
      more.insert(more.begin(), {"env", device, tcc, "verify", library, "--cuda-driver", TCC_FAKE_GPU});
      return built.box.run(more);
    };
    Outcome passed = verify({"--json"});
    INFO(passed.out << passed.err);
    CHECK(passed.exit_code == 0);
    const Json report = Json::parse(passed.out);
    CHECK(report["precision"] == precision);
    // The error is that against the model as written, in double: more than that of f32, within the type's.
    const double error = report["outputs"][0]["max_error"];
    CHECK(error > 2e-6);
    CHECK(error <= report["tolerance"].get<double>());
    CHECK(verify({"--tolerance", "1e-7"}).exit_code == 1);
  }
}

TEST_CASE("on an emulated device a library computes what its model says", "[emulation]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  // A device so new that none of the cubins is for it: the driver takes the PTX, which this one executes.
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
  Outcome verify =
      built.box.run({"env", "FAKE_CUDA=arch=120", tcc, "verify", "out/libmlp.so", "--cuda-driver", TCC_FAKE_GPU});
  INFO(verify.out << verify.err);
  CHECK(verify.exit_code == 0);
  CHECK_THAT(verify.out, Catch::Contains("self test ok") && Catch::Contains("passed"));
}
#endif

TEST_CASE("targets and options that do not go together are refused", "[cli][errors]") {
  Sandbox box;
  auto refuse = [&](std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), {"build", "zoo:mlp", "-o", "out"});
    Outcome refused = box.tcc(words);
    INFO(refused.err);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Catch::Contains(text));
    CHECK_FALSE(fs::exists(box.path("out")));
  };
  refuse({"--target", "a100,host"}, "a library is for CPUs or for GPUs");
  refuse({"--target", "h100,h200"}, "h100 and h200 are both sm_90a");
  refuse({"--target", "a100,h1000"}, "h100");
  refuse({"--target", "a100", "--emit", "obj"}, "expected a CPU as target, found a GPU");
  refuse({"--emit", "cubin"}, "expected a GPU as target, found a CPU");
  refuse({"--allow-jit"}, "--allow-jit: expected a GPU as target");
}

TEST_CASE("--require-tuned names kernels without a record for any of the targets", "[cli][errors]") {
  Built& built = Built::get();
  if (!built.here) SKIP("no compiler for GPU code");
  Outcome refused =
      built.box.tcc({"build", "zoo:mlp", "--target", "a100", "--db", "r.db", "-o", "strict", "--require-tuned"});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Catch::Contains("1 of 3 kernels are not tuned"));
  CHECK_FALSE(fs::exists(built.box.path("strict")));
}
