// Tuning for a GPU: one that is not here, and one that a fake driver makes believe is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/runner.h"
#include "skip.h"

using namespace cli_test;

TEST_CASE("a search on a simulated GPU is repeated exactly, and nothing is built from it", "[cli]") {
  Sandbox box;
  std::string texts[2];
  for (std::string& text : texts) {
    const std::string db = &text == texts ? "a.db" : "b.db";
    Outcome tune = box.tcc({"tune", "zoo:mlp", "--target", "a100", "--simulate", "7", "--db", db, "--trials", "40"});
    INFO(tune.out << tune.err);
    REQUIRE(tune.exit_code == 0);
    CHECK_THAT(tune.err, Catch::Contains("simulated a100 (seed 7)") && Catch::Contains("tcc builds nothing"));
    Outcome exported = box.tcc({"db", "export", "--db", db, "-o", db + ".txt"});
    REQUIRE(exported.exit_code == 0);
    std::istringstream lines(slurp(box.path(db + ".txt")));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_object() || !json.contains("kind")) continue;
      CHECK(json["kind"] == "simulated");
      text += json["trace"].dump() + json["samples"].dump() + "\n";
    }
    CHECK(std::count(text.begin(), text.end(), '\n') == 40);
  }
  CHECK(texts[0] == texts[1]);
  // Neither a build for the device nor one for the simulated GPU takes a record of these.
  Outcome show = box.tcc({"show", "zoo:mlp", "--target", "a100", "--db", "a.db", "--json"});
  INFO(show.out << show.err);
  REQUIRE(show.exit_code == 0);
  for (const auto& task : nlohmann::json::parse(show.out)["tasks"]) CHECK(task["records"] == 0);
  spill(box.path("simulated.json"), R"({"base": "a100", "name": "mine", "cuda": {"simulated": 7}})");
  Outcome build = box.tcc({"build", "zoo:mlp", "--target-file", "simulated.json", "--db", "a.db", "-o", "out"});
  CHECK(build.exit_code == 2);
  CHECK_THAT(build.err, Catch::Contains("expected a device, found a simulated GPU (seed 7)"));
  Outcome cpu = box.tcc({"tune", "zoo:mlp", "--target", "x86-64-v3", "--simulate", "1"});
  CHECK(cpu.exit_code == 2);
  CHECK_THAT(cpu.err, Catch::Contains("expected a GPU as target, found 'x86-64-v3'"));
}

TEST_CASE("a model is tuned for a GPU by predictions", "[cli]") {
  Sandbox box;
  Outcome tune = box.tcc({"tune", "zoo:mlp", "--target", "a100", "--db", "records.db", "--trials", "3"});
  INFO(tune.out << tune.err);
  if (tune.exit_code != 0) {  // the one thing that it needs
    CHECK_THAT(tune.err, Catch::Contains("NVRTC"));
    return;
  }
  CHECK_THAT(tune.out + tune.err, Catch::Contains("are predicted") && Catch::Contains("none was run or checked"));
  CHECK_THAT(tune.out + tune.err, Catch::Contains("3 compiled for a100"));
  CHECK_THAT(tune.out, Catch::Contains("with the schedules that are taken without tuning") &&
                           Catch::Contains("(predicted: both are sums of the kernels' times by the analytical model of "
                                           "a100, and no device ran them)"));
  Outcome stats = box.tcc({"db", "export", "--db", "records.db", "-o", "records.txt"});
  INFO(stats.out << stats.err);
  REQUIRE(stats.exit_code == 0);
  CHECK_THAT(slurp(box.path("records.txt")), Catch::Contains("predicted") && Catch::Contains("sm_80"));
  // What CUPTI said of a program is shown with it.
  std::string counted = slurp(box.path("records.txt"));
  const auto set = [&](const std::string& field, const std::string& from, const std::string& to) {
    const std::string before = '"' + field + "\":" + from;
    REQUIRE(counted.find(before) != std::string::npos);
    for (size_t at = 0; (at = counted.find(before, at)) != std::string::npos; at += 1)
      counted.replace(at, before.size(), '"' + field + "\":" + to);
  };
  set("kind", "\"predicted\"", "\"measured\"");
  set("dram_bytes", "-1.0", "1048576.0");
  set("occupancy", "-1.0", "0.5");
  spill(box.path("counted.txt"), counted);
  Outcome imported = box.tcc({"db", "import", "counted.txt", "--db", "counted.db"});
  INFO(imported.out << imported.err);
  REQUIRE(imported.exit_code == 0);
  Outcome explained = box.tcc({"explain", "zoo:mlp", "--task", "0", "--target", "a100", "--db", "counted.db"});
  INFO(explained.out << explained.err);
  CHECK_THAT(explained.out, Catch::Contains("counters of a run: 1 MiB of device memory") &&
                                Catch::Contains("occupancy 50%") && !Catch::Contains("tensor cores busy"));
}

TEST_CASE("targets that the compiler here does not know: predictions and source text, but no library", "[cli]") {
  Sandbox box;
  struct Old {
    const char *name, *architecture, *toolkit;
  };
  for (const Old& old : {Old{"k80", "sm_37", "CUDA Toolkit 11.8 or older compiles it"},
                         Old{"v100", "sm_70", "CUDA Toolkit 12.9 or older compiles it"},
                         Old{"titan-v", "sm_70", "CUDA Toolkit 12.9 or older compiles it"}}) {
    CAPTURE(old.name);
    const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "--target", old.name});
    INFO(built.out << built.err);
    if (built.exit_code == 0) continue;  // an older toolkit, which knows it
    CHECK(built.exit_code == 1);
    CHECK_FALSE(std::filesystem::exists(box.path("out")));
    if (built.err.find(old.architecture) == std::string::npos) {
      CHECK_THAT(built.err, Catch::Contains("NVRTC is not available"));
      return;
    }
    CHECK_THAT(built.err, Catch::Contains(old.toolkit) && Catch::Contains("--source") &&
                              Catch::Contains(std::string("`tcc tune --target ") + old.name + "` predicts"));
    const Outcome tuned = box.tcc({"tune", "zoo:mlp", "--target", old.name, "--db", "records.db", "--trials", "3"});
    INFO(tuned.out << tuned.err);
    CHECK(tuned.exit_code == 0);
    CHECK_THAT(tuned.out, Catch::Contains("3 printed for ") && Catch::Contains("none run or checked"));
    CHECK_THAT(tuned.err, Catch::Contains(old.toolkit) && Catch::Contains("not compiled"));
    const Outcome source =
        box.tcc({"show", "zoo:mlp", "--target", old.name, "--db", "records.db", "--task", "0", "--source"});
    INFO(source.err);
    CHECK(source.exit_code == 0);
    CHECK_THAT(source.out, Catch::Contains("__global__") && Catch::Contains("tcc_k0_0"));
  }
  const Outcome cpu = box.tcc({"show", "zoo:mlp", "--task", "0", "--source"});
  CHECK(cpu.exit_code == 2);
  CHECK_THAT(cpu.err, Catch::Contains("expected a GPU"));
}

#ifdef TCC_FAKE_GPU
TEST_CASE("a model is tuned on the GPU of this machine, which here is an emulated one", "[cli]") {
  Sandbox box;
  const std::vector<std::string> tune = {"tune",          "zoo:mlp",    "--db",    "records.db",
                                         "--cuda-driver", TCC_FAKE_GPU, "--target"};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = tune;
    words.insert(words.end(), more.begin(), more.end());
    return box.tcc(words);
  };
  const Outcome here = with({"cuda", "--trials", "3"});
  INFO(here.out << here.err);
  if (here.exit_code != 0) {
    CHECK_THAT(here.err, Catch::Contains("NVRTC"));
    return;
  }
  CHECK_THAT(here.out + here.err,
             Catch::Contains("measured on Fake GPU") && Catch::Contains("analytical model's best"));
  CHECK_THAT(here.out, Catch::Contains("3 of ") && Catch::Contains("candidates measured"));
  const Outcome stats = box.tcc({"db", "export", "--db", "records.db", "-o", "records.txt"});
  REQUIRE(stats.exit_code == 0);
  const std::string records = slurp(box.path("records.txt"));
  CHECK_THAT(records, Catch::Contains("measured") && Catch::Contains("cold") && Catch::Contains("predicted"));
  CHECK_THAT(here.out, Catch::Matches("[^]*latency: [^]*99% interval[^]*of the built library on [^]*"));
  // By its own name the device is the same; what was ranked before is not ranked again.
  const Outcome named = with({"a100", "--trials", "3"});
  INFO(named.out << named.err);
  CHECK(named.exit_code == 0);
  CHECK_THAT(named.out + named.err,
             Catch::Contains("measured on Fake GPU") && !Catch::Contains("analytical model's best"));
  // Two libraries for it are compared by the device's own times.
  for (const char* folder : {"one", "two"})
    REQUIRE(box.tcc({"build", "zoo:mlp", "--db", "records.db", "--cuda-driver", TCC_FAKE_GPU, "--target", "cuda", "-o",
                     folder, "-q"})
                .exit_code == 0);
  const Outcome pair =
      box.tcc({"bench", "one/libmlp.so", "two/libmlp.so", "--cuda-driver", TCC_FAKE_GPU, "--seconds", "0.1", "--json"});
  INFO(pair.out << pair.err);
  CHECK(pair.exit_code == 0);
  CHECK(nlohmann::json::parse(pair.out)["median_a"] > 0);
  REQUIRE(box.tcc({"build", "zoo:mlp", "-o", "cpu", "-q"}).exit_code == 0);
  const Outcome mixed = box.tcc({"bench", "one/libmlp.so", "cpu/libmlp.so", "--cuda-driver", TCC_FAKE_GPU});
  CHECK(mixed.exit_code == 2);
  CHECK_THAT(mixed.err, Catch::Contains("only 'one/libmlp.so' is for GPUs"));
  // Another device is not here.
  const Outcome other = with({"h100", "--trials", "3"});
  INFO(other.out << other.err);
  CHECK(other.exit_code == 0);
  CHECK_THAT(other.out + other.err, Catch::Contains("nothing is measured: the GPU here, Fake GPU, is sm_80") &&
                                        Catch::Contains("none was run or checked"));
  const Outcome described = box.tcc({"targets", "cuda:7"});
  CHECK(described.exit_code == 1);
  CHECK_THAT(described.err, Catch::Contains("--target cuda:7") || Catch::Contains("cuda:7"));
}

TEST_CASE("a device that the compiler here does not know is refused before anything is measured", "[cli]") {
  Sandbox box;
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
  const Outcome refused = box.run({"env", "FAKE_CUDA=arch=70", tcc, "tune", "zoo:mlp", "--db", "records.db", "--target",
                                   "cuda", "--cuda-driver", TCC_FAKE_GPU, "--trials", "3"});
  INFO(refused.out << refused.err);
  CHECK(refused.exit_code == 1);
  CHECK(refused.out.empty());
  if (refused.err.find("sm_70") == std::string::npos) {
    CHECK_THAT(refused.err, Catch::Contains("NVRTC"));
    return;
  }
  CHECK_THAT(refused.err, Catch::Contains("does not compile sm_70") && Catch::Contains("CUDA Toolkit 12.9 or older"));
  CHECK(refused.err.find("sm_70") == refused.err.rfind("sm_70"));
  const Outcome built = box.run({"env", "FAKE_CUDA=arch=70", tcc, "build", "zoo:mlp", "-o", "out", "--target", "cuda",
                                 "--cuda-driver", TCC_FAKE_GPU});
  INFO(built.err);
  CHECK(built.exit_code == 1);
  CHECK_THAT(built.err, Catch::Contains("CUDA Toolkit 12.9 or older") && Catch::Contains("--source") &&
                            !Catch::Contains("predicts"));
  const Outcome records = box.tcc({"db", "export", "--db", "records.db", "-o", "records.txt"});
  CHECK((records.exit_code != 0 || slurp(box.path("records.txt")).find("sm_70") == std::string::npos));
}

TEST_CASE("the analytical model's numbers are fitted to the GPU of this machine, and kept", "[cli]") {
  Sandbox box;
  auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"env", "XDG_CACHE_HOME=" + box.str("cache"), std::string(TCC_BINARY_DIR) + "/tools/tcc"});
    return box.run(words);
  };
  const Outcome found = run({"targets", "cuda", "--calibrate", "--cuda-driver", TCC_FAKE_GPU, "--json"});
  INFO(found.out << found.err);
  if (found.exit_code != 0) {
    CHECK_THAT(found.err, Catch::Contains("NVRTC"));
    return;
  }
  CHECK_THAT(found.out, Catch::Contains("Fake GPU") && Catch::Contains("copy_share") &&
                            Catch::Contains("memory_latency_ns") && Catch::Contains("l1_bytes_per_cycle") &&
                            Catch::Contains("barrier_cycles") && Catch::Contains("launch_seconds") &&
                            Catch::Contains("l2_bytes_per_cycle") && Catch::Contains("l1_latency_cycles") &&
                            Catch::Contains("shared_latency_cycles") && Catch::Contains("special_per_cycle") &&
                            Catch::Contains("arithmetic_latency_cycles") && Catch::Contains("cache/tcc/gpu-"));
  auto number = [](const std::string& text, const std::string& name) {
    const size_t at = text.find('"' + name + "\":");
    REQUIRE(at != std::string::npos);
    return std::stod(text.substr(at + name.size() + 3));
  };
  // Later calls take them.
  const Outcome later = run({"targets", "cuda", "--cuda-driver", TCC_FAKE_GPU, "--json"});
  INFO(later.out << later.err);
  REQUIRE(later.exit_code == 0);
  for (const char* name : {"copy_share", "memory_latency_ns", "launch_seconds"})
    CHECK(number(later.out, name) == Approx(number(found.out, name)));
  CHECK(number(later.out, "memory_latency_ns") != Approx(500));
  CHECK_THAT(later.out, Catch::Contains("\"calibrated\": true"));
  const Outcome shown = run({"targets", "cuda", "--cuda-driver", TCC_FAKE_GPU});
  CHECK_THAT(shown.out, Catch::Contains("fitted to this device"));
  // So do the commands that choose programs; without the folder they have the nominal numbers.
  const std::vector<std::vector<std::string>> commands = {
      {"explain", "zoo:mlp", "--task", "0", "--target", "cuda", "--cuda-driver", TCC_FAKE_GPU, "--json"},
      {"build", "zoo:mlp", "-o", box.str("lib"), "--target", "cuda", "--cuda-driver", TCC_FAKE_GPU, "--json", "-q"},
      {"tune", "zoo:mlp", "--db", box.str("records.db"), "--trials", "1", "--target", "cuda", "--cuda-driver",
       TCC_FAKE_GPU, "--json", "-q"}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome fitted = run(command);
    INFO(command[0] << fitted.out << fitted.err);
    CHECK(fitted.exit_code == 0);
    CHECK_THAT(fitted.out, Catch::Matches("[^]*\"calibrated\": ?true[^]*"));
  }
  std::vector<std::string> elsewhere = commands[0];
  elsewhere.insert(elsewhere.begin(),
                   {"env", "XDG_CACHE_HOME=" + box.str("other"), std::string(TCC_BINARY_DIR) + "/tools/tcc"});
  const Outcome nominal = box.run(elsewhere);
  INFO(nominal.out << nominal.err);
  CHECK_THAT(nominal.out, Catch::Matches("[^]*\"calibrated\": ?false[^]*"));
}
#endif

TEST_CASE("calibration says once what it needs", "[cli]") {
  Sandbox box;
  const Outcome absent = box.tcc({"targets", "--calibrate", "--cuda-driver", "/nonexistent/libcuda.so"});
  CHECK(absent.exit_code == 1);
  CHECK_THAT(absent.err, Catch::Contains("install the NVIDIA driver") || Catch::Contains("NVRTC") ||
                             Catch::Contains("with an NVIDIA GPU"));
  const Outcome named = box.tcc({"targets", "a100", "--calibrate"});
  CHECK(named.exit_code == 2);
  CHECK_THAT(named.err, Catch::Contains("not a100") && Catch::Contains("tcc targets cuda --calibrate"));
}

#ifdef TCC_FAKE_GPU
TEST_CASE("without a compiler for GPUs nothing begins, and one message says why", "[cli][errors]") {
  Sandbox box;
  // A library of that name without NVRTC's functions comes before the installed one.
  std::filesystem::create_directory(box.path("first"));
  std::filesystem::copy_file(TCC_FAKE_GPU, box.path("first/libnvrtc.so.13"));
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
  const std::vector<std::vector<std::string>> commands = {
      {"tune", "zoo:mlp", "--target", "a100", "--db", "records.db", "--trials", "3"},
      {"tune", "zoo:mlp", "--target", "cuda", "--cuda-driver", TCC_FAKE_GPU, "--db", "records.db", "--trials", "3"},
      {"build", "zoo:mlp", "--target", "a100", "-o", "out"},
      {"verify", "zoo:mlp", "--target", "a100", "--emulate"},
      {"targets", "cuda", "--cuda-driver", TCC_FAKE_GPU, "--calibrate"},
  };
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> words = {"env", "LD_LIBRARY_PATH=" + box.str("first"), tcc};
    words.insert(words.end(), command.begin(), command.end());
    const Outcome outcome = box.run(words);
    INFO(command[0] << ": " << outcome.out << outcome.err);
    CHECK(outcome.exit_code == 1);
    const std::string why = "it is not NVRTC";
    const size_t at = outcome.err.find(why);
    if (at == std::string::npos && outcome.err.find("not part of this build") != std::string::npos) return;
    REQUIRE(at != std::string::npos);
    CHECK(outcome.err.find(why, at + 1) == std::string::npos);
    CHECK_FALSE(std::filesystem::exists(box.path("out")));
    CHECK(outcome.err.find("measured") == std::string::npos);
  }
}

TEST_CASE("a device that is lost while tuning leaves what was measured, and the same command goes on", "[cli]") {
  Sandbox box;
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc", gone = box.str("gone");
  const std::vector<std::string> tune = {tcc,    "tune",          "zoo:mlp",    "--db",     "records.db", "--target",
                                         "cuda", "--cuda-driver", TCC_FAKE_GPU, "--trials", "9"};
  // The driver fails within the first few programs, and stays away.
  std::vector<std::string> failing = {"env", "FAKE_CUDA=fail=cuLaunchKernel:719:20,gone=" + gone};
  failing.insert(failing.end(), tune.begin(), tune.end());
  const Outcome lost = box.run(failing);
  INFO(lost.out << lost.err);
  if (lost.err.find("NVRTC") != std::string::npos && lost.err.find("lost") == std::string::npos) SKIP("no NVRTC");
  CHECK(lost.exit_code == 1);
  CHECK_THAT(lost.err,
             Catch::Contains("the device was lost while tuning") && Catch::Contains("the same command again"));
  // Where the device is still away nothing begins.
  std::vector<std::string> away = {"env", "FAKE_CUDA=gone=" + gone};
  away.insert(away.end(), tune.begin(), tune.end());
  const Outcome refused = box.run(away);
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Catch::Contains("nvidia-smi"));
  const Outcome again = box.run(tune);
  INFO(again.out << again.err);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out + again.err, Catch::Contains("going on with an interrupted run"));
}
#endif
