// Libraries whose outputs have extents that depend on the data: each run gives the actual ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tcc/driver/library.h"
#include "tcc/driver/run.h"
#include "tcc/onnx/writer.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::driver;

namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

struct CountedLibrary {
  std::unique_ptr<TemporaryDirectory> folder;
  std::shared_ptr<package::LoadedModel> library;
  std::unique_ptr<package::ModelContext> context;
};

Result<BuildReport> build_counted_in(const std::string& folder, const std::string& bytes) {
  const std::string file = folder + "/counts.onnx";
  REQUIRE(write_file(file, bytes).has_value());
  ModelSource source;
  source.model = file;
  auto model = load_model(source);
  if (!model) FAIL(model.error().message);
  BuildOptions options;
  options.folder = folder;
  options.targets = {target::host_target()};
  return build_model(*model, options);
}

CountedLibrary build_counted(const std::string& bytes) {
  auto folder = TemporaryDirectory::create("tcc-counts-test-");
  REQUIRE(folder.has_value());
  CountedLibrary built{std::move(*folder), nullptr, nullptr};
  auto report = build_counted_in(built.folder->path(), bytes);
  if (!report) FAIL(report.error().message);
  auto library = package::LoadedModel::open(report->package.library);
  if (!library) FAIL(library.error().message);
  built.library = *library;
  auto context = built.library->create_context({.threads = 2});
  REQUIRE(context.has_value());
  built.context = std::move(*context);
  return built;
}

struct CountedOutput {
  graph::Shape shape;
  Doubles data;
};

std::vector<CountedOutput> run_counted(CountedLibrary& built, const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& x : inputs) in.push_back(x.data());
  for (const package::TensorSpec& spec : built.library->outputs())
    memory.emplace_back(static_cast<size_t>(spec.bytes), std::byte{0x7f});
  for (auto& bytes : memory) out.push_back(bytes.data());
  auto done = built.context->run(in, out);
  if (!done) FAIL(done.error().message);
  std::vector<CountedOutput> outputs;
  for (size_t i = 0; i < memory.size(); ++i) {
    const graph::DType dtype = built.library->outputs()[i].dtype;
    CountedOutput output{built.context->output_shape(i), {}};
    const int64_t count = graph::element_count(output.shape);
    memory[i].resize(static_cast<size_t>(count * graph::dtype_size(dtype)));
    output.data = graph::constant_doubles(graph::make_constant(std::move(memory[i])), dtype, count);
    outputs.push_back(std::move(output));
  }
  return outputs;
}

// Places of what is above 0, the elements there, and the rows of x whose first element is above 0.
std::string selecting_model(const graph::Shape& shape) {
  onnx::ModelWriter w("selecting", 18);
  w.input("x", shape);
  w.initializer("limit", {{}, std::vector<float>{0}});
  w.initializer("first", {{1}, Ints{0}});
  w.node("Greater", {"x", "limit"}, {"above"});
  w.node("NonZero", {"above"}, {"places"});
  w.node("Transpose", {"places"}, {"turned"});
  w.node("GatherND", {"x", "turned"}, {"elements"});
  w.initializer("columns", {{2}, Ints{shape[0], -1}});
  w.initializer("flat", {{1}, Ints{-1}});
  w.node("Reshape", {"above", "columns"}, {"matrix"});
  w.initializer("one", {{}, Ints{0}});
  w.node("Gather", {"matrix", "one"}, {"column"}, {{"axis", int64_t{1}}});
  w.node("Compress", {"x", "column"}, {"rows"}, {{"axis", int64_t{0}}});
  w.output("places", graph::DType::kI64);
  w.output("elements");
  w.output("rows");
  return w.finish();
}

}  // namespace

TEST_CASE("outputs of random shapes have the extents and the elements that the data say, run after run") {
  Rng rng(20261127);
  for (int draw = 0; draw < 12; ++draw) {
    graph::Shape shape;
    for (int64_t axes = 1 + rng.below(4); axes-- > 0;) shape.push_back(1 + rng.below(draw < 8 ? 5 : 17));
    INFO("draw " << draw << ", shape " << graph::shape_text(shape));
    CountedLibrary built = build_counted(selecting_model(shape));
    const int64_t count = graph::element_count(shape), inner = count / shape[0];
    for (double share : {0.5, 0.0, 1.0, 0.1}) {
      std::vector<float> x;
      for (int64_t i = 0; i < count; ++i)
        x.push_back(rng.uniform() < share ? static_cast<float>(i + 1) : -static_cast<float>(i + 1));
      std::vector<int64_t> found;
      for (int64_t i = 0; i < count; ++i)
        if (x[static_cast<size_t>(i)] > 0) found.push_back(i);
      const std::vector<CountedOutput> outputs = run_counted(built, {x});
      Doubles places, elements, rows;
      int64_t step = count;
      for (int64_t extent : shape) {
        step /= extent;
        for (int64_t i : found) places.push_back(static_cast<double>(i / step % extent));
      }
      for (int64_t i : found) elements.push_back(x[static_cast<size_t>(i)]);
      for (int64_t row = 0; row < shape[0]; ++row)
        if (x[static_cast<size_t>(row * inner)] > 0)
          rows.insert(rows.end(), x.begin() + row * inner, x.begin() + (row + 1) * inner);
      CHECK(outputs[0].shape == graph::Shape{std::ssize(shape), std::ssize(found)});
      CHECK(outputs[0].data == places);
      CHECK(outputs[1].shape == graph::Shape{std::ssize(found)});
      CHECK(outputs[1].data == elements);
      CHECK(outputs[2].shape[0] == std::ssize(rows) / inner);
      CHECK(outputs[2].data == rows);
    }
    CHECK(built.context->self_test().has_value());
  }
}

TEST_CASE("header, metadata and summary say which extents a run computes") {
  CountedLibrary built = build_counted(selecting_model({2, 3}));
  auto header = read_file(built.folder->path() + "/counts.h");
  REQUIRE(header.has_value());
  CHECK_THAT(*header, Catch::Contains("n0, at most 6") && Catch::Contains("of shape 2 x n0") &&
                          Catch::Contains("n1, at most 2") && Catch::Contains("of shape n1 x 3"));
  const auto metadata = nlohmann::json::parse(built.library->metadata_json());
  CHECK(metadata["counts"] == nlohmann::json::array({6, 2}));
  CHECK(metadata["outputs"][0]["sizes"] == "2 x n0");
  CHECK(built.library->outputs()[0].shape == graph::Shape{2, 6});
  CHECK(built.library->dims().empty());
}

TEST_CASE("verify compares the extents that depend on the data, and the elements before them") {
  auto folder = TemporaryDirectory::create("tcc-counts-test-");
  REQUIRE(folder.has_value());
  auto report = build_counted_in((*folder)->path(), selecting_model({4, 5}));
  REQUIRE(report.has_value());
  VerifyOptions options;
  options.ranges["x"] = {-1, 1};
  auto verified = verify_library(report->package.library, options);
  if (!verified) FAIL(verified.error().message);
  CHECK(verified->verdict == Verdict::kRight);
  REQUIRE(verified->outputs.size() == 3);
}
