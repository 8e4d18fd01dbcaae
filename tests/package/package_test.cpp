// Libraries built from naive kernels, linked and called as a user would.
#include "tcc/package/package.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "package/library_file.h"
#include "skip.h"
#include "tcc/codegen/llvm.h"
#include "tcc/graph/reference.h"
#include "tcc/ir/build.h"
#include "tcc/lower/lower.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;
namespace fs = std::filesystem;
using graph::DType;
using graph::Op;
using graph::Shape;
using graph::ValueId;

namespace {

struct Command {
  int status;
  std::string text;
};
Command run_command(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char part[4096];
  while (size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
  return {pclose(pipe), text};
}
std::string output_of(const std::string& command) {
  Command c = run_command(command);
  INFO(command << "\n" << c.text);
  REQUIRE(c.status == 0);
  return c.text;
}
bool have(const std::string& program) {
  return run_command("command -v " + program).status == 0;
}

// A model with the plan that points into it.
struct Model {
  graph::Graph g;
  std::vector<graph::FusionGroup> groups;
  graph::MemoryPlan memory;
  task::TaskList tasks;
  package::PackagePlan plan;
  uint64_t seed = 1;

  ValueId weight(Shape shape) {
    Rng rng(seed++);
    std::vector<double> values(static_cast<size_t>(graph::element_count(shape)));
    for (double& v : values) v = rng.normal() * 0.5;
    return g.add_constant("w \"quoted\"\n*/", DType::kF32, shape,
                          graph::make_constant_from_doubles(DType::kF32, values));
  }
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "node");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  ValueId dense(ValueId x, int64_t inputs, int64_t outputs) {
    return node(Op::kGemm, graph::GemmAttrs{}, {x, weight({inputs, outputs}), weight({outputs})});
  }

  // Compiles every task unscheduled. `blocked`: two-dimensional weights are stored in column tiles of four.
  void compile(bool blocked) {
    graph::verify_graph(g);
    groups = graph::fuse(g);
    memory = graph::plan_memory(g, groups);
    auto list = task::extract_tasks(g, groups);
    REQUIRE(list.has_value());
    tasks = std::move(*list);
    plan.graph = &g;
    plan.groups = &groups;
    plan.memory = &memory;
    plan.tasks = &tasks;
    plan.target = target::host_target();
    for (const task::Task& t : tasks.tasks) {
      ir::Kernel kernel = blocked ? with_blocked_weights(t.kernel) : t.kernel;
      auto arena = std::make_shared<Arena>();
      auto lowered = lower::lower(kernel, plan.target, ir::Stage::kLowered, arena);
      if (!lowered) FAIL(lowered.error().text);
      codegen::HostOptions options;
      options.prefix = "task" + std::to_string(plan.codes.size());
      options.want_ir = true;
      auto artifact = codegen::compile_host(*lowered, plan.target, options);
      if (!artifact) FAIL(artifact.error().message);
      plan.codes.push_back({std::move(*artifact), 0, "", ""});
    }
  }

  static ir::Kernel with_blocked_weights(const ir::Kernel& kernel) {
    ir::Kernel copy = ir::compact(kernel);
    std::vector<const ir::Buffer*> buffers;
    for (const ir::Buffer* b : copy.buffers) {
      ir::Buffer fields = *b;
      if (b->role == ir::BufferRole::kWeight && b->shape.size() == 2) {
        std::vector<int64_t> shape = {ir::int_value(b->shape[0]), ir::int_value(b->shape[1])};
        std::vector<int32_t> order = {1, 0};
        std::vector<std::pair<int32_t, int64_t>> tiles = {{1, 4}};
        fields.layout = ir::make_blocked(*copy.arena, shape, order, tiles);
      }
      buffers.push_back(ir::Builder(*copy.arena).buffer(fields));
    }
    copy.buffers = copy.arena->copy(buffers);
    return copy;
  }

  std::vector<graph::HostTensor> inputs() const {
    std::vector<graph::HostTensor> list;
    for (ValueId id : g.inputs) {
      list.push_back(graph::random_tensor(g.value(id), 11 + static_cast<uint64_t>(id)));
      for (double& v : list.back().data) v = static_cast<float>(v);
    }
    return list;
  }
};

// x[3,5] -> dense 7 -> relu -> dense 4, and the hidden layer as a second output.
void build_mlp(Model& m, bool blocked = false) {
  m.g.name = "two \"layers\" */";
  ValueId x = m.g.add_input("x\"; int evil; /*", DType::kF32, {3, 5});
  ValueId hidden = m.node(Op::kRelu, graph::NoAttrs{}, {m.dense(x, 5, 7)});
  m.g.add_output(m.dense(hidden, 7, 4), "logits");
  m.compile(blocked);
}

package::PackageOptions options_for(const std::string& folder) {
  package::PackageOptions options;
  options.folder = folder;
  options.id = "mlp";
  options.tool_version = "1.2.3";
  return options;
}

std::vector<float> run_once(package::ModelContext& context, const std::vector<float>& x) {
  std::vector<float> y(static_cast<size_t>(context.model().outputs()[0].bytes) / 4, NAN);
  const void* in = x.data();
  void* out = y.data();
  auto ran = context.run({&in, 1}, {&out, 1});
  if (!ran) FAIL(ran.error().message);
  return y;
}

std::vector<float> floats(const std::vector<double>& v) {
  return {v.begin(), v.end()};
}

void check_against_reference(const Model& m, const std::vector<float>& got) {
  auto want = graph::run_reference(m.g, m.inputs(), 1);
  REQUIRE(want.has_value());
  REQUIRE(got.size() == want->at(0).data.size());
  for (size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == Approx(want->at(0).data[i]).margin(1e-5));
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a library of a two-layer perceptron agrees with the reference") {
  for (bool blocked : {false, true}) {
    Model m;
    build_mlp(m, blocked);
    auto folder = TemporaryDirectory::create("tcc-test-");
    REQUIRE(folder.has_value());
    auto report = package::build_library(m.plan, options_for((*folder)->path() + "/out"));
    if (!report) FAIL(report.error().message << (report.error().notes.empty() ? "" : report.error().notes[0]));
    REQUIRE(report->files.size() == 6);
    if (blocked) REQUIRE(report->weights_bytes == 192 + 64 + 128 + 64);  // 8x5, 7, 4x7 and 4 floats, padded

    auto model = package::LoadedModel::open(report->library);
    if (!model) FAIL(model.error().message);
    REQUIRE((*model)->inputs().size() == 1);
    REQUIRE((*model)->inputs()[0].name == m.g.value(m.g.inputs[0]).name);
    REQUIRE((*model)->inputs()[0].shape == Shape{3, 5});
    REQUIRE((*model)->outputs()[0].name == "logits");
    REQUIRE((*model)->workspace_bytes() == report->workspace_bytes);
    auto context = (*model)->create_context({.threads = 2});
    REQUIRE(context.has_value());
    REQUIRE((*context)->threads() == 2);
    REQUIRE((*context)->self_test().has_value());
    check_against_reference(m, run_once(**context, floats(m.inputs()[0].data)));
  }
}

TEST_CASE("a small network of every kind of task agrees with the reference") {
  Model m;
  ValueId x = m.g.add_input("x", DType::kF32, {2, 3, 9, 11});
  auto conv = [&](ValueId in, Shape weights, int64_t stride, int64_t group) {
    int64_t pad = weights[2] / 2;
    graph::ConvAttrs a{{weights[2], weights[3]}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}, group};
    int64_t filters = weights[0];
    return m.node(Op::kConv, a, {in, m.weight(weights), m.weight({filters})});
  };
  ValueId a = m.node(Op::kRelu, graph::NoAttrs{}, {conv(x, {8, 3, 3, 3}, 1, 1)});
  ValueId pooled = m.node(Op::kMaxPool, graph::PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, false, false}, {a});
  ValueId b = conv(m.node(Op::kRelu, graph::NoAttrs{}, {conv(pooled, {8, 1, 3, 3}, 1, 8)}), {8, 8, 1, 1}, 1, 1);
  ValueId sum = m.node(Op::kRelu, graph::NoAttrs{}, {m.node(Op::kAdd, graph::NoAttrs{}, {b, pooled})});
  ValueId both = m.node(Op::kConcat, graph::AxisAttrs{1}, {sum, pooled});
  ValueId mean = m.node(Op::kReduceMean, graph::ReduceAttrs{{2, 3}, true}, {both});
  ValueId flat = m.node(Op::kReshape, graph::ReshapeAttrs{{2, 16}}, {mean});
  m.g.add_output(m.node(Op::kSoftmax, graph::AxisAttrs{1}, {m.dense(flat, 16, 5)}), "y");
  m.compile(false);
  auto folder = TemporaryDirectory::create("tcc-test-");
  auto report = package::build_library(m.plan, options_for((*folder)->path()));
  REQUIRE(report.has_value());
  REQUIRE(report->workspace_bytes > 0);
  auto model = package::LoadedModel::open(report->library);
  REQUIRE(model.has_value());
  auto context = (*model)->create_context();
  REQUIRE(context.has_value());
  check_against_reference(m, run_once(**context, floats(m.inputs()[0].data)));
  REQUIRE((*context)->self_test().has_value());
}

TEST_CASE("a library that ends early, is damaged or was changed is refused before it is loaded", "[errors]") {
  Model m;
  build_mlp(m);
  auto folder = TemporaryDirectory::create("tcc-test-");
  auto report = package::build_library(m.plan, options_for((*folder)->path()));
  REQUIRE(report.has_value());
  const std::string whole = read_file(report->library).value();
  auto metadata = package::read_metadata(report->library);
  REQUIRE(metadata.has_value());
  CHECK(*metadata == read_file((*folder)->path() + "/mlp.json").value());
  fs::create_directory((*folder)->path() + "/bad");
  const std::string bad = (*folder)->path() + "/bad/libmlp.so";
  auto error_of = [&](const std::string& bytes) {
    REQUIRE(write_file(bad, bytes));
    auto read = package::read_metadata(bad);
    auto loaded = package::LoadedModel::open(bad);
    REQUIRE(!read);
    REQUIRE(!loaded);
    CHECK_THAT(loaded.error().message, Catch::Contains(read.error().message));
    return read.error().message;
  };
  for (size_t part : {1, 3, 10, 50, 90, 99}) {
    const size_t bytes = whole.size() * part / 100;
    CHECK(error_of(whole.substr(0, bytes)) == fmt::format("libmlp.so ends early: {} of {} bytes", bytes, whole.size()));
  }
  CHECK(error_of(whole.substr(0, whole.size() - 1)).find("ends early") != std::string::npos);
  CHECK_THAT(error_of(whole.substr(0, 40)), Catch::Contains("no ELF header"));
  CHECK_THAT(error_of(""), Catch::Contains("no ELF header"));
  // One bit of the code.
  std::string flipped = whole;
  flipped[whole.find("\"workload\"")] ^= 1;
  CHECK_THAT(error_of(flipped), Catch::Contains("is damaged"));
  // The address of the first segment.
  flipped = whole;
  flipped[64 + 56 + 16] ^= 1;
  CHECK_THAT(error_of(flipped), Catch::Contains("is damaged"));
  if (have("strip")) {
    output_of("strip " + report->library + " -o " + bad);
    auto stripped = package::read_metadata(bad);
    if (!stripped) FAIL(stripped.error().message);
    CHECK(*stripped == *metadata);
  }
  // A value of another type, with the right checksum.
  std::string typed = whole;
  const std::string from = "\"count\": 1,", to = "\"count\":\"\",";
  REQUIRE(typed.find(from) != std::string::npos);
  typed.replace(typed.find(from), from.size(), to);
  REQUIRE(write_file(bad, typed));
  REQUIRE(package::seal_library(bad));
  auto read = package::read_metadata(bad);
  REQUIRE(!read);
  CHECK_THAT(read.error().message, Catch::Contains("'tasks[0].count': expected number, found string"));
}

TEST_CASE("the metadata of a library are read without running its constructors", "[errors]") {
  // The constructor ends the process.
  auto metadata = package::read_metadata(TCC_CONSTRUCTOR_LIBRARY);
  if (!metadata) FAIL(metadata.error().message);
  CHECK(*metadata == "{\"id\": \"constructor\"}");
}

TEST_CASE("two threads use one library through two contexts") {
  Model m;
  build_mlp(m);
  auto folder = TemporaryDirectory::create("tcc-test-");
  auto report = package::build_library(m.plan, options_for((*folder)->path()));
  REQUIRE(report.has_value());
  auto model = package::LoadedModel::open(report->library);
  REQUIRE(model.has_value());
  auto base = floats(m.inputs()[0].data);
  auto reference_context = (*model)->create_context({.threads = 1});
  std::vector<std::vector<float>> wanted;
  for (int i = 0; i < 2; ++i) {
    auto x = base;
    x[0] += static_cast<float>(i);
    wanted.push_back(run_once(**reference_context, x));
  }
  REQUIRE(wanted[0] != wanted[1]);
  std::vector<int> mismatches(2, 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      auto context = (*model)->create_context({.threads = 2});
      auto x = base;
      x[0] += static_cast<float>(i);
      std::vector<float> y(wanted[i].size());
      const void* in = x.data();
      void* out = y.data();
      for (int round = 0; round < 500; ++round) {
        std::fill(y.begin(), y.end(), NAN);
        if (!context || !(*context)->run({&in, 1}, {&out, 1}) || y != wanted[i]) ++mismatches[i];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  REQUIRE(mismatches == std::vector<int>{0, 0});
}

TEST_CASE("the emitted files work from C, pkg-config and CMake, and name nothing of the model", "[cli]") {
  Model m;
  build_mlp(m);
  auto folder = TemporaryDirectory::create("tcc-test-");
  std::string out = (*folder)->path() + "/out";
  package::PackageOptions options = options_for(out);
  options.emit = {true, true, true, true};
  fs::create_directories(options.folder + "/elsewhere");
  fs::create_symlink("elsewhere", options.folder + "/kernels");
  auto linked = package::build_library(m.plan, options);
  REQUIRE_FALSE(linked.has_value());
  CHECK_THAT(linked.error().message, Catch::Contains("found a link"));
  CHECK(fs::is_empty(options.folder + "/elsewhere"));
  fs::remove(options.folder + "/kernels");
  auto report = package::build_library(m.plan, options);
  REQUIRE(report.has_value());

  for (const char* name : {"mlp.h", "example.c", "mlp.pc", "mlp-config.cmake"}) {
    std::string text = bytes_of(out + "/" + name);
    INFO(name);
    REQUIRE(!text.empty());
    REQUIRE(text.find("evil") == std::string::npos);
    REQUIRE(text.find("layers") == std::string::npos);
    REQUIRE(text.find(out) == std::string::npos);
  }
  auto json = nlohmann::json::parse(bytes_of(out + "/mlp.json"));
  REQUIRE(json["inputs"][0]["name"] == m.g.value(m.g.inputs[0]).name);
  REQUIRE(json["tasks"].size() == m.tasks.tasks.size());
  REQUIRE(json["tasks"][0]["tuned"] == false);
  auto model = package::LoadedModel::open(report->library);
  REQUIRE((*model)->metadata_json() == bytes_of(out + "/mlp.json"));
  for (const task::Task& t : m.tasks.tasks) {
    REQUIRE(fs::file_size(out + "/kernels/" + t.key + ".o") > 0);
    REQUIRE(bytes_of(out + "/kernels/" + t.key + ".ll").find("define ") != std::string::npos);
  }
  if (have("nm")) {
    std::string symbols = output_of("nm -D --defined-only " + report->library);
    INFO(symbols);
    REQUIRE(symbols.find("tcc_mlp_query") != std::string::npos);
    REQUIRE(std::count(symbols.begin(), symbols.end(), '\n') == 1);
  }
  if (!have("cc")) SKIP("no C compiler: example.c is not compiled");
  std::string program = (*folder)->path() + "/example";
  output_of("cc -std=c99 -Wall -Wextra -Wpedantic -Werror -I" + out + " " + out + "/example.c -L" + out +
            " -Wl,-rpath," + out + " -lmlp -o " + program);
  std::string said = output_of(program);
  REQUIRE(said.rfind("output 0: ", 0) == 0);
  REQUIRE(said.find("nan") == std::string::npos);
  if (have("pkg-config")) {
    std::string here = "cd " + (*folder)->path() + " && ";
    output_of(here + "cc out/example.c -o out/run $(PKG_CONFIG_PATH=out pkg-config --cflags --libs mlp)");
    // From any folder, and wherever the two are moved.
    REQUIRE(output_of("cd / && " + out + "/run") == said);
    output_of(here + "mkdir moved && mv out/run moved && cp out/libmlp.so moved");
    REQUIRE(output_of("cd / && " + (*folder)->path() + "/moved/run") == said);
  }
  if (have("cmake") && have("c++")) {
    std::string project = (*folder)->path() + "/user";
    fs::create_directories(project);
    std::ofstream(project + "/CMakeLists.txt") << "cmake_minimum_required(VERSION 3.16)\nproject(user C)\n"
                                               << "find_package(mlp CONFIG REQUIRED)\n"
                                               << "add_executable(user ../out/example.c)\n"
                                               << "target_link_libraries(user mlp::mlp)\n";
    output_of("cmake -S " + project + " -B " + project + "/b -Dmlp_DIR=" + out + " && cmake --build " + project + "/b");
    REQUIRE(output_of(project + "/b/user") == said);
  }
}

TEST_CASE("the same plan gives the same bytes in another folder") {
  Model m, again;
  build_mlp(m);
  build_mlp(again);
  auto folder = TemporaryDirectory::create("tcc-test-");
  auto a = package::build_library(m.plan, options_for((*folder)->path() + "/a"));
  auto b = package::build_library(again.plan, options_for((*folder)->path() + "/b/longer"));
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  for (size_t i = 0; i < a->files.size(); ++i) REQUIRE(bytes_of(a->files[i]) == bytes_of(b->files[i]));
  REQUIRE(std::distance(fs::directory_iterator((*folder)->path() + "/a"), fs::directory_iterator{}) == 6);
}

TEST_CASE("every linker found here makes a library that passes its own test") {
  Model m;
  build_mlp(m);
  auto folder = TemporaryDirectory::create("tcc-test-");
  int linked = 0;
  for (std::string linker : {"lld", "ld.lld", "ld", "cc"}) {
    if (linker != "lld" && !have(linker)) continue;
    package::PackageOptions options = options_for((*folder)->path() + "/" + linker);
    options.linker = linker;
    auto report = package::build_library(m.plan, options);
    if (!report && linker == "lld") continue;  // not compiled in
    INFO(linker);
    if (!report) FAIL(report.error().message << (report.error().notes.empty() ? "" : report.error().notes[0]));
    REQUIRE(report->linker == linker);
    auto model = package::LoadedModel::open(report->library);
    if (!model) FAIL(model.error().notes[0]);
    auto context = (*model)->create_context({.threads = 1});
    REQUIRE(context.has_value());
    REQUIRE((*context)->self_test().has_value());
    check_against_reference(m, run_once(**context, floats(m.inputs()[0].data)));
    ++linked;
  }
  REQUIRE(linked > 0);
}

TEST_CASE("bad folders, ids, linkers and libraries are told apart", "[errors]") {
  Model m;
  build_mlp(m);
  auto folder = TemporaryDirectory::create("tcc-test-");
  std::string file = (*folder)->path() + "/file";
  REQUIRE(write_file(file, "not a folder").has_value());
  auto bad_folder = package::build_library(m.plan, options_for(file + "/out"));
  REQUIRE_FALSE(bad_folder.has_value());
  REQUIRE(bad_folder.error().cls == ErrorClass::kEnvironment);
  REQUIRE(bad_folder.error().message.find(file) != std::string::npos);

  package::PackageOptions options = options_for((*folder)->path() + "/out");
  for (const char* id : {"", "9lives", "a b", "../up", "a-b"}) {
    options.id = id;
    auto built = package::build_library(m.plan, options);
    REQUIRE_FALSE(built.has_value());
    REQUIRE(built.error().message.find("cannot name a library") != std::string::npos);
  }
  options.id = "mlp";
  options.linker = "no-such-linker";
  auto unlinked = package::build_library(m.plan, options);
  REQUIRE_FALSE(unlinked.has_value());
  REQUIRE(unlinked.error().message.find("no-such-linker") != std::string::npos);
  REQUIRE(fs::is_empty(options.folder));

  options.linker = "";
  m.plan.codes[0].artifact.code = "not an object";
  auto broken = package::build_library(m.plan, options);
  REQUIRE_FALSE(broken.has_value());
  REQUIRE(broken.error().message.find("could not link") != std::string::npos);
  REQUIRE_FALSE(broken.error().notes.empty());
  REQUIRE(fs::is_empty(options.folder));

  REQUIRE_FALSE(package::LoadedModel::open(file).has_value());
  REQUIRE_FALSE(package::LoadedModel::open((*folder)->path() + "/libnone.so").has_value());
}

TEST_CASE("ids are made from any text") {
  REQUIRE(package::make_id("res net-50.onnx") == "res_net_50_onnx");
  REQUIRE(package::make_id("2b") == "model_2b");
  REQUIRE(package::make_id("\xff/..") == "model");
  REQUIRE(package::make_id(std::string(100, 'a')).size() == 64);
}
