// Data in and out: run, --freeze, unbound dimensions, unusable files. Each error names its cause, in time.
#include <sys/resource.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "model_bytes.h"
#include "skip.h"
#include "tcc/driver/tensor_file.h"

using namespace cli_test;
using Json = nlohmann::json;
using Catch::Matchers::Contains;

namespace {

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}
void save(const fs::path& path, const std::vector<float>& values, const tcc::graph::Shape& shape) {
  REQUIRE(tcc::driver::write_tensor(path.string(), {"x", tcc::graph::DType::kF32, shape, bytes_of(values)}));
}
std::vector<float> load(const fs::path& path) {
  auto tensor = tcc::driver::read_tensor(path.string());
  REQUIRE(tensor.has_value());
  std::vector<float> values(tensor->constant.bytes.size() / 4);
  std::memcpy(values.data(), tensor->constant.bytes.data(), values.size() * 4);
  return values;
}

void must_link(const Sandbox& box) {
  spill(box.path("main.c"),
        "#include \"sum.h\"\nint main(void) { tcc_context* c = 0; const tcc_model_api* api = tcc_sum_query(1);\n"
        "  return api->create(0, &c) != TCC_OK || api->self_test(c) != TCC_OK; }\n");
  const Outcome linked =
      box.run({"sh", "-c", "cc -Iout main.c out/kernels/*.o -o main -lpthread -lm && ldd main && ./main"});
  CAPTURE(linked.out, linked.err);
  CHECK(linked.exit_code == 0);
  CHECK(linked.out.find("libsum") == std::string::npos);
}

const std::vector<float> kA = {1, 2, 3, 4}, kB = {10, 20, 30, 40}, kSum = {11, 22, 33, 44};

}  // namespace

TEST_CASE("run takes and writes npy, npz and pb, and a library gives what its model gives", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  save(box.path("a.npy"), kA, {4});
  save(box.path("b.pb"), kB, {4});
  Outcome run = box.tcc(
      {"run", "sum.onnx", "-q", "--input", "a=a.npy", "--input", "b=b.pb", "--save", "y=y.npy", "-o", "all.npz"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("output  y f32 4") && Contains("from 11 to 44"));
  CHECK(load(box.path("y.npy")) == kSum);
  auto all = tcc::driver::read_npz(box.str("all.npz"));
  REQUIRE(all.has_value());
  CHECK(all->at("y").shape == tcc::graph::Shape{4});

  const std::vector<tcc::driver::NamedTensor> both = {{"a", tcc::graph::DType::kF32, {4}, bytes_of(kA)},
                                                      {"b", tcc::graph::DType::kF32, {4}, bytes_of(kB)}};
  REQUIRE(tcc::driver::write_npz(box.str("in.npz"), both));
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out"}).exit_code == 0);
  CHECK(box.tcc({"run", "out/libsum.so", "--inputs", "in.npz", "--save", "y=y.pb"}).exit_code == 0);
  CHECK(load(box.path("y.pb")) == kSum);
  Outcome first = box.tcc({"run", "out/libsum.so", "--random", "--seed", "3"});
  CHECK(first.out == box.tcc({"run", "out/libsum.so", "--random", "--seed", "3"}).out);
  CHECK(first.out != box.tcc({"run", "out/libsum.so", "--random", "--seed", "4"}).out);
}

TEST_CASE("what run cannot use is refused by name, and nothing is written", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out"}).exit_code == 0);
  const std::string lib = "out/libsum.so";
  save(box.path("a.npy"), kA, {4});
  save(box.path("square.npy"), kA, {2, 2});
  const std::vector<double> doubles = {1, 2, 3, 4};
  REQUIRE(tcc::driver::write_tensor(box.str("f64.npy"),
                                    {"x", tcc::graph::DType::kF64, {4}, std::as_bytes(std::span(doubles))}));
  spill(box.path("bad.npy"), "\x93NUMPY but not really");
  spill(box.path("half.npy"), slurp(box.path("a.npy")).substr(0, 130));
  spill(box.path("bad.npz"), "PK? no");

  Outcome missing = box.tcc({"run", lib});
  check_error(missing, 2, "2 of 2 inputs");
  CHECK_THAT(missing.err, Contains("'a' (f32 4)") && Contains("--input a=FILE.npy --input b=FILE.npy"));
  check_error(box.tcc({"run", lib, "--random", "--input", "q=a.npy"}), 2, "no input 'q'");
  check_error(box.tcc({"run", lib, "--random", "--save", "z=z.npy"}), 2, "no output 'z'");
  check_error(box.tcc({"run", lib, "--random", "--input", "a"}), 2, "NAME=FILE");
  Outcome shape = box.tcc({"run", lib, "--random", "--input", "a=square.npy"});
  check_error(shape, 1, "2x2");
  CHECK_THAT(shape.err, Contains("--shape a=2x2"));
  Outcome type = box.tcc({"run", lib, "--random", "--input", "a=f64.npy", "-o", "none.npz"});
  check_error(type, 1, "f64");
  CHECK_THAT(type.err, Contains("astype('float32')"));
  CHECK_FALSE(fs::exists(box.path("none.npz")));
  check_error(box.tcc({"run", lib, "--random", "--input", "a=bad.npy"}), 1, "bad.npy");
  check_error(box.tcc({"run", lib, "--random", "--input", "a=half.npy"}), 1, "half.npy");
  check_error(box.tcc({"run", lib, "--random", "--input", "a=nowhere.npy"}), 1, "nowhere.npy");
  check_error(box.tcc({"run", lib, "--random", "--input", "a=a.txt"}), 2, ".npy");
  check_error(box.tcc({"run", lib, "--random", "--inputs", "bad.npz"}), 1, "bad.npz");
  check_error(box.tcc({"run", lib, "--random", "-o", "nowhere/all.npz"}), 1, "'nowhere/all.npz'");
  check_error(box.tcc({"run", lib, "--random", "-o", "all.txt"}), 2, ".npz");
  check_error(box.tcc({"run", lib, "--random", "--save", "y=/dev/full/y.npy"}), 1, "/dev/full");
}

TEST_CASE("a full disk is an error with a hint, and leaves nothing half-written", "[cli]") {
  Sandbox box;
  const std::string tcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
  Outcome build = box.run({"sh", "-c", "ulimit -f 20; exec " + tcc + " build zoo:mlp -q -o out"});
  CAPTURE(build.err);
  CHECK(build.exit_code == 1);
  CHECK_THAT(build.err, Contains("hint: "));
  CHECK_FALSE(fs::exists(box.path("out/libmlp.so")));
  Outcome run = box.run({"sh", "-c", "ulimit -f 0; exec " + tcc + " targets --json"});
  CHECK(run.exit_code == 1);
}

TEST_CASE("unbound dimensions are all listed with the flags that bind them", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model("n"));
  for (const char* command : {"inspect", "show", "verify", "bench", "run", "tune", "explain"}) {
    CAPTURE(command);
    std::vector<std::string> words = {command, "sum.onnx"};
    if (std::string(command) == "explain") words.insert(words.end(), {"--task", "0"});
    Outcome outcome = box.tcc(words);
    check_error(outcome, 2, "sum.onnx");
    CHECK_THAT(outcome.err, Contains("input 'a'") && Contains("input 'b'") && Contains("--dim n="));
  }
  CHECK(box.tcc({"run", "sum.onnx", "--random", "-q", "--dim", "n=5"}).exit_code == 0);
  CHECK(box.tcc({"run", "sum.onnx", "--random", "-q", "--shape", "a=5", "--shape", "b=5"}).exit_code == 0);
}

TEST_CASE("a frozen input is an input no more, and verify finds its value again", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  save(box.path("b.pb"), kB, {4});
  save(box.path("a.npy"), kA, {4});
  Outcome run = box.tcc({"run", "sum.onnx", "-q", "--freeze", "b=@b.pb", "--input", "a=a.npy", "--save", "y=y.npy"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(load(box.path("y.npy")) == kSum);
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out", "--freeze", "b=@b.pb"}).exit_code == 0);
  CHECK(box.tcc({"verify", "out/libsum.so"}).exit_code == 0);
  fs::rename(box.path("b.pb"), box.path("c.pb"));
  Outcome lost = box.tcc({"verify", "out/libsum.so"});
  check_error(lost, 1, "b.pb");
  CHECK_THAT(lost.err, Contains("--freeze b=@FILE"));
  CHECK(box.tcc({"verify", "out/libsum.so", "--freeze", "b=@c.pb"}).exit_code == 0);
  check_error(box.tcc({"verify", "out/libsum.so", "--freeze", "b=@a.npy"}), 1, "a.npy");
  check_error(box.tcc({"run", "sum.onnx", "--freeze", "b=c.pb"}), 2, "@FILE");
  check_error(box.tcc({"inspect", "sum.onnx", "--freeze", "q=@c.pb"}), 2, "'q'");
}

TEST_CASE("weights behind a symbolic link are read when that is allowed, by verify too", "[cli]") {
  Sandbox box;
  const std::string location = field(1, "location") + field(2, "w.bin");
  const std::string weight = number(1, 4) + number(2, 1) + field(8, "w") + field(13, location) + number(14, 1);
  const std::string add = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Add");
  const std::string graph =
      field(1, add) + field(2, "linked") + field(5, weight) + field(11, tensor("x")) + field(12, tensor("y"));
  spill(box.path("linked.onnx"), number(1, 8) + field(7, graph) + field(8, number(2, 13)));
  fs::create_directory(box.path("cache"));
  spill(box.path("cache/blob"), std::string(reinterpret_cast<const char*>(kB.data()), 16));
  fs::create_symlink("cache/blob", box.path("w.bin"));
  const Outcome refused = box.tcc({"build", "linked.onnx", "-q", "-o", "out"});
  check_error(refused, 1, "symbolic link");
  CHECK_THAT(refused.err, Contains("--allow-external-symlinks"));
  REQUIRE(box.tcc({"build", "linked.onnx", "-q", "-o", "out", "--allow-external-symlinks"}).exit_code == 0);
  CHECK(box.tcc({"verify", "out/liblinked.so"}).exit_code == 0);
}

TEST_CASE("a library remembers that it was built with --fast-math", "[cli]") {
  Sandbox box;
  REQUIRE(box.tcc({"build", "zoo:mlp", "-q", "-o", "exact"}).exit_code == 0);
  REQUIRE(box.tcc({"build", "zoo:mlp", "-q", "-o", "fast", "--fast-math"}).exit_code == 0);
  for (const bool fast : {false, true}) {
    const std::string library = fast ? "fast/libmlp.so" : "exact/libmlp.so";
    INFO(library);
    const Outcome verified = box.tcc({"verify", library});
    CHECK(verified.exit_code == 0);
    CHECK((verified.out.find("built with --fast-math") != std::string::npos) == fast);
    CHECK(Json::parse(box.tcc({"verify", library, "--json"}).out).at("fast_math") == fast);
    CHECK((box.tcc({"inspect", library}).out.find(", --fast-math") != std::string::npos) == fast);
  }
}

TEST_CASE("inspect says what is in a library", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out"}).exit_code == 0);
  const Outcome text = box.tcc({"inspect", "out/libsum.so"});
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("library  out/libsum.so 'sum'") && Contains("model    sum.onnx, hash ") &&
                           Contains("input    a f32 4") && Contains("output   y f32 4") && Contains("workload"));
  CHECK(box.tcc({"inspect", "out/libsum.so", "--json"}).out == slurp(box.path("out/sum.json")));
}

TEST_CASE("build --emit writes what it says", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out", "--emit", "obj,llvm,ir"}).exit_code == 0);
  int kernels = 0;
  for (const auto& entry : fs::directory_iterator(box.path("out/kernels"))) {
    const std::string text = slurp(entry.path()), extension = entry.path().extension();
    CAPTURE(entry.path());
    if (extension == ".ll") CHECK_THAT(text, Contains("define ") && Contains("@tcc_k0_0"));
    if (extension == ".o") CHECK(text.substr(1, 3) == "ELF");
    CHECK_FALSE(text.empty());
    kernels += extension == ".ll" ? 1 : 0;
  }
  CHECK(kernels == 1);
  // All objects of the library, in a program of its own.
  must_link(box);
}

TEST_CASE("an option file comes after the command line, and its mistakes are told", "[cli]") {
  Sandbox box;
  spill(box.path("good.toml"), "seed = 3\ntrials = 5\n[run]\nrandom = true\nseed = 4\n");
  auto out = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"run", "zoo:mlp", "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return box.tcc(words).out;
  };
  const std::string seed9 = out({"--random", "--seed", "9"});
  CHECK_FALSE(seed9.empty());
  CHECK(out({"--config", "good.toml", "--seed", "9"}) == seed9);
  CHECK_FALSE(out({"--config", "good.toml"}).empty());
  spill(box.path("typo.toml"), "trails = 5\n");
  Outcome typo = box.tcc({"tune", "zoo:mlp", "--config", "typo.toml"});
  check_error(typo, 2, "trails");
  CHECK_THAT(typo.err, Contains("trials"));
  spill(box.path("section.toml"), "[tnue]\ntrials = 5\n");
  check_error(box.tcc({"tune", "zoo:mlp", "--config", "section.toml"}), 2, "tnue");
  check_error(box.tcc({"tune", "zoo:mlp", "--config", "nowhere.toml"}), 1, "nowhere.toml");
}

TEST_CASE("completions and manual pages name every option", "[cli]") {
  Sandbox box;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    Outcome text = box.tcc({"completion", shell});
    REQUIRE(text.exit_code == 0);
    const std::string flag = shell == "fish" ? "-l trials-per-task" : "--trials-per-task";
    CHECK_THAT(text.out, Contains(flag) && Contains("x86-64-v3") && Contains("explain"));
    spill(box.path("completion"), text.out);
    if (box.run({"sh", "-c", "command -v " + shell}).exit_code == 0)
      CHECK(box.run({shell, "-n", "completion"}).exit_code == 0);
    else
      tcc::testing::report_skip("no " + shell + " to read its completion");
  }
  spill(box.path("ask.sh"),
        "source ./completion.bash; COMP_WORDS=(tcc tune --tri); COMP_CWORD=2; _tcc; "
        "echo ${COMPREPLY[*]}\n");
  spill(box.path("completion.bash"), box.tcc({"completion", "bash"}).out);
  CHECK(box.run({"bash", "ask.sh"}).out == "--trials --trials-per-task\n");
  spill(box.path("ask.sh"),
        "source ./completion.bash; COMP_WORDS=(tcc tune zoo : resn); COMP_CWORD=4; _tcc; "
        "echo ${COMPREPLY[*]}\n");
  CHECK(box.run({"bash", "ask.sh"}).out == "resnet18 resnet34 resnet50 resnext50 resnet3d18\n");
  check_error(box.tcc({"completion", "tcsh"}), 2, "tcsh");
  REQUIRE(box.tcc({"man", "--all", "man1"}).exit_code == 0);
  CHECK(fs::exists(box.path("man1/tcc.1")));
  CHECK_THAT(slurp(box.path("man1/tcc-tune.1")), Contains(".TH") && Contains("trials\\-per\\-task"));
  CHECK_THAT(box.tcc({"man", "bench"}).out, Contains("EXAMPLES"));
  check_error(box.tcc({"man", "bnech"}), 2, "did you mean 'bench'");
  check_error(box.tcc({"man", "qqqqqq"}), 2, "hint: ");
}

TEST_CASE("a model is written with other weights, for programs that cannot reseed", "[cli]") {
  Sandbox box;
  REQUIRE(box.tcc({"zoo", "mlp", "-o", "a.onnx", "-q"}).exit_code == 0);
  check_error(box.tcc({"zoo", "a.onnx", "-o", "b.onnx"}), 2, "--reseed-weights");
  Outcome written = box.tcc({"zoo", "a.onnx", "--reseed-weights", "3", "-o", "b.onnx", "-q"});
  CAPTURE(written.err);
  REQUIRE(written.exit_code == 0);
  auto output_of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--random", "--seed", "7", "--json", "-q"});
    Outcome run = box.tcc(words);
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    return nlohmann::json::parse(run.out).at("outputs");
  };
  const auto reseeded = output_of({"a.onnx", "--reseed-weights", "3"});
  CHECK(output_of({"b.onnx"}) == reseeded);
  CHECK(output_of({"a.onnx"}) != reseeded);
}
