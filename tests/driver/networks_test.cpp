// What becomes of the zoo's networks before anything is tuned.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "nvrtc.h"
#include "tcc/driver/compile.h"
#include "tcc/support/files.h"

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
    int64_t slices;  // the first token, of a tensor that is an output of the network, too
  };
  for (const Case& c : {Case{"zoo:resnet50", 30, 0}, {"zoo:mobilenet_v2", 32, 0}, {"zoo:bert-tiny", 14, 1}}) {
    INFO(c.model);
    const Program program = program_of(c.model);
    CHECK(program.tasks.tasks.size() <= c.most);
    CHECK(count(program.graph, graph::Op::kTranspose) == 0);
    CHECK(count(program.graph, graph::Op::kSlice) == c.slices);
  }
}

TEST_CASE("layers of BERT share their tasks, however many there are") {
  const Program tiny = program_of("zoo:bert-tiny"), base = program_of("zoo:bert-base");
  CHECK(base.tasks.tasks.size() == tiny.tasks.tasks.size());
  CHECK(base.tasks.tasks.size() <= 12);
  // Each layer's attention is one of them.
  int64_t attentions = 0;
  for (const task::Task& t : base.tasks.tasks) {
    attentions += t.anchor == task::AnchorKind::kAttention ? t.weight : 0;
    CHECK(t.workload.find("softmax") == std::string::npos);
  }
  CHECK(attentions == 12);
}

TEST_CASE("BERT in 16 bits has as few tasks") {
  ModelSource source;
  source.model = "zoo:bert-tiny";
  source.precision = target::Precision::kF16;
  auto loaded = load_model(source);
  REQUIRE(loaded);
  auto target = target::find_target("a100");
  REQUIRE(target);
  auto program = make_program(*loaded, *target);
  REQUIRE(program);
  CHECK(program->tasks.tasks.size() <= 12);
}

// With NVRTC every kernel of every network is compiled; in a soak alone, for it takes minutes.
TEST_CASE("every network of the zoo becomes tasks for GPUs", "[fuzz]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  for (const onnx::ZooEntry& entry : onnx::zoo_models()) {
    const bool heavy = entry.name == "vgg16" || entry.name == "mistral-7b" || entry.name == "opt-1.3b";
    if (!soak && (heavy || entry.name == "wide_resnet50" || entry.name == "bert-large")) continue;
    INFO(entry.name);
    ModelSource source;
    source.model = "zoo:" + entry.name;
    if (onnx::check_zoo_size(entry.name, "image")) source.zoo.image = entry.name == "inception_v3" ? 96 : 64;
    if (onnx::check_zoo_size(entry.name, "sequence")) source.zoo.sequence = 8;
    if (onnx::check_zoo_size(entry.name, "layers")) source.zoo.layers = 1;
    auto loaded = load_model(source);
    REQUIRE(loaded);
    for (const char* name : {"a100", "h200"}) {
      auto target = target::find_target(name);
      REQUIRE(target);
      auto program = make_program(*loaded, *target);
      REQUIRE(program);
      if (!soak || !codegen::nvrtc_available()) continue;
      auto folder = TemporaryDirectory::create("tcc-zoo-test-");
      REQUIRE(folder);
      BuildOptions options;
      options.folder = (*folder)->path();
      options.targets = {*target};
      auto built = build_model(*loaded, options);
      INFO((built ? "" : built.error().message));
      CHECK(built);
    }
  }
}
