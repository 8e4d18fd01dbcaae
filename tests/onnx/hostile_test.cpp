// Files made to do harm: each ends in one clear error, soon, with nothing opened outside the model's folder. The limits
// are those of src/onnx/limits.h and tensor.cpp; known attacks on other readers of ONNX are named by their numbers.
//
//   attack                                              test case
//   2^20 nodes, parts, long names, numbers              files that would become large in memory ...
//   subgraphs and types without end, groups             messages nested without end are refused
//   functions that call each other                      functions that call each other without end are not followed
//   raw data shorter or longer than the shape, negative,
//     overflowing or 17 dims, strings, unknown types    tensors whose bytes are not what their shape and type say
//   Concat, Tile, Expand, Pad, Range, OneHot of 2^60,
//     constants that double, counting along 2^36        shapes that overflow or exhaust memory
//   perm, axis, kernel, pads, strides, groups           attributes outside of what they may be; onnx_test: models with
//                                                         broken structure are refused (also cycles, names twice)
//   LSTM of a vector, If, operators that are not there  attributes outside ...; unsupported operators are reported ...
//   ../, absolute, NUL, symbolic links on any level,
//     pipes, sockets, folders                           external data: nothing outside of the model's folder is opened
//   offset and length negative, past the end, no number,
//     truncated, 64 GiB and more, unknown keys          external data: offsets and lengths that the file does not have
//   more than 2 GiB                                     a model of more bytes than the format allows ...
//   folding that takes too long                         importing ends when its time is up
//   truncated while it is read                          support: a mapped file that loses its end is named ...
//   random bytes changed                                mutation_test; robustness: input_test
//   names with quotes, line ends, terminal codes        package: the emitted files ... name nothing of the model;
//                                                         onnx_test: unsupported operators ... with clean names
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "onnx/limits.h"
#include "tcc/graph/refusal.h"
#include "tcc/onnx/load.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::onnx;
using Catch::Matchers::Contains;
using graph::Shape;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
namespace fs = std::filesystem;

namespace {

// --- protobuf's encoding, by hand

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string number(uint64_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string bytes(uint64_t field, const std::string& content) {
  return varint(field << 3 | 2) + varint(content.size()) + content;
}
std::string repeated(const std::string& piece, int64_t times) {
  std::string all;
  all.reserve(piece.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) all += piece;
  return all;
}
std::string info(const std::string& name) {
  return bytes(1, name) + bytes(2, bytes(1, number(1, 1) + bytes(2, bytes(1, number(1, 2)))));
}
std::string model_of(const std::string& graph, const std::string& rest = "") {
  return number(1, 8) + bytes(7, graph + bytes(2, "g")) + bytes(8, number(2, 13)) + rest;
}
const std::string kRelu = bytes(1, bytes(1, "x") + bytes(2, "y") + bytes(4, "Relu"));
const std::string kInOut = bytes(11, info("x")) + bytes(12, info("y"));

// TCC_KEEP_MODELS names a folder for these files, to give them to `tcc inspect` and look at its time and memory.
void keep(const std::string& model) {
  static int number = 0;
  if (const char* folder = std::getenv("TCC_KEEP_MODELS"))
    REQUIRE(write_file(fmt::format("{}/{:03}.onnx", folder, number++), model));
}

std::string error_of(std::string model, const ImportOptions& options = {}) {
  keep(model);
  auto g = import_bytes(std::make_shared<const std::string>(std::move(model)), "test.onnx", options);
  REQUIRE_FALSE(g.has_value());
  std::string text = g.error().message;
  for (const std::string& note : g.error().notes) text += "\n" + note;
  CHECK(text.size() < 5000);
  return text;
}

// Input x, then what `fill` adds.
template <class Fill>
std::string error_with(const Shape& x, const Fill& fill, int64_t opset = 13) {
  ModelWriter w("hostile", opset);
  w.input("x", x);
  fill(w);
  w.output("y");
  return error_of(w.finish());
}

}  // namespace

TEST_CASE("the smallest whole model of these tests is one", "[errors]") {
  auto g = import_bytes(std::make_shared<const std::string>(model_of(kRelu + kInOut)), "test.onnx");
  REQUIRE(g.has_value());
  CHECK(g->order.size() == 1);
}

TEST_CASE("files that would become large in memory are refused before they do", "[errors]") {
  // Two bytes each; a parsed node takes two hundred.
  CHECK_THAT(error_of(model_of(repeated(bytes(1, ""), kMaxNodes + 1))), Contains("more than 1000000 nodes"));
  CHECK_THAT(error_of(model_of(bytes(1, repeated(bytes(1, ""), kMaxParts)) + kInOut)), Contains("parts"));
  CHECK_THAT(error_of(model_of(kRelu + kInOut, bytes(25, bytes(7, repeated(bytes(5, ""), kMaxParts))))),
             Contains("parts"));
  // A type of a map of a sequence of a tensor with very many axes.
  const std::string axes = bytes(1, bytes(2, repeated(bytes(1, ""), kMaxParts)));
  CHECK_THAT(error_of(model_of(bytes(11, bytes(1, "x") + bytes(2, bytes(5, bytes(2, bytes(4, bytes(1, axes)))))))),
             Contains("parts"));
  CHECK_THAT(error_of(model_of(bytes(5, bytes(7, std::string(kMaxPacked + 1, '\1'))))), Contains("too many numbers"));
  const std::string long_name(kMaxNameBytes + 1, 'n');
  CHECK_THAT(error_of(model_of(bytes(1, bytes(4, long_name)))), Contains("a name of 1048577 bytes"));
  CHECK_THAT(error_of(model_of(bytes(11, info(long_name)))), Contains("a name of 1048577 bytes"));
  // What is unknown is skipped, and so may be large.
  CHECK(import_bytes(std::make_shared<const std::string>(model_of(kRelu + kInOut, bytes(99, long_name))), "m"));
}

TEST_CASE("messages nested without end are refused", "[errors]") {
  std::string graph = kRelu;
  for (int i = 0; i < 1000; ++i) graph = bytes(1, bytes(5, bytes(1, "then_branch") + bytes(6, graph)));
  CHECK_THAT(error_of(model_of(graph)), Contains("nested more than 64 messages deep"));
  std::string type = bytes(1, number(1, 1));
  for (int i = 0; i < 2000; ++i) type = bytes(4, bytes(1, type));
  CHECK_THAT(error_of(model_of(bytes(11, bytes(1, "x") + bytes(2, type)))), Contains("nested more than 64"));
  // Groups, an old form that ONNX never had, would hide what they hold from the count.
  CHECK_THAT(error_of(model_of(varint(99 << 3 | 3) + varint(99 << 3 | 4) + kRelu + kInOut)),
             Contains("not an ONNX model"));
}

TEST_CASE("functions that call each other without end are not followed", "[errors]") {  // GHSA-7w46-vvrh-m8q5
  auto function = [](const std::string& name, const std::string& calls) {
    return bytes(25, bytes(1, name) + bytes(4, "a") + bytes(5, "b") + bytes(10, "f") +
                         bytes(7, bytes(1, "a") + bytes(2, "b") + bytes(4, calls) + bytes(7, "f")));
  };
  const std::string call = bytes(1, bytes(1, "x") + bytes(2, "y") + bytes(4, "ping") + bytes(7, "f"));
  const std::string text = error_of(model_of(call + kInOut, function("ping", "pong") + function("pong", "ping")));
  CHECK_THAT(text, Contains("function 'ping' calls itself"));
}

TEST_CASE("tensors whose bytes are not what their shape and type say", "[errors]") {
  auto weight = [](const std::string& tensor) { return error_of(model_of(kRelu + kInOut + bytes(5, tensor))); };
  const std::string name = bytes(8, "w");
  // A zero point of 300 in a field of 32 bits.
  const std::string one = number(1, 1);
  CHECK_THAT(weight(one + number(2, 2) + number(5, 300) + name), Contains("element 0 is 300, expected 0 to 255 (u8)"));
  CHECK_THAT(weight(one + number(2, 3) + number(5, 128) + name), Contains("is 128, expected -128 to 127 (i8)"));
  CHECK_THAT(weight(name + number(1, 3) + number(2, 7) + bytes(9, "abc")), Contains("3 bytes") && Contains("24"));
  CHECK_THAT(weight(name + number(1, 1) + number(2, 1) + bytes(9, std::string(5000, 'x'))), Contains("5000 bytes"));
  CHECK_THAT(weight(name + number(1, 2) + number(2, 1)), Contains("0 elements are stored"));
  CHECK_THAT(weight(name + repeated(number(1, 1), 17) + number(2, 1) + bytes(9, "abcd")), Contains("17 dimensions"));
  CHECK_THAT(weight(name + repeated(number(1, int64_t{1} << 33), 2) + number(2, 1)), Contains("too large"));
  CHECK_THAT(weight(name + repeated(number(1, int64_t{1} << 62), 4) + number(2, 1)), Contains("too large"));
  CHECK_THAT(weight(name + number(1, ~uint64_t{0}) + number(2, 1)), Contains("negative"));
  CHECK_THAT(weight(name + number(1, 1) + number(2, 8) + bytes(6, "text")), Contains("string"));
  CHECK_THAT(weight(name + number(1, 1) + number(2, 77) + bytes(9, "abcd")), Contains("unknown"));
  CHECK_THAT(weight(name + number(1, 1) + number(2, 1) + bytes(3, number(1, 0) + number(2, 9)) + bytes(9, "abcd")),
             Contains("segments"));
  // As the shape of a Reshape.
  CHECK_THAT(error_of(model_of(bytes(1, bytes(1, "x") + bytes(1, "s") + bytes(2, "y") + bytes(4, "Reshape")) + kInOut +
                               bytes(5, bytes(8, "s") + number(1, 3) + number(2, 7) + bytes(9, "abc")))),
             Contains("3 bytes"));
}

TEST_CASE("shapes that overflow or exhaust memory", "[errors]") {
  const int64_t huge = int64_t{1} << 62;
  CHECK_THAT(error_with({huge, 4}, [](auto& w) { w.node("Relu", {"x"}, {"y"}); }), Contains("too large"));
  CHECK_THAT(
      error_with({int64_t{1} << 35}, [](auto& w) { w.node("Concat", {"x", "x", "x"}, {"y"}, {{"axis", Ints{0}[0]}}); }),
      Contains("too large"));
  CHECK_THAT(error_with({2}, [=](auto& w) { w.node("Tile", {"x", w.initializer("n", {{1}, Ints{huge}})}, {"y"}); }),
             Contains("too large"));
  CHECK_THAT(error_with({2},
                        [=](auto& w) {
                          w.node("ConstantOfShape", {w.initializer("n", {{1}, Ints{int64_t{1} << 60}})}, {"c"});
                          w.node("Add", {"x", "c"}, {"y"});
                        }),
             Contains("too large"));
  CHECK_THAT(
      error_with({2}, [=](auto& w) { w.node("Expand", {"x", w.initializer("n", {{2}, Ints{huge, 2}})}, {"y"}); }),
      Contains("too large"));
  CHECK_THAT(error_with({2, 2},
                        [=](auto& w) {
                          w.node("Pad", {"x", w.initializer("n", {{4}, Ints{huge, huge, huge, huge}})}, {"y"});
                        }),
             Contains("too large"));
  CHECK_THAT(error_with({2},
                        [](auto& w) {
                          w.initializer("a", {{}, Ints{0}}), w.initializer("b", {{}, Ints{int64_t{1} << 60}});
                          w.initializer("d", {{}, Ints{1}});
                          w.node("Range", {"a", "b", "d"}, {"r"}), w.node("Add", {"x", "r"}, {"y"});
                        }),
             Contains("the range has 1.152921504606847e+18 elements; at most 16777216 are supported"));
  CHECK_THAT(error_with({int64_t{1} << 36}, [&](auto& w) { w.node("Hardmax", {"x"}, {"y"}, {{"axis", int64_t{0}}}); }),
             Contains("68719476736 positions"));  // it counts along the axis
  for (float depth : {1e30f, -1.f, 0.f, 1e10f}) {
    CAPTURE(depth);
    ModelWriter w("hostile", 13);
    w.integer_input("x", {2});
    w.initializer("d", {{}, Floats{depth}}), w.initializer("v", {{2}, Floats{0, 1}});
    w.node("OneHot", {"x", "d", "v"}, {"y"});
    w.output("y");
    CHECK_THAT(error_of(w.finish()), Contains("out of range"));
  }
  // Constants that double: what is folded stays small.
  CHECK_THAT(error_with({2},
                        [](auto& w) {
                          std::string last = w.initializer("c0", {{1 << 16}, Ints(1 << 16, 1)});
                          for (int i = 1; i < 30; ++i)
                            last = w.node("Concat", {last, last}, {"c" + std::to_string(i)}, {{"axis", int64_t{0}}});
                          w.node("Add", {"x", last}, {"y"});
                        }),
             Contains("too large"));
}

TEST_CASE("attributes outside of what they may be", "[errors]") {
  CHECK_THAT(error_with({2, 3}, [](auto& w) { w.node("Transpose", {"x"}, {"y"}, {{"perm", Ints{0, 0}}}); }),
             Contains("not a permutation"));
  CHECK_THAT(error_with({2, 3}, [](auto& w) { w.node("Transpose", {"x"}, {"y"}, {{"perm", Ints{0, 1 << 30}}}); }),
             Contains("not a permutation"));
  CHECK_THAT(error_with({2, 3}, [](auto& w) { w.node("Softmax", {"x"}, {"y"}, {{"axis", int64_t{INT64_MIN}}}); }),
             Contains("out of range"));
  CHECK_THAT(error_with({2, 3}, [](auto& w) { w.node("Flatten", {"x"}, {"y"}, {{"axis", int64_t{INT64_MAX}}}); }),
             Contains("out of range"));
  CHECK_THAT(error_with({1, 1, 4, 4}, [](auto& w) { w.node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{0, 2}}}); }),
             Contains("MaxPool"));
  CHECK_THAT(error_with({1, 1, 4, 4},
                        [](auto& w) {
                          w.node("MaxPool", {"x"}, {"y"},
                                 {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 0, INT64_MAX, 0}}});
                        }),
             Contains("MaxPool"));
  CHECK_THAT(error_with({2, 3}, [](auto& w) { w.node("Transpose", {"x"}, {"y"}, {{"perm", Ints(1'000'001, 0)}}); }),
             Contains("1000001 entries"));
  CHECK_THAT(error_with({2}, [](auto& w) { w.node("LSTM", {"x", "x", "x"}, {"y"}); }), Contains("LSTM"));
  CHECK_THAT(error_with({2}, [](auto& w) { w.node("If", {"x"}, {"y"}); }), Contains("If"));
}

TEST_CASE("importing ends when its time is up", "[errors]") {
  const std::string text = error_of(model_of(kRelu + kInOut), {.seconds = -1});
  CHECK_THAT(text, Contains("given up") && Contains("'y'"));
}

namespace {

// A folder with a model in model/ and what it must not reach beside it, watched.
struct Trap {
  std::unique_ptr<TemporaryDirectory> folder;
  std::string root;
  int events = -1;

  Trap() {
    auto made = TemporaryDirectory::create("tcc-onnx-");
    REQUIRE(made);
    folder = std::move(*made);
    root = folder->path();
    REQUIRE(make_directories(root + "/model/sub"));
    REQUIRE(make_directories(root + "/outside"));
    for (const char* file : {"/outside/secret.bin", "/model/sub/weights.bin"})
      REQUIRE(write_file(root + file, std::string(64, '\1')));
    events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    REQUIRE(events >= 0);
    REQUIRE(inotify_add_watch(events, (root + "/outside").c_str(), IN_OPEN | IN_ACCESS) >= 0);
  }
  ~Trap() { close(events); }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

  bool sprung() const {
    char buffer[4096];
    return read(events, buffer, sizeof buffer) > 0;
  }
  Result<graph::Graph> load(const std::string& entries, const ImportOptions& options = {}) const {
    const std::string tensor = bytes(8, "w") + number(1, 2) + number(2, 1) + number(14, 1) + entries;
    const std::string add = bytes(1, bytes(1, "x") + bytes(1, "w") + bytes(2, "y") + bytes(4, "Add"));
    REQUIRE(write_file(root + "/model/m.onnx", model_of(add + kInOut + bytes(5, tensor))));
    return import_model(root + "/model/m.onnx", options);
  }
};

std::string entry(const std::string& key, const std::string& value) {
  return bytes(13, bytes(1, key) + bytes(2, value));
}

}  // namespace

TEST_CASE("external data: nothing outside of the model's folder is opened", "[errors]") {
  Trap trap;
  const std::string secret = trap.root + "/outside/secret.bin";
  fs::create_symlink(secret, trap.root + "/model/link.bin");                      // CVE-2026-27489
  fs::create_directory_symlink(trap.root + "/outside", trap.root + "/model/up");  // CVE-2026-34447
  fs::create_symlink("sub/weights.bin", trap.root + "/model/inside.bin");
  REQUIRE(mkfifo((trap.root + "/model/pipe.bin").c_str(), 0600) == 0);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket_path = trap.root + "/model/socket.bin";
  REQUIRE(socket_path.size() < sizeof address.sun_path);
  std::copy(socket_path.begin(), socket_path.end(), address.sun_path);
  REQUIRE(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);

  REQUIRE(trap.load(entry("location", "sub/weights.bin") + entry("offset", "0") + entry("length", "8")));
  for (const std::string& location : {std::string("../outside/secret.bin"),         // CVE-2022-25882
                                      std::string("sub/../../outside/secret.bin"),  // CVE-2024-27318
                                      std::string("junk/../../../../../../../../etc/passwd"),
                                      secret,
                                      std::string("/etc/passwd"),
                                      std::string("link.bin"),
                                      std::string("up/secret.bin"),
                                      std::string("inside.bin"),
                                      std::string("sub/weights.bin\0.txt", 20),
                                      std::string("\0", 1),
                                      std::string(),
                                      std::string("."),
                                      std::string("./"),
                                      std::string(".."),
                                      std::string("sub"),
                                      std::string("sub/"),
                                      std::string("pipe.bin"),
                                      std::string("socket.bin"),
                                      std::string("nowhere.bin"),
                                      std::string("sub/weights.bin/x"),
                                      std::string("C:\\secret.bin"),
                                      std::string(100000, 'a'),
                                      repeated("a/", 50000)}) {
    CAPTURE(location.substr(0, 80));
    auto refused = trap.load(entry("location", location) + entry("offset", "0") + entry("length", "8"));
    REQUIRE_FALSE(refused.has_value());
    CHECK_THAT(refused.error().message, Contains("initializer 'w'") && Contains("external data"));
    CHECK(refused.error().message.size() < 1000);
  }
  CHECK_FALSE(trap.sprung());
  ::close(socket);

  // Some caches are made of links: only when asked for. Then the watch sees it, which shows that it watches.
  const std::string linked = entry("location", "link.bin") + entry("offset", "0") + entry("length", "8");
  CHECK_THAT(trap.load(linked).error().hint, Contains("--allow-external-symlinks"));
  CHECK(trap.load(linked, {.external_symlinks = true}));
  CHECK(trap.sprung());
  CHECK_FALSE(trap.load(entry("location", "../outside/secret.bin"), {.external_symlinks = true}));
}

TEST_CASE("external data: offsets and lengths that the file does not have", "[errors]") {
  Trap trap;
  auto message = [&](const std::string& offset, const std::string& length) {
    auto refused = trap.load(entry("location", "sub/weights.bin") + entry("offset", offset) + entry("length", length));
    REQUIRE_FALSE(refused.has_value());
    return refused.error().message;
  };
  CHECK_THAT(message("-8", "8"), Contains("'-8'"));
  CHECK_THAT(message("0", "-8"), Contains("'-8'"));
  CHECK_THAT(message("8x", "8"), Contains("'8x'"));
  CHECK_THAT(message("", "8"), Contains("''"));
  CHECK_THAT(message("9223372036854775807", "8"), Contains("beyond"));
  CHECK_THAT(message("9223372036854775808", "8"), Contains("not a non-negative number"));
  CHECK_THAT(message("0", "18446744073709551615"), Contains("not a non-negative number"));
  CHECK_THAT(message("60", "8"), Contains("64 bytes"));
  CHECK_THAT(message("0", "4"), Contains("need 8"));
  // Truncated since it was written, and a key that means nothing (CVE-2026-34445).
  REQUIRE(truncate((trap.root + "/model/sub/weights.bin").c_str(), 7) == 0);
  CHECK_THAT(message("0", "8"), Contains("7 bytes"));
  REQUIRE(truncate((trap.root + "/model/sub/weights.bin").c_str(), 0) == 0);
  CHECK_THAT(message("0", "8"), Contains("0 bytes"));
  REQUIRE(truncate((trap.root + "/model/sub/weights.bin").c_str(), 64) == 0);
  CHECK(trap.load(entry("location", "sub/weights.bin") + entry("__class__", "x") + entry("length", "8")));
  // Sparse files, which cost nothing to make.
  REQUIRE(truncate((trap.root + "/model/sub/weights.bin").c_str(), (int64_t{64} << 30) + 1) == 0);
  CHECK_THAT(message("0", "8"), Contains("at most 68719476736"));
  REQUIRE(truncate((trap.root + "/model/sub/weights.bin").c_str(), int64_t{60} << 30) == 0);
  auto large = trap.load(entry("location", "sub/weights.bin") + entry("offset", "1048576") + entry("length", "8"));
  REQUIRE(large.has_value());
  CHECK(large->data_files.at(0).bytes == int64_t{60} << 30);  // and only what is used was read for the hash
}

TEST_CASE("a model of more bytes than the format allows is refused by its size", "[errors]") {
  auto folder = TemporaryDirectory::create("tcc-onnx-");
  REQUIRE(folder);
  const std::string path = (*folder)->path() + "/m.onnx";
  REQUIRE(write_file(path, model_of(kRelu + kInOut)));
  REQUIRE(truncate(path.c_str(), int64_t{1} << 40) == 0);
  auto refused = import_model(path);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("more than 2 GiB"));
}

TEST_CASE("operators that are made of others check ranks and numbers first", "[errors]") {
  const std::string ms = "com.microsoft";
  const Ints huge{int64_t{1} << 62};
  auto zero = [](auto& w, const std::string& name) { return w.initializer(name, {{}, std::vector<float>{0}}); };
  auto bytes_of = [](auto& w, const std::string& name, const graph::Shape& shape) {
    return w.typed_initializer(name, graph::DType::kU8, shape,
                               std::vector<double>(static_cast<size_t>(graph::element_count(shape)), 1));
  };
  // Each is refused with a message, whatever it says.
  CHECK(error_with({2, 2}, [&](auto& w) {
          w.node("MatMulInteger", {bytes_of(w, "a", {}), bytes_of(w, "b", {}), "", bytes_of(w, "z", {1})}, {"y"});
        }) != "");
  CHECK(error_with({1, 2, 4}, [&](auto& w) {
          w.node("RotaryEmbedding", {"x", zero(w, "i"), zero(w, "c"), zero(w, "s")}, {"y"}, {}, ms);
        }) != "");
  CHECK(error_with({2, 2}, [&](auto& w) {
          w.node("Attention", {"x", "x", zero(w, "b")}, {"y"}, {{"num_heads", int64_t{1}}}, ms);
        }) != "");
  CHECK(error_with({1, 2, 4}, [&](auto& w) {
          w.node("GroupQueryAttention",
                 {"x", "x", "x", "", "", w.initializer("l", {{1}, Ints{1}}), w.initializer("t", {{}, Ints{2}})}, {"y"},
                 {{"num_heads", huge[0]}, {"kv_num_heads", huge[0]}}, ms);
        }) != "");
  CHECK(error_with({2, 4}, [&](auto& w) {
          w.node("QuantizeLinear", {"x", zero(w, "s")}, {"y"}, {{"block_size", huge[0]}});
        }) != "");
  CHECK(error_with({1, 32}, [&](auto& w) {
          w.node("MatMulNBits", {"x", bytes_of(w, "w", {16}), zero(w, "s")}, {"y"},
                 {{"K", huge[0]}, {"N", huge[0]}, {"block_size", huge[0]}}, ms);
        }) != "");
  CHECK(error_with({4}, [&](auto& w) {
          w.node("SplitToSequence", {"x", w.initializer("n", {{}, Ints{INT64_MAX}})}, {"q"});
          w.node("SequenceAt", {"q", "q"}, {"y"});
        }) != "");
  CHECK(error_with({1, 4, 1}, [&](auto& w) {
          const Ints wide(6, int64_t{1} << 24);
          w.node("Col2Im", {"x", w.initializer("i", {{6}, wide}), w.initializer("b", {{6}, wide})}, {"y"});
        }) != "");
  CHECK(error_with({4}, [&](auto& w) { w.node("Einsum", {"x"}, {"y"}, {{"equation", std::string(5000, 'i')}}); }) !=
        "");
}
