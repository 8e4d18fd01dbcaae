// Files that come from anybody: models of awkward shapes, libraries, records, descriptions of machines.
#include <sys/resource.h>

#include "model_bytes.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

double child_seconds() {
  rusage use{};
  getrusage(RUSAGE_CHILDREN, &use);
  return static_cast<double>(use.ru_utime.tv_sec) + 1e-6 * static_cast<double>(use.ru_utime.tv_usec);
}

// y = x + x, again and again: each value is read twice.
std::string diamonds(int levels) {
  std::string graph;
  for (int i = 0; i < levels; ++i) {
    const std::string from = i == 0 ? "x" : "t" + std::to_string(i),
                      to = i + 1 == levels ? "y" : "t" + std::to_string(i + 1);
    graph += field(1, field(1, from) + field(1, from) + field(2, to) + field(4, "Add"));
  }
  graph += field(2, "diamonds") + field(11, tensor("x")) + field(12, tensor("y"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

// y = x[-1], without any axis.
std::string last_element() {
  const std::string index = number(2, 7) + field(8, "i") + field(9, std::string(8, '\xff'));
  const std::string scalar = field(1, "y") + field(2, field(1, number(1, 1) + field(2, "")));
  const std::string node = field(1, "x") + field(1, "i") + field(2, "y") + field(4, "Gather");
  const std::string graph =
      field(1, node) + field(2, "last") + field(5, index) + field(11, tensor("x")) + field(12, scalar);
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

}  // namespace

TEST_CASE("values that are read twice, forty levels deep, cost no more than others", "[cli]") {
  Sandbox box;
  double seconds[2] = {};
  for (int levels : {1, 40}) {
    spill(box.path("m.onnx"), diamonds(levels));
    const double before = child_seconds();
    const Outcome built = box.tcc({"build", "m.onnx", "-o", "out", "-q"});
    CAPTURE(built.err);
    REQUIRE(built.exit_code == 0);
    seconds[levels == 40] = child_seconds() - before;
  }
  CHECK(seconds[1] < seconds[0] + 1);
  const Outcome verified = box.tcc({"verify", "out/libm.so"});
  CAPTURE(verified.err);
  CHECK(verified.exit_code == 0);
}

TEST_CASE("a result without axes", "[cli]") {
  Sandbox box;
  spill(box.path("last.onnx"), last_element());
  CHECK(box.tcc({"inspect", "last.onnx"}).exit_code == 0);
  REQUIRE(box.tcc({"build", "last.onnx", "-o", "out", "-q"}).exit_code == 0);
  CHECK(box.tcc({"verify", "out/liblast.so"}).exit_code == 0);
}

TEST_CASE("inspect runs nothing of a library", "[cli]") {
  Sandbox box;
  const Outcome seen = box.tcc({"inspect", TCC_CONSTRUCTOR_LIBRARY});  // whose constructor ends the process
  CAPTURE(seen.err);
  CHECK(seen.exit_code == 0);
  CHECK_THAT(seen.out, Contains("'constructor'"));
}

TEST_CASE("texts of records do not reach the terminal as they are", "[cli]") {
  Sandbox box;
  spill(box.path("r.jsonl"),
        R"({"task":"0000000000000001","target_features":"0000000000000002","nest":"0000000000000003","status":"ok",)"
        R"("median":1e-3,"threads":1,"workload":"a\u001b]0;title\u0007b","target":"h\u009b31m"})"
        "\n");
  REQUIRE(box.tcc({"db", "import", "r.jsonl", "--db", "r.db"}).exit_code == 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"db", "stats", "--db", "r.db"}, {"inspect", "r.db"}}) {
    const Outcome shown = box.tcc(words);
    CAPTURE(shown.out, shown.err);
    REQUIRE(shown.exit_code == 0);
    CHECK_THAT(shown.out, Contains("a\\x1b]0;title\\x07b") && Contains("h\\xc2\\x9b31m"));
    CHECK(shown.out.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("numbers that a double cannot hold are an error of the file", "[cli]") {
  Sandbox box;
  spill(box.path("t.json"), R"({"name":"x","cpu":{"threads":1e999}})");
  check_error(box.tcc({"show", "zoo:mlp", "--target-file", "t.json"}), 1, "out of range");
}
