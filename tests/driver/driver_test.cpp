#include <catch2/catch.hpp>
#include <cmath>

#include "package/library_file.h"
#include "tcc/driver/library.h"
#include "tcc/driver/model.h"
#include "tcc/driver/show.h"
#include "tcc/graph/reference.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::driver;

TEST_CASE("a library's metadata leads back to the same model") {
  ModelSource source;
  source.model = "zoo:mlp";
  source.zoo.batch = 3;
  source.zoo.seed = 11;
  source.reseed = 42;
  auto model = load_model(source);
  REQUIRE(model.has_value());
  const std::string metadata = "{\"source\": " + source_to_json(*model, 2.5e6) + "}";
  auto recorded = source_from_metadata(metadata, "lib.so");
  REQUIRE(recorded.has_value());
  CHECK(recorded->flops == 2.5e6);
  CHECK(recorded->hash == model->hash);
  auto again = load_recorded(*recorded, "");
  REQUIRE(again.has_value());
  CHECK(again->hash == model->hash);
  REQUIRE(again->graph.inputs.size() == 1);
  CHECK(again->graph.value(again->graph.inputs[0]).shape == graph::Shape{3, 784});

  // Same reseeded weights: the references agree.
  auto input = graph::random_tensor(model->graph.value(model->graph.inputs[0]), 1);
  auto a = graph::run_reference(model->graph, {input}), b = graph::run_reference(again->graph, {input});
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  CHECK(a->at(0).data == b->at(0).data);

  source.zoo.seed = 12;
  auto other = load_model(source);
  REQUIRE(other.has_value());
  CHECK(other->hash != model->hash);
}

TEST_CASE("damaged ranges in metadata are read without an exception", "[errors]") {
  for (const char* ranges : {"[3]", "[[]]", R"([{"name": "n", "low": "x", "high": [], "tuned": "y"}])",
                             R"([{"name": 1, "tuned": [1.5, "a", 4]}])", "[null]", "{}", "7"}) {
    CAPTURE(ranges);
    const std::string text = fmt::format(R"({{"source": {{"model": "zoo:mlp", "ranges": {}}}}})", ranges);
    const auto recorded = source_from_metadata(text, "lib.so");
    REQUIRE(recorded.has_value());
    CHECK(recorded->source.ranges.size() <= 1);
  }
}

TEST_CASE("the past of a zoo decoder is the length of its keys, whatever the decoder") {
  for (const char* name : {"zoo:gpt2", "zoo:llama", "zoo:llama-tiny"}) {
    CAPTURE(name);
    ModelSource source;
    source.model = name;
    if (std::string(name) != "zoo:llama-tiny") source.zoo.layers = source.zoo.sequence = 1;
    source.import_options.dims["past"] = 5;
    const auto model = load_model(source);
    REQUIRE(model.has_value());
    bool reads_keys = false;
    for (graph::ValueId id : model->graph.inputs) {
      const graph::Shape& shape = model->graph.value(id).shape;
      reads_keys = reads_keys || (shape.size() == 4 && shape[2] == 5);
    }
    CHECK(reads_keys);
  }
  ModelSource source;
  source.model = "zoo:mlp";
  source.import_options.dims["past"] = 5;
  const auto model = load_model(source);
  REQUIRE_FALSE(model.has_value());
  CHECK(model.error().hint == "it has batch");
}

TEST_CASE("metadata that names no model is an error", "[errors]") {
  for (const char* text :
       {"", "{", "[]", "{}", "{\"source\": 3}", "{\"source\": {}}", "{\"source\": {\"model\": 3}}"}) {
    CAPTURE(text);
    auto recorded = source_from_metadata(text, "lib.so");
    REQUIRE_FALSE(recorded.has_value());
    CHECK(recorded.error().message.find("lib.so") != std::string::npos);
  }
  RecordedSource gone;
  gone.source.model = "no/such/file.onnx";
  auto model = load_recorded(gone, "");
  REQUIRE_FALSE(model.has_value());
  CHECK(model.error().hint.find("--model") != std::string::npos);
}

TEST_CASE("library names come from model names") {
  CHECK(model_stem("zoo:resnet18") == "resnet18");
  CHECK(model_stem("a/b.c/net.v2.onnx") == "net.v2");
}

TEST_CASE("statistics of timings") {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Statistics s = summarise(samples);
  CHECK(s.runs == 100);
  CHECK(s.min == 1);
  CHECK(s.mean == Approx(50.5));
  CHECK(s.median == Approx(50.5));
  CHECK(s.p90 == 90);
  CHECK(s.p95 == 95);
  CHECK(s.p99 == 99);
  CHECK(s.variation == Approx(std::sqrt(100.0 * 101 / 12) / 50.5));
  const Statistics one = summarise({3});
  CHECK(one.median == 3);
  CHECK(one.p99 == 3);
  CHECK(one.variation == 0);
}

TEST_CASE("a program's tasks cover its groups") {
  auto model = load_model({"zoo:resnet18", {}, {1, 64, 1}, {}});
  REQUIRE(model.has_value());
  auto program = make_program(*model);
  REQUIRE(program.has_value());
  int64_t kernels = 0;
  double flops = 0;
  for (const task::Task& task : program->tasks.tasks) {
    kernels += task.weight;
    flops += task.flops * static_cast<double>(task.weight);
  }
  CHECK(kernels == static_cast<int64_t>(program->groups.size()));
  CHECK(flops == Approx(program->flops).epsilon(0.05));
  auto tasks = summarise_tasks(*program, nullptr, target::host_target(), 1);
  REQUIRE(tasks.has_value());
  CHECK(tasks->size() == program->tasks.tasks.size());
  CHECK_FALSE(show_task(*program, "99", nullptr, target::host_target(), 1).has_value());
  CHECK_FALSE(show_task(*program, "", nullptr, target::host_target(), 1).has_value());
}

TEST_CASE("layouts: the target gives the width of the blocks, and the model's inputs and outputs stay as they are") {
  ModelSource source;
  source.model = "zoo:resnet18";
  source.zoo.image = 32;
  source.layouts = Layouts::kBlocked;
  auto model = load_model(source);
  REQUIRE(model.has_value());
  for (auto [name, block] : {std::pair{"x86-64-v3", 8}, {"x86-64-v4", 16}}) {
    auto target = target::find_target(name);
    REQUIRE(target.has_value());
    auto program = make_program(*model, *target);
    REQUIRE(program.has_value());
    const std::string blocks = "blocks of " + std::to_string(block);
    int64_t convolutions = 0;
    for (const task::Task& task : program->tasks.tasks) {
      if (task.workload.find("conv2d") == std::string::npos) continue;
      INFO(task.workload);
      CHECK(task.workload.find(blocks) != std::string::npos);
      ++convolutions;
    }
    CHECK(convolutions > 5);
    CHECK(program->graph.value(program->graph.inputs[0]).shape == model->graph.value(model->graph.inputs[0]).shape);
    CHECK(program->graph.value(program->graph.outputs[0]).shape == graph::Shape{1, 1000});
  }
}

TEST_CASE("a wrong library does not pass", "[errors]") {
  auto folder = TemporaryDirectory::create("tcc-driver-test-");
  REQUIRE(folder.has_value());
  auto build = [&](uint64_t reseed, const std::string& name) {
    auto model = load_model({"zoo:mlp", {}, {}, reseed});
    REQUIRE(model.has_value());
    BuildOptions options;
    options.folder = (*folder)->path() + "/" + name;
    options.targets = {target::host_target()};
    auto report = build_model(*model, options);
    REQUIRE(report.has_value());
    CHECK(report->kernels.size() == 3);
    for (const KernelChoice& kernel : report->kernels) {
      CHECK_FALSE(kernel.tuned);
      CHECK_FALSE(kernel.note.empty());
    }
    return report->package.library;
  };
  const std::string library = build(1, "right");
  auto right = verify_library(library, {});
  REQUIRE(right.has_value());
  CHECK(right->passed());
  REQUIRE(right->outputs.size() == 1);
  CHECK(right->outputs[0].max_error < 1e-5);

  // The same library whose metadata claims other weights: the numbers must not agree. Same length, so the bytes of the
  // library stay where they are.
  auto bytes = read_file(library);
  REQUIRE(bytes.has_value());
  const std::string claim = "\"reseed_weights\": 1";
  const size_t at = bytes->find(claim);
  REQUIRE(at != std::string::npos);
  (*bytes)[at + claim.size() - 1] = '2';
  const std::string wrong_library = (*folder)->path() + "/wrong/libmlp.so";
  REQUIRE(make_directories((*folder)->path() + "/wrong").has_value());
  REQUIRE(write_file(wrong_library, *bytes).has_value());
  CHECK_FALSE(verify_library(wrong_library, {}).has_value());  // its checksum says that it was changed
  REQUIRE(package::seal_library(wrong_library).has_value());
  auto wrong = verify_library(wrong_library, {});
  REQUIRE(wrong.has_value());
  CHECK_FALSE(wrong->passed());
  CHECK(wrong->outputs[0].max_error > 1e-3);
  CHECK(wrong->outputs[0].failure.find("the error at [") != std::string::npos);
}
