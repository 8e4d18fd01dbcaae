// `tcc verify` as a user calls it: verdicts and their exit codes, inputs and expected outputs from files (finding U4).
#include <nlohmann/json.hpp>

#include "model_bytes.h"
#include "tcc/driver/tensor_file.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

void save(const fs::path& path, const std::vector<std::pair<std::string, std::vector<float>>>& arrays) {
  std::vector<tcc::driver::NamedTensor> tensors;
  for (const auto& [name, values] : arrays)
    tensors.push_back({name,
                       tcc::graph::DType::kF32,
                       {std::ssize(values)},
                       {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)}});
  REQUIRE(tcc::driver::write_npz(path.string(), tensors).has_value());
}

// y = a b, square matrices.
std::string square_product(uint64_t n) {
  const std::string shape = field(1, number(1, n)) + field(1, number(1, n));
  const auto matrix = [&](const std::string& name) {
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)));
  };
  const std::string node = field(1, "a") + field(1, "b") + field(2, "y") + field(4, "MatMul");
  return number(1, 8) +
         field(7, field(1, node) + field(2, "product") + field(11, matrix("a")) + field(11, matrix("b")) +
                      field(12, matrix("y"))) +
         field(8, number(2, 13));
}

}  // namespace

TEST_CASE("S3: verify says what a large reference costs before it begins", "[cli]") {
  Sandbox box;
  spill(box.path("large.onnx"), square_product(1200));
  const Outcome large = box.tcc({"verify", "large.onnx"});
  CHECK(large.exit_code == 0);
  CHECK_THAT(large.err, Contains("reference: 10.4 GFLOP in double precision on ") && Contains("of memory"));
  spill(box.path("small.onnx"), square_product(16));
  CHECK_THAT(box.tcc({"verify", "small.onnx"}).err, !Contains("reference:"));
}

TEST_CASE("U4: verify says of a constant output that it says nothing, with an exit code of its own", "[cli]") {
  Sandbox box;
  spill(box.path("square.onnx"), chain_model({"Relu", "Relu"}));
  REQUIRE(box.tcc({"build", "square.onnx", "-q", "-o", "out"}).exit_code == 0);
  const std::vector<std::string> constant = {"verify", "out/libsquare.so", "--input-range", "x=-2:-1"};
  const Outcome text = box.tcc(constant);
  INFO(text.out << text.err);
  CHECK(text.exit_code == 4);
  CHECK_THAT(text.out, Contains("inconclusive") && Contains("self test ok") && !Contains("FAILED"));
  CHECK_THAT(text.err, Contains("output y: is 0 everywhere, in the reference too") && Contains("--inputs FILE.npz"));
  std::vector<std::string> words = constant;
  words.push_back("--json");
  const Outcome json = box.tcc(words);
  CHECK(json.exit_code == 4);
  CHECK(Json::parse(json.out)["verdict"] == "inconclusive");
  CHECK(box.tcc({"verify", "out/libsquare.so", "--input-range", "x=-1:1"}).exit_code == 0);
}

TEST_CASE("verify compares with what ONNX Runtime says of the same inputs", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out"}).exit_code == 0);
  save(box.path("in.npz"), {{"a", {1, 2, 3, 4}}, {"b", {10, 20, 30, 40}}});
  save(box.path("right.npz"), {{"y", {11, 22, 33, 44}}});
  save(box.path("wrong.npz"), {{"y", {11, 22, 33.001F, 44}}});
  // Interpreters that are called as Python is: with the script, the model, the inputs and the place for the outputs.
  auto interpreter = [&](const std::string& name, const std::string& commands) {
    spill(box.path(name), "#!/bin/sh\n" + commands + "\n");
    fs::permissions(box.path(name), fs::perms::owner_all);
    return box.path(name).string();
  };
  auto verify = [&](const std::string& python) {
    return box.tcc({"verify", "out/libsum.so", "--inputs", "in.npz", "--against", "onnxruntime", "--python", python});
  };
  const std::string folder = box.path("").string();
  const Outcome right = verify(interpreter("right", "cmp \"$3\" \"$3\" && cp '" + folder + "/right.npz' \"$4\""));
  INFO(right.out << right.err);
  CHECK(right.exit_code == 0);
  CHECK_THAT(right.out, Contains("against ONNX Runtime of"));
  const Outcome wrong = verify(interpreter("wrong", "cp '" + folder + "/wrong.npz' \"$4\""));
  CHECK(wrong.exit_code == 1);
  CHECK_THAT(wrong.err, Contains("does not compute what its model says") && Contains("without --against"));
  const Outcome without = verify(interpreter("without", "echo No module named onnxruntime; exit 3"));
  CHECK(without.exit_code != 0);
  CHECK_THAT(without.err, Contains("lacks a module: No module named onnxruntime") && Contains("pip install"));
  CHECK_THAT(verify(interpreter("refuses", "echo no such operator; exit 4")).err,
             Contains("ONNX Runtime does not run") && Contains("no such operator"));
  CHECK_THAT(verify("/nowhere/python").err, Contains("no program '/nowhere/python'"));
  check_error(box.tcc({"verify", "out/libsum.so", "--against", "tvm"}), 2, "expected onnxruntime");
  check_error(box.tcc({"verify", "out/libsum.so", "--against", "onnxruntime", "--expected", "right.npz"}), 2,
              "leave one of the two out");
}

TEST_CASE("U4: verify takes inputs and expected outputs from files", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out"}).exit_code == 0);
  save(box.path("in.npz"), {{"a", {1, 2, 3, 4}}, {"b", {10, 20, 30, 40}}});
  save(box.path("right.npz"), {{"y", {11, 22, 33, 44}}});
  save(box.path("wrong.npz"), {{"y", {11, 22, 33.001F, 44}}});
  save(box.path("short.npz"), {{"y", {11, 22, 33}}});
  save(box.path("other.npz"), {{"z", {11, 22, 33, 44}}});
  auto verify = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"verify", "out/libsum.so"});
    return box.tcc(more);
  };
  const Outcome given = verify({"--inputs", "in.npz"});
  CHECK(given.exit_code == 0);
  CHECK_THAT(given.out, Contains("input   b f32 4  from 10 to 40") && Contains("output  y f32 4  from 11 to 44") &&
                            Contains("is allowed for f32 over 1 term: ok"));
  CHECK(verify({"--inputs", "in.npz", "--expected", "right.npz"}).exit_code == 0);
  const Outcome wrong = verify({"--inputs", "in.npz", "--expected", "wrong.npz"});
  CHECK(wrong.exit_code == 1);
  CHECK_THAT(wrong.out, Contains("at [2]") && Contains("FAILED"));
  CHECK_THAT(wrong.err, Contains("does not compute what its model says") && Contains("without --expected"));
  check_error(verify({"--inputs", "in.npz", "--expected", "short.npz"}), 1, "has shape 3");
  check_error(verify({"--expected", "other.npz"}), 2, "no output 'z'");
  check_error(verify({"--inputs", "right.npz"}), 2, "no input 'y'");
  check_error(verify({"--inputs", "none.npz"}), 1, "none.npz");
  check_error(verify({"--input-range", "a=1"}), 2, "NAME=LOW:HIGH");
  check_error(verify({"--input-range", "a=2:1"}), 2, "'a=2:1'");
  check_error(verify({"--input-seed", "a=x"}), 2, "NAME=7");
  check_error(verify({"--input-seed", "c=3"}), 2, "no input 'c'");
  const std::string one = verify({"--input-seed", "a=3"}).out, two = verify({"--input-seed", "a=4"}).out;
  CHECK(one != two);
  CHECK(one == verify({"--input-seed", "a=3"}).out);
}

TEST_CASE("verify names results below the normal range that kernels flush", "[cli]") {
  Sandbox box;
  spill(box.path("exp.onnx"), chain_model({"Exp"}));
  save(box.path("in.npz"), {{"x", {0, 1, -90, -100}}});  // 8e-40 is a denormal of f32, 4e-44 one of a few bits
  const Outcome small = box.tcc({"verify", "exp.onnx", "--inputs", "in.npz"});
  INFO(small.out << small.err);
  CHECK(small.exit_code == 0);
  CHECK_THAT(small.out, Contains("2 values below the smallest normal number of f32 in the reference are 0"));
  const Outcome json = box.tcc({"verify", "exp.onnx", "--inputs", "in.npz", "--json"});
  CHECK(Json::parse(json.out).at("outputs").at(0).at("flushed") == 2);
  save(box.path("normal.npz"), {{"x", {0, 1, -80, 2}}});
  CHECK_THAT(box.tcc({"verify", "exp.onnx", "--inputs", "normal.npz"}).out, !Contains("smallest normal"));
  // Quotients below the normal range are kept where the caller asks for it.
  spill(box.path("inverse.onnx"), chain_model({"Reciprocal"}));
  save(box.path("large.npz"), {{"x", {1, 2, 2e38F, 3e38F}}});
  const std::vector<std::string> verify{"verify", "inverse.onnx", "--inputs", "large.npz"};
  CHECK_THAT(box.tcc(verify).out, Contains("2 values below the smallest normal number of f32 in the reference are 0"));
  std::vector<std::string> keeping = verify;
  keeping.insert(keeping.end(), {"--denormals", "keep"});
  const Outcome kept = box.tcc(keeping);
  INFO(kept.out << kept.err);
  CHECK(kept.exit_code == 0);
  CHECK_THAT(kept.out, !Contains("smallest normal"));
}
