// Files that are not models: every command answers with one message and exit code 1, and none waits for ever.
#include <signal.h>
#include <sys/stat.h>

#include "cli/runner.h"
#include "tcc/support/rng.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

using Words = std::vector<std::string>;

const std::vector<Words> kCommands = {{"tune"}, {"build", "-o", "out"}, {"show"}, {"inspect"}, {"verify"}, {"bench"}};

Outcome run(const Sandbox& box, Words words) {
  words.insert(words.begin(), {"timeout", "-s", "KILL", "20", std::string(TCC_BINARY_DIR) + "/tools/tcc"});
  return box.run(words);
}

void check_all_commands(const Sandbox& box, const std::string& file) {
  for (Words words : kCommands) {
    words.insert(words.begin() + 1, file);
    const Outcome outcome = run(box, words);
    CAPTURE(words[0], file, outcome.exit_code, outcome.out, outcome.err);
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, Contains("tcc: error: ") && Contains(fs::path(file).filename().string()));
    CHECK(outcome.err.find("tcc: error: ") == outcome.err.rfind("tcc: error: "));
    CHECK(outcome.err.size() < 4000);
  }
  CHECK_FALSE(fs::exists(box.path("out")));
  CHECK_FALSE(fs::exists(box.path("data")));  // no records were begun for it
}

// Just enough of the protobuf encoding to write a model by hand.
std::string number(int field, uint64_t value) {
  std::string bytes(1, static_cast<char>(field << 3));
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string field(int field, const std::string& content) {
  std::string bytes = number(field, content.size());
  bytes[0] = static_cast<char>(bytes[0] | 2);
  return bytes + content;
}
std::string value_info(const std::string& name, const std::vector<uint64_t>& dims) {
  std::string shape;
  for (uint64_t d : dims) shape += field(1, number(1, d));
  return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)));
}
std::string node(const std::string& op, const Words& from, const std::string& to) {
  std::string bytes;
  for (const std::string& name : from) bytes += field(1, name);
  return field(1, bytes + field(2, to) + field(4, op));
}
std::string initializer(const std::string& name, const std::vector<uint64_t>& dims, int type, const std::string& raw) {
  std::string bytes;
  for (uint64_t d : dims) bytes += number(1, d);
  return field(5, bytes + number(2, static_cast<uint64_t>(type)) + field(8, name) + field(9, raw));
}
std::string model(const std::string& graph_body) {
  return number(1, 8) + field(7, graph_body + field(2, "g")) + field(8, number(2, 13));
}
std::string bytes_of(const std::vector<int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)};
}

}  // namespace

TEST_CASE("every command refuses files that are not regular, without waiting", "[errors]") {
  Sandbox box;
  fs::create_directory(box.path("folder.onnx"));
  fs::create_directory(box.path("libfolder.so"));
  REQUIRE(mkfifo(box.str("pipe.onnx").c_str(), 0644) == 0);
  fs::create_symlink("loop.onnx", box.path("loop.onnx"));
  for (const std::string file : {"folder.onnx", "pipe.onnx", "loop.onnx", "nowhere.onnx", "/dev/zero", "/dev/null"})
    check_all_commands(box, file);

  REQUIRE(mkfifo(box.str("libpipe.so").c_str(), 0644) == 0);
  fs::create_symlink("/dev/zero", box.path("libzero.so"));
  for (const std::string library : {"libpipe.so", "libzero.so", "libfolder.so"}) {
    for (const std::string command : {"verify", "bench", "inspect"}) {
      const Outcome outcome = run(box, {command, library});
      CAPTURE(command, library, outcome.err);
      CHECK(outcome.exit_code == 1);
      CHECK_THAT(outcome.err, Contains("tcc: error: ") && Contains(library));
    }
  }
}

TEST_CASE("files with the wrong bytes are refused by every command", "[errors]") {
  Sandbox box;
  REQUIRE(run(box, {"zoo", "mlp", "-o", "good.onnx"}).exit_code == 0);
  const std::string good = slurp(box.path("good.onnx"));
  spill(box.path("empty.onnx"), "");
  spill(box.path("text.onnx"), "once upon a time there was a file about a shoemaker\n");
  spill(box.path("half.onnx"), good.substr(0, good.size() / 2));
  tcc::Rng rng(99);
  std::string noise;
  for (int i = 0; i < 3000; ++i) noise += static_cast<char>(rng.next());
  spill(box.path("noise.onnx"), noise);
  for (const char* file : {"empty.onnx", "text.onnx", "half.onnx", "noise.onnx"}) check_all_commands(box, file);
}

TEST_CASE("a model with a few bytes changed never crashes", "[errors]") {
  Sandbox box;
  REQUIRE(run(box, {"zoo", "mlp", "-o", "good.onnx"}).exit_code == 0);
  std::string good = slurp(box.path("good.onnx"));
  tcc::Rng rng(4);
  for (int i = 0; i < 24; ++i) {
    std::string bad = good;
    // Structure is at the two ends; between are weights.
    const auto window = static_cast<int64_t>(400);
    for (int n = 0; n < 3; ++n) {
      const auto at = static_cast<size_t>(rng.below(window));
      bad[i % 2 == 0 ? at : bad.size() - 1 - at] = static_cast<char>(rng.next());
    }
    spill(box.path("bad.onnx"), bad);
    const Outcome outcome = run(box, {i % 3 == 0 ? "show" : "inspect", "bad.onnx"});
    CAPTURE(i, outcome.exit_code, outcome.err);
    CHECK((outcome.exit_code == 0 || outcome.exit_code == 1));
    if (outcome.exit_code == 1) CHECK_THAT(outcome.err, Contains("tcc: error: "));
  }
}

TEST_CASE("sizes that are declared but cannot be", "[errors]") {
  Sandbox box;
  const uint64_t big = uint64_t{1} << 40;
  const std::string y = field(12, value_info("y", {4}));
  spill(box.path("weights.onnx"),
        model(node("Add", {"x", "w"}, "y") + initializer("w", {big}, 1, "abcd") + field(11, value_info("x", {4})) + y));
  spill(box.path("product.onnx"), model(node("Add", {"x", "w"}, "y") + initializer("w", {big, big, big}, 1, "") +
                                        field(11, value_info("x", {4})) + y));
  spill(box.path("input.onnx"), model(node("Relu", {"x"}, "y") + field(11, value_info("x", {big, big})) +
                                      field(12, value_info("y", {big, big}))));
  spill(box.path("negative.onnx"), model(node("Relu", {"x"}, "y") + field(11, value_info("x", {~uint64_t{6}})) + y));
  spill(box.path("filled.onnx"),
        model(node("ConstantOfShape", {"s"}, "c") + node("Add", {"x", "c"}, "y") +
              initializer("s", {1}, 7, bytes_of({int64_t{1} << 46})) + field(11, value_info("x", {4})) + y));
  // More bytes than the file has, in the length of the graph itself.
  std::string cut = number(1, 8) + number(7, uint64_t{1} << 60);
  cut[2] = static_cast<char>(cut[2] | 2);
  spill(box.path("length.onnx"), cut);
  for (const char* file : {"weights.onnx", "product.onnx", "input.onnx", "negative.onnx", "filled.onnx", "length.onnx"})
    check_all_commands(box, file);
}
