// ONNX models written byte by byte, and what every error of the command line has in common.
#pragma once

#include "runner.h"

namespace cli_test {

// One message that names the error, and nothing on stdout.
inline void check_error(const Outcome& outcome, int exit_code, const std::string& part) {
  CAPTURE(outcome.out, outcome.err);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, Catch::Matchers::Contains("tcc: error: ") && Catch::Matchers::Contains(part));
  CHECK(outcome.err.find("tcc: error: ") == outcome.err.rfind("tcc: error: "));
}

// Just enough of the protobuf encoding to write a model by hand.
inline std::string number(int field, uint64_t value) {
  std::string bytes(1, static_cast<char>(field << 3));
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
inline std::string field(int field, const std::string& content) {
  std::string bytes = number(field, content.size());
  bytes[0] = static_cast<char>(bytes[0] | 2);
  return bytes + content;
}
inline std::string tensor(const std::string& name) {
  const std::string shape = field(1, number(1, 4));
  return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)));
}
// A chain of operators without attributes, from x to y.
inline std::string chain_model(const std::vector<std::string>& ops) {
  std::string graph;
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::string from = i == 0 ? "x" : "t" + std::to_string(i),
                      to = i + 1 == ops.size() ? "y" : "t" + std::to_string(i + 1);
    graph += field(1, field(1, from) + field(2, to) + field(4, ops[i]));
  }
  graph += field(2, "chain") + field(11, tensor("x")) + field(12, tensor("y"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

// y = a + b, vectors of four floats; `dim` names the extent instead where it is not empty.
inline std::string sum_model(const std::string& dim = "") {
  auto input = [&](const std::string& name) {
    if (dim.empty()) return tensor(name);
    const std::string shape = field(1, field(2, dim));
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)));
  };
  const std::string node = field(1, "a") + field(1, "b") + field(2, "y") + field(4, "Add");
  const std::string graph =
      field(1, node) + field(2, "sum") + field(11, input("a")) + field(11, input("b")) + field(12, input("y"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

}  // namespace cli_test
