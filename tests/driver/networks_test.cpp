// What becomes of the zoo's networks before anything is tuned.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "tcc/driver/compile.h"

using namespace tcc;
using namespace tcc::driver;

namespace {

Program program_of(const std::string& model) {
  ModelSource source;
  source.model = model;
  auto loaded = load_model(source);
  INFO((loaded ? "" : loaded.error().message));
  REQUIRE(loaded);
  auto program = make_program(*loaded, target::host_target());
  INFO((program ? "" : program.error().message));
  REQUIRE(program);
  return std::move(*program);
}

int64_t count(const graph::Graph& g, graph::Op op) {
  return std::count_if(g.order.begin(), g.order.end(), [&](graph::NodeId id) { return g.node(id).op == op; });
}

}  // namespace

TEST_CASE("networks stay within their numbers of tasks and need no transposes") {
  struct Case {
    const char* model;
    size_t most;
  };
  for (const Case& c : {Case{"zoo:resnet50", 30}, {"zoo:mobilenet_v2", 32}, {"zoo:bert-tiny", 14}}) {
    INFO(c.model);
    const Program program = program_of(c.model);
    CHECK(program.tasks.tasks.size() <= c.most);
    CHECK(count(program.graph, graph::Op::kTranspose) == 0);
    CHECK(count(program.graph, graph::Op::kSlice) == 0);
  }
}

TEST_CASE("layers of BERT share their tasks, however many there are") {
  const Program tiny = program_of("zoo:bert-tiny"), base = program_of("zoo:bert-base");
  CHECK(base.tasks.tasks.size() == tiny.tasks.tasks.size());
  CHECK(base.tasks.tasks.size() <= 14);
  // Each layer's attention is one of them.
  int64_t attentions = 0;
  for (const task::Task& t : base.tasks.tasks) {
    attentions += t.anchor == task::AnchorKind::kAttention ? t.weight : 0;
    CHECK(t.workload.find("softmax") == std::string::npos);
  }
  CHECK(attentions == 12);
}
