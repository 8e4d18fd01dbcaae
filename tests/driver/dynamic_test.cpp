// Libraries for several sizes: every size of their ranges equals the reference of the model at that size.
#include "tcc/driver/dynamic.h"

#include <catch2/catch.hpp>
#include <set>

#include "tcc/driver/library.h"
#include "tcc/onnx/writer.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::driver;

namespace {

using Ints = std::vector<int64_t>;

std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 7 + seed) % 13) / 13 - 0.5f);
  return values;
}

// Heads of an attention over "seq" tokens of "batch" sentences, as exporters write them: shapes are computed from the
// input's, and the context is averaged over the tokens.
std::string attention_model() {
  onnx::ModelWriter w("attention", 13);
  w.input("x", {1, 1, 8}, {"batch", "seq", ""});
  w.initializer("w", {{8, 24}, numbers(8 * 24, 3)});
  w.initializer("b", {{24}, numbers(24, 5)});
  w.initializer("two", {{1}, Ints{2}});
  w.initializer("zero", {{1}, Ints{0}});
  w.initializer("one", {{1}, Ints{1}});
  w.initializer("heads", {{2}, Ints{6, 4}});
  w.initializer("scale", {{}, std::vector<float>{0.5f}});
  w.node("Shape", {"x"}, {"shape"});
  w.node("Slice", {"shape", "zero", "two"}, {"leading"});
  w.node("Concat", {"leading", "heads"}, {"split"}, {{"axis", int64_t{0}}});
  w.node("Add", {w.node("MatMul", {"x", "w"}, {"product"}), "b"}, {"qkv"});
  w.node("Transpose", {w.node("Reshape", {"qkv", "split"}, {"parts"})}, {"turned"}, {{"perm", Ints{0, 2, 1, 3}}});
  auto part = [&](const char* name, int64_t from) {
    w.initializer(std::string(name) + ".from", {{1}, Ints{from}});
    w.initializer(std::string(name) + ".to", {{1}, Ints{from + 2}});
    return w.node("Slice", {"turned", std::string(name) + ".from", std::string(name) + ".to", "one"}, {name});
  };
  part("q", 0);
  part("k", 2);
  part("v", 4);
  w.node("Transpose", {"k"}, {"kt"}, {{"perm", Ints{0, 1, 3, 2}}});
  w.node("Mul", {w.node("MatMul", {"q", "kt"}, {"scores"}), "scale"}, {"scaled"});
  w.node("MatMul", {w.node("Softmax", {"scaled"}, {"weights"}, {{"axis", int64_t{-1}}}), "v"}, {"context"});
  w.node("ReduceMean", {"context"}, {"mean"}, {{"axes", Ints{2}}, {"keepdims", int64_t{0}}});
  w.output("context");
  w.output("mean");
  return w.finish();
}

std::string convolution_model() {
  onnx::ModelWriter w("convolution", 13);
  w.input("x", {1, 3, 10, 10}, {"n", "", "", ""});
  w.initializer("w", {{8, 3, 3, 3}, numbers(216, 1)});
  w.node("Conv", {"x", "w"}, {"y"}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}});
  w.node("MaxPool", {w.node("Relu", {"y"}, {"r"})}, {"p"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  w.node("Flatten", {w.node("GlobalAveragePool", {"p"}, {"g"})}, {"f"});
  w.initializer("c", {{8, 5}, numbers(40, 2)});
  w.node("MatMul", {"f", "c"}, {"out"});
  w.output("out");
  return w.finish();
}

// A step of decoding: keys and values behind those of the past, the position of the token from the past's length.
std::string cache_model() {
  onnx::ModelWriter w("cache", 13);
  w.input("x", {1, 1, 4});
  w.input("past", {1, 1, 4}, {"", "past", ""});
  w.initializer("one", {{1}, Ints{1}});
  w.node("Shape", {"past"}, {"shape"});
  w.node("Gather", {"shape", "one"}, {"length"});
  w.node("Cast", {"length"}, {"position"}, {{"to", int64_t{1}}});
  w.node("Add", {"x", "position"}, {"token"});
  w.node("Concat", {"past", "token"}, {"present"}, {{"axis", int64_t{1}}});
  w.node("Transpose", {"present"}, {"keys"}, {{"perm", Ints{0, 2, 1}}});
  w.node("Softmax", {w.node("MatMul", {"token", "keys"}, {"scores"})}, {"weights"}, {{"axis", int64_t{-1}}});
  w.node("MatMul", {"weights", "present"}, {"y"});
  w.output("y");
  w.output("present");
  return w.finish();
}

struct Built {
  std::unique_ptr<TemporaryDirectory> folder;
  package::PackageReport report;
  BuildReport build;
};

Built build(const std::string& bytes, const std::string& name, std::vector<graph::DimRange> ranges,
            const std::map<std::string, int64_t>& dims = {}) {
  auto folder = TemporaryDirectory::create("tcc-dynamic-test-");
  REQUIRE(folder.has_value());
  Built built{std::move(*folder), {}, {}};
  const std::string file = built.folder->path() + "/" + name + ".onnx";
  REQUIRE(write_file(file, bytes).has_value());
  ModelSource source;
  source.model = file;
  source.ranges = std::move(ranges);
  source.import_options.dims = dims;
  auto model = load_model(source);
  if (!model) FAIL(model.error().message);
  BuildOptions options;
  options.folder = built.folder->path();
  options.targets = {target::host_target()};
  auto report = build_model(*model, options);
  if (!report) FAIL(report.error().message << " " << report.error().hint);
  built.build = std::move(*report);
  built.report = built.build.package;
  return built;
}

void check_sizes(const Built& built, const std::vector<std::map<std::string, int64_t>>& all) {
  for (const auto& sizes : all) {
    INFO(sizes_text(sizes));
    VerifyOptions options;
    options.sizes = sizes;
    auto report = verify_library(built.report.library, options);
    if (!report) FAIL(report.error().message);
    for (const OutputCheck& output : report->outputs) {
      INFO(output.failure);
      CHECK(output.verdict == Verdict::kRight);
    }
    CHECK(report->self_test.empty());
  }
}

}  // namespace

TEST_CASE("ranges are parsed, and errors say which part is wrong") {
  auto range = parse_range("seq", "1..512@128,7,128");
  REQUIRE(range.has_value());
  CHECK(*range == graph::DimRange{"seq", 1, 512, {7, 128}});
  CHECK(parse_range("n", "2..9")->tuned.empty());
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{{"8..", "two numbers around '..'"},
                                                        {"..8", "two numbers around '..'"},
                                                        {"a..8", "two numbers around '..'"},
                                                        {"8@4", "two numbers around '..'"},
                                                        {"0..8", "a lowest size from 1 on, found 0"},
                                                        {"8..8", "a highest size above 8, found 8"},
                                                        {"8..4", "a highest size above 8, found 4"},
                                                        {"1..8@", "a size behind '@', found ''"},
                                                        {"1..8@4,", "a size behind '@', found ''"},
                                                        {"1..8@x", "a size behind '@', found 'x'"},
                                                        {"2..8@1", "sizes to tune for from 2 to 8, found 1"},
                                                        {"1..8@4,9", "sizes to tune for from 1 to 8, found 9"}}) {
    INFO(text);
    auto wrong = parse_range("n", text);
    REQUIRE_FALSE(wrong.has_value());
    CHECK(wrong.error().message.find(part) != std::string::npos);
    CHECK(wrong.error().message.find("--dim n=" + text) != std::string::npos);
  }
}

TEST_CASE("buckets are the named sizes and the highest, the smallest first") {
  auto all = bucket_bounds({{"a", 1, 8, {2}}, {"b", 1, 64, {16, 64}}});
  REQUIRE(all.has_value());
  CHECK(*all == std::vector<Ints>{{2, 16}, {2, 64}, {8, 16}, {8, 64}});
  graph::DimRange many{"n", 1, 100, {}};
  for (int64_t i = 1; i <= 70; ++i) many.tuned.push_back(i);
  auto refused = bucket_bounds({many});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("at most 64 combinations") != std::string::npos);
}

TEST_CASE("sizes to check are the ends, the tuned ones, their neighbors and some between") {
  std::vector<int64_t> sizes;
  for (const auto& one : sizes_to_check({{"n", 1, 128, {32}}}, 12)) sizes.push_back(one.at("n"));
  CHECK(sizes == Ints{1, 128, 32, 31, 127, 33, 65});
  CHECK(sizes_to_check({{"n", 1, 128, {32}}, {"m", 1, 2, {}}}, 4).size() == 4);
}

TEST_CASE("an attention over several sentences is exact at every size") {
  const Built built = build(attention_model(), "attention", {{"seq", 1, 9, {4}}, {"batch", 1, 3, {}}});
  std::vector<std::map<std::string, int64_t>> all;
  for (int64_t seq = 1; seq <= 9; ++seq) all.push_back({{"seq", seq}, {"batch", 1 + seq % 3}});
  all.push_back({{"seq", 9}, {"batch", 3}});
  all.push_back({{"seq", 4}, {"batch", 3}});
  check_sizes(built, all);
  auto whole = verify_library(built.report.library, {});
  REQUIRE(whole.has_value());
  CHECK(whole->passed());
  CHECK(whole->further.size() >= 4);
}

TEST_CASE("a batch of images is exact at every size") {
  const Built built = build(convolution_model(), "convolution", {{"n", 1, 5, {1, 2}}});
  std::vector<std::map<std::string, int64_t>> all;
  for (int64_t n = 1; n <= 5; ++n) all.push_back({{"n", n}});
  check_sizes(built, all);
}

TEST_CASE("the buckets of a program share constants, tasks and the workspace") {
  const auto program_of = [](std::vector<graph::DimRange> ranges) {
    ModelSource source;
    source.model = "zoo:mlp";
    source.zoo.batch = 6;
    source.ranges = std::move(ranges);
    auto model = load_model(source);
    REQUIRE(model.has_value());
    auto program = make_program(*model);
    if (!program) FAIL(program.error().message);
    return std::move(*program);
  };
  const Program fixed = program_of({}), ranged = program_of({{"batch", 1, 6, {2, 4}}});
  const auto constants = [](const Program& program) {
    std::set<graph::ValueId> all;
    for (const graph::FusionGroup& group : program.groups) all.insert(group.constants.begin(), group.constants.end());
    return all.size();
  };
  CHECK(constants(ranged) == constants(fixed));
  CHECK(ranged.groups.size() == 3 * fixed.groups.size());
  CHECK(ranged.flops == fixed.flops);
  CHECK(graph::plan_memory(ranged.graph, ranged.groups).workspace_bytes ==
        graph::plan_memory(fixed.graph, fixed.groups).workspace_bytes);
  REQUIRE(ranged.dynamic.has_value());
  CHECK(ranged.dynamic->buckets.size() == 3);
  CHECK(ranged.dynamic->buckets[2].bounds == Ints{6});
}

TEST_CASE("a cache of keys is exact at every length, appended in place too") {
  const Built built = build(cache_model(), "cache", {{"past", 1, 12, {5}}});
  std::vector<std::map<std::string, int64_t>> all;
  for (int64_t past = 1; past <= 12; ++past) all.push_back({{"past", past}});
  check_sizes(built, all);

  auto loaded = package::LoadedModel::open(built.report.library);
  REQUIRE(loaded.has_value());
  const tcc_model_api& api = (*loaded)->api();
  REQUIRE(api.info()->num_dims == 1);
  CHECK(std::string(api.info()->dims[0].name) == "past");
  tcc_context* context = nullptr;
  REQUIRE(api.create(nullptr, &context) == TCC_OK);
  // The cache grows in the caller's memory; a copy of it, packed, gives the same.
  std::vector<float> cache(13 * 4, 0.25f), x = numbers(4, 9), y(4), packed_y(4), packed(13 * 4);
  for (int64_t past = 1; past <= 12; ++past) {
    int64_t x_shape[3] = {1, 1, 4}, past_shape[3] = {1, past, 4}, y_shape[3] = {1, 1, 4}, all_shape[3] = {1, 13, 4},
            packed_shape[3] = {1, past + 1, 4}, strides[3] = {13 * 4, 4, 1};
    auto tensor = [](float* data, int64_t* shape, int64_t* steps) {
      return tcc_dltensor{data, {TCC_DEVICE_CPU, 0}, 3, {TCC_DTYPE_FLOAT, 32, 1}, shape, steps, 0};
    };
    const std::vector<float> before = cache;
    const tcc_dltensor inputs[2] = {tensor(x.data(), x_shape, nullptr), tensor(cache.data(), past_shape, strides)};
    int64_t asked[3] = {};
    REQUIRE(api.output_shape(inputs, 2, 1, asked) == TCC_OK);
    CHECK(asked[1] == past + 1);
    const tcc_dltensor copies[2] = {tensor(packed_y.data(), y_shape, nullptr),
                                    tensor(packed.data(), packed_shape, nullptr)};
    INFO(api.last_error());
    REQUIRE(api.run(context, inputs, 2, copies, 2, nullptr, 0, nullptr) == TCC_OK);
    CHECK(cache == before);
    const tcc_dltensor outputs[2] = {tensor(y.data(), y_shape, nullptr), tensor(cache.data(), all_shape, strides)};
    REQUIRE(api.run(context, inputs, 2, outputs, 2, nullptr, 0, nullptr) == TCC_OK);
    CHECK(all_shape[1] == past + 1);
    CHECK(y == packed_y);
    for (int64_t i = 0; i < 13 * 4; ++i)
      CHECK(cache[static_cast<size_t>(i)] == (i < past * 4         ? before[static_cast<size_t>(i)]
                                              : i < (past + 1) * 4 ? packed[static_cast<size_t>(i)]
                                                                   : 0.25f));
  }
  api.destroy(context);
}

TEST_CASE("a node that cannot take a range is named", "[errors]") {
  onnx::ModelWriter w("fixed", 13);
  w.input("x", {1, 8}, {"n", ""});
  w.initializer("shape", {{2}, Ints{8, -1}});
  w.node("Reshape", {"x", "shape"}, {"swapped"});
  w.output("swapped");
  auto folder = TemporaryDirectory::create("tcc-dynamic-test-");
  REQUIRE(folder.has_value());
  const std::string file = (*folder)->path() + "/fixed.onnx";
  REQUIRE(write_file(file, w.finish()).has_value());
  ModelSource source;
  source.model = file;
  source.ranges = {{"n", 1, 8, {}}};
  auto model = load_model(source);
  REQUIRE(model.has_value());
  auto program = make_program(*model);
  REQUIRE_FALSE(program.has_value());
  CHECK(program.error().message.find("node 'swapped' (Reshape) cannot take a range of sizes") != std::string::npos);

  source.ranges = {{"m", 1, 8, {}}};
  auto unknown = load_model(source);
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message.find("--dim m") != std::string::npos);
  auto gpu = target::find_target("a100");
  REQUIRE(gpu.has_value());
  auto on_gpu = make_program(*model, *gpu);
  REQUIRE_FALSE(on_gpu.has_value());
  CHECK(on_gpu.error().message.find("expected a CPU as target") != std::string::npos);
}
