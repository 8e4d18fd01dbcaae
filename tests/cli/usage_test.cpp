// Help, misspelt words, unusable files: one clear message, the documented exit code, no crash.
#include "model_bytes.h"
#include "runner.h"
#include "tcc/support/rng.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

const std::vector<std::string> kCommands = {"tune",    "build",   "run",        "verify", "bench", "show",
                                            "explain", "inspect", "targets",    "doctor", "db",    "fleet",
                                            "ops",     "zoo",     "completion", "man"};

}  // namespace

TEST_CASE("help lists every command and each command's help has an example", "[cli]") {
  Sandbox box;
  Outcome help = box.tcc({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  for (const std::string& command : kCommands) {
    CAPTURE(command);
    CHECK_THAT(help.out, Contains("\n  " + command));
    Outcome own = box.tcc({command, "--help"});
    CHECK(own.exit_code == 0);
    CHECK_THAT(own.out, Contains("Examples:\n  tcc " + command));
  }
  Outcome version = box.tcc({"--version"});
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, Contains("tcc 0."));
}

TEST_CASE("a misspelt command, target, strategy or option is a usage error that names the nearest", "[cli]") {
  Sandbox box;
  check_error(box.tcc({}), 2, "no command");
  check_error(box.tcc({"tnue", "zoo:mlp"}), 2, "did you mean 'tune'");
  check_error(box.tcc({"qqqqqqqq"}), 2, "--help");
  check_error(box.tcc({"tune", "zoo:mlp", "--target", "hsot"}), 2, "did you mean 'host'");
  check_error(box.tcc({"targets", "a10"}), 2, "a100");
  check_error(box.tcc({"tune", "zoo:mlp", "--strategy", "evolutionery"}), 2, "evolutionary");
  check_error(box.tcc({"tune", "zoo:mlp", "--space", "auto_inline,row_tilin"}), 2, "row_tiling");
  check_error(box.tcc({"tune", "zoo:mlp", "--space", "qqqqqqqq", "--target", "a100"}), 2, "gpu_tensor_core");
  check_error(box.tcc({"tune"}), 2, "MODEL");
  const Outcome misspelt = box.tcc({"tune", "zoo:mlp", "--trails=3"});
  check_error(misspelt, 2, "--trails");
  CHECK_THAT(misspelt.err, Contains("did you mean '--trials'"));
  for (const char* trials : {"-3", "0", "many"}) {
    CAPTURE(trials);
    const Outcome outcome = box.tcc({"tune", "zoo:mlp", "--trials", trials});
    check_error(outcome, 2, "--trials");
    CHECK_THAT(outcome.err, Contains("above 0, not '" + std::string(trials) + "'"));
  }
  check_error(box.tcc({"build", "zoo:mlp"}), 2, "--output");
  check_error(box.tcc({"zoo", "mlp"}), 2, "-o");
  check_error(box.tcc({"show", "zoo:mlp", "--task", "99"}), 2, "task '99'");
  for (const char* time : {"soon", "10x", "-5", "0", "5m3q", "", "1e400"}) {
    CAPTURE(time);
    check_error(box.tcc({"tune", "zoo:mlp", "--time", time}), 2, "--time");
  }
  for (const char* shape : {"x", "=1x2", "input=", "input=1xx2", "input=1x", "input=ax2"}) {
    CAPTURE(shape);
    const bool empty = std::string(shape) == "input=";  // a scalar: well formed, but not this model's
    check_error(box.tcc({"inspect", "zoo:mlp", "--shape", shape}), empty ? 1 : 2, empty ? "input" : "--shape");
  }
}

TEST_CASE("files that are not models", "[cli]") {
  Sandbox box;
  REQUIRE(box.tcc({"zoo", "mlp", "-o", "good.onnx"}).exit_code == 0);
  const std::string good = slurp(box.path("good.onnx"));
  REQUIRE(good.size() > 1000);
  CHECK(box.tcc({"inspect", "good.onnx"}).exit_code == 0);

  spill(box.path("empty.onnx"), "");
  spill(box.path("text.onnx"), "this is a letter to a friend, not a network\n");
  spill(box.path("page.onnx"), "<html><body>404</body></html>");
  spill(box.path("head.onnx"), good.substr(0, 20));
  spill(box.path("half.onnx"), good.substr(0, good.size() / 2));
  spill(box.path("tail.onnx"), good.substr(0, good.size() - 1));
  tcc::Rng rng(7);
  for (int i = 0; i < 8; ++i) {
    std::string noise;
    for (int64_t n = rng.below(5000) + 1; n > 0; --n) noise += static_cast<char>(rng.next());
    spill(box.path("noise" + std::to_string(i) + ".onnx"), noise);
  }
  fs::create_directory(box.path("folder.onnx"));
  for (const auto& entry : fs::directory_iterator(box.path())) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".onnx") || name == "good.onnx") continue;
    CAPTURE(name);
    check_error(box.tcc({"inspect", name}), 1, name);
  }
  for (const std::string command : {"tune", "verify", "bench", "show", "inspect"}) {
    CAPTURE(command);
    check_error(box.tcc({command, "no-such-file.onnx"}), 1, "no-such-file.onnx");
  }
  check_error(box.tcc({"build", "no-such-file.onnx", "-o", "out"}), 1, "no-such-file.onnx");
  check_error(box.tcc({"inspect", "zoo:resnet19"}), 1, "resnet18");
  CHECK_FALSE(fs::exists(box.path("out")));
}

TEST_CASE("unsupported operators are reported all at once, with counts", "[cli]") {
  Sandbox box;
  spill(box.path("good.onnx"), chain_model({"Relu", "Sigmoid"}));
  CHECK(box.tcc({"inspect", "good.onnx"}).exit_code == 0);
  spill(box.path("bad.onnx"), chain_model({"Relu", "Frobnicate", "Twiddle", "Frobnicate"}));
  for (const std::string command : {"inspect", "tune", "verify"}) {
    Outcome outcome = box.tcc({command, "bad.onnx"});
    check_error(outcome, 1, "bad.onnx");
    CHECK_THAT(outcome.err, Contains("Twiddle") && Contains("Frobnicate") && Contains("2"));
  }
}

TEST_CASE("files that are neither libraries nor record stores", "[cli]") {
  Sandbox box;
  spill(box.path("libempty.so"), "");
  spill(box.path("libtext.so"), "not ELF");
  spill(box.path("records.db"), std::string(5000, 'x'));
  for (const char* command : {"verify", "bench", "inspect"}) {
    CAPTURE(command);
    check_error(box.tcc({command, "libempty.so"}), 1, "library");
    check_error(box.tcc({command, "./libtext.so"}), 1, "library");
    check_error(box.tcc({command, "libmissing.so"}), 1, "libmissing.so");
    check_error(box.tcc({command, "/lib/x86_64-linux-gnu/libm.so"}), 1, "libm.so");
  }
  check_error(box.tcc({"show", "zoo:mlp", "--db", "records.db"}), 1, "records.db");
  check_error(box.tcc({"tune", "zoo:mlp", "--db", "records.db", "--trials", "1"}), 1, "records.db");
  check_error(box.tcc({"build", "zoo:mlp", "-o", "out", "--db", "nowhere.db"}), 1, "nowhere.db");
  check_error(box.tcc({"build", "zoo:mlp", "-o", "out", "--id", "not an id"}), 1, "not an id");
  check_error(box.tcc({"build", "zoo:mlp", "-o", "libtext.so"}), 1, "libtext.so");
  check_error(box.tcc({"build", "zoo:mlp", "-o", "out", "--target", "k80"}), 1, "NVRTC");
}

TEST_CASE("lists: targets, operators, models", "[cli]") {
  Sandbox box;
  Outcome targets = box.tcc({"targets"});
  CHECK(targets.exit_code == 0);
  CHECK_THAT(targets.out, Contains("host") && Contains("a100"));
  Outcome json = box.tcc({"targets", "a100", "--json"});
  CHECK(json.exit_code == 0);
  spill(box.path("machine.json"), json.out);
  CHECK(box.tcc({"show", "zoo:mlp", "--target-file", "machine.json"}).exit_code == 0);
  spill(box.path("machine.json"), "{\"base\": \"a100\", \"name\": \"mine\", \"colour\": 3}");
  check_error(box.tcc({"show", "zoo:mlp", "--target-file", "machine.json"}), 1, "colour");
  CHECK_THAT(box.tcc({"ops"}).out, Contains("Conv") && Contains("BatchNormalization"));
  CHECK_THAT(box.tcc({"zoo"}).out, Contains("resnet18"));
  Outcome inspected = box.tcc({"inspect", "zoo:mlp", "--json"});
  CHECK(inspected.exit_code == 0);
  CHECK_THAT(inspected.out, Contains("\"Gemm\": 3"));
}
