// Libraries for GPUs, linked and called as a user would, over a driver that is not one: the launches that a library
// makes are carried out by host code of the same tasks, so that results tell whether steps, buffers, weights and
// workspace are wired as they must be. What the device code computes is for other tests.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nvrtc.h"
#include "rt/fake_cuda_driver.h"
#include "skip.h"
#include "tcc/codegen/cuda.h"
#include "tcc/codegen/llvm.h"
#include "tcc/graph/reference.h"
#include "tcc/lower/lower.h"
#include "tcc/package/loaded_model.h"
#include "tcc/package/package.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;
namespace fs = std::filesystem;
using graph::DType;
using graph::Op;
using graph::Shape;
using graph::ValueId;

namespace {

// Host code of a task, as a stand-in for its kernel.
struct StandIn {
  codegen::Artifact artifact;
  std::shared_ptr<codegen::LoadedObject> object;
  std::vector<std::vector<std::byte>> scratch;

  void run(void** parameters) {
    std::vector<void*> buffers;
    size_t next = 0;
    scratch.clear();
    for (const codegen::BufferInfo& b : artifact.buffers) {
      if (b.role == ir::BufferRole::kTemp) {
        scratch.emplace_back(static_cast<size_t>(b.bytes));
        buffers.push_back(scratch.back().data());
      } else {
        buffers.push_back(*static_cast<void**>(parameters[next++]));
      }
    }
    for (const codegen::Launch& l : artifact.launches) object->function(l.symbol)(buffers.data(), 0, l.extent);
  }
};
constexpr size_t kMaxTasks = 4;
StandIn stand_ins[kMaxTasks];
template <size_t N>
void stand_in(void** parameters) {
  stand_ins[N].run(parameters);
}
constexpr void (*kStandIns[kMaxTasks])(void**) = {stand_in<0>, stand_in<1>, stand_in<2>, stand_in<3>};

struct Model {
  graph::Graph g;
  std::vector<graph::FusionGroup> groups;
  graph::MemoryPlan memory;
  task::TaskList tasks;
  package::PackagePlan plan;

  ValueId weight(Shape shape, uint64_t seed) {
    Rng rng(seed);
    std::vector<double> values(static_cast<size_t>(graph::element_count(shape)));
    for (double& v : values) v = rng.normal() * 0.5;
    return g.add_constant("w", DType::kF32, shape, graph::make_constant_from_doubles(DType::kF32, values));
  }
  ValueId dense(ValueId x, int64_t inputs, int64_t outputs) {
    auto id = g.add_node(Op::kGemm, graph::GemmAttrs{},
                         {x, weight({inputs, outputs}, static_cast<uint64_t>(inputs)),
                          weight({outputs}, static_cast<uint64_t>(outputs) + 100)},
                         "node");
    REQUIRE(id.has_value());
    return *id;
  }

  // x[3,8] -> dense 12 -> relu -> dense 4, for each target; with PTX of the first when asked.
  Model(const std::vector<std::string>& targets, bool ptx) {
    g.name = "mlp";
    ValueId x = g.add_input("x", DType::kF32, {3, 8});
    auto hidden = g.add_node(Op::kRelu, graph::NoAttrs{}, {dense(x, 8, 12)}, "relu");
    REQUIRE(hidden.has_value());
    g.add_output(dense(*hidden, 12, 4), "logits");
    graph::verify_graph(g);
    groups = graph::fuse(g);
    memory = graph::plan_memory(g, groups);
    auto list = task::extract_tasks(g, groups);
    REQUIRE(list.has_value());
    tasks = std::move(*list);
    REQUIRE(tasks.tasks.size() <= kMaxTasks);
    plan.graph = &g;
    plan.groups = &groups;
    plan.memory = &memory;
    plan.tasks = &tasks;
    plan.cuda_toolkit = 13000;
    for (const std::string& name : targets) plan.architectures.push_back(code_for(*target::find_target(name), false));
    if (ptx) plan.architectures.push_back(code_for(*target::find_target(targets[0]), true));
    plan.target = plan.architectures[0].target;
  }

  package::ArchitectureCode code_for(const target::Target& target, bool ptx) const {
    package::ArchitectureCode code{target, ptx, {}};
    for (size_t t = 0; t < tasks.tasks.size(); ++t) {
      auto arena = std::make_shared<Arena>();
      auto lowered = lower::lower(tasks.tasks[t].kernel, target, ir::Stage::kLowered, arena);
      if (!lowered) FAIL(lowered.error().text);
      codegen::CudaOptions options;
      options.prefix = "task" + std::to_string(t);
      options.want_ptx = ptx;
      auto artifact = codegen::compile_cuda(*lowered, target, options);
      if (!artifact) FAIL(artifact.error().message);
      code.codes.push_back({std::move(*artifact), 0, "", "", "", "", package::Origin::kDefault});
    }
    return code;
  }

  // Host code behind every launch. The first launch of a task does all of it.
  void register_stand_ins(FakeCuda& fake) const {
    const target::Target host = target::host_target();
    for (size_t t = 0; t < tasks.tasks.size(); ++t) {
      auto arena = std::make_shared<Arena>();
      auto lowered = lower::lower(tasks.tasks[t].kernel, host, ir::Stage::kLowered, arena);
      if (!lowered) FAIL(lowered.error().text);
      auto artifact = codegen::compile_host(*lowered, host, {});
      if (!artifact) FAIL(artifact.error().message);
      auto object = codegen::load_host(*artifact);
      REQUIRE(object.has_value());
      stand_ins[t] = {std::move(*artifact), std::move(*object), {}};
      fake.register_kernel(("tcc_task" + std::to_string(t) + "_0").c_str(), kStandIns[t]);
    }
  }
};

package::PackageOptions options_for(const std::string& folder) {
  package::PackageOptions options;
  options.folder = folder;
  options.id = "mlp";
  options.tool_version = "1.2.3";
  return options;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string output_of(const std::string& command, int wanted = 0) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char part[4096];
  while (size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
  const int status = pclose(pipe);
  INFO(command << "\n" << text);
  REQUIRE(WEXITSTATUS(status) == wanted);
  return text;
}

bool no_compiler() {
  if (codegen::nvrtc_available()) return false;
  tcc::testing::report_skip("no NVRTC");
  return true;
}

std::shared_ptr<package::LoadedModel> open_model(const std::string& library) {
  auto model = package::LoadedModel::open(library);
  if (!model) FAIL(model.error().message);
  return *model;
}

}  // namespace

TEST_CASE("a library for two architectures runs its steps on either") {
  if (no_compiler()) return;
  Model m({"a100", "h100"}, false);
  auto folder = TemporaryDirectory::create("tcc-test-");
  auto report = package::build_library(m.plan, options_for((*folder)->path()));
  if (!report) FAIL(report.error().message);
  auto model = open_model(report->library);
  REQUIRE(model->on_gpu());
  REQUIRE(model->inputs()[0].shape == Shape{3, 8});
  graph::HostTensor x = graph::random_tensor(m.g.value(m.g.inputs[0]), 11);
  std::vector<float> input(x.data.begin(), x.data.end());
  for (size_t i = 0; i < input.size(); ++i) x.data[i] = input[i];
  auto wanted = graph::run_reference(m.g, {x}, 1);
  REQUIRE(wanted.has_value());
  for (const auto& [device, code] : {std::pair{"arch=80", 80u}, {"arch=86", 80u}, {"arch=90", 90u}}) {
    INFO(device);
    FakeCuda& fake = FakeCuda::start(device);
    m.register_stand_ins(fake);
    {
      auto context = model->create_context({.cuda_driver = FakeCuda::path()});
      if (!context) FAIL(context.error().message);
      REQUIRE((*context)->info().code_architecture == code);
      std::vector<float> y(12, NAN);
      const void* in = input.data();
      void* out = y.data();
      auto ran = (*context)->run({&in, 1}, {&out, 1});
      if (!ran) FAIL(ran.error().message);
      for (size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == Approx(wanted->at(0).data[i]).margin(1e-5));
      auto tested = (*context)->self_test();
      if (!tested) FAIL(tested.error().message);
    }
    REQUIRE(fake.live() == 0);
    REQUIRE(std::string(fake.violation()).empty());
  }
}

TEST_CASE("a library for GPUs loads and tells about itself where there is no driver", "[errors]") {
  if (no_compiler()) return;
  Model m({"a100", "h100"}, true);
  auto folder = TemporaryDirectory::create("tcc-test-");
  package::PackageOptions options = options_for((*folder)->path());
  options.emit.cuda = options.emit.cubin = true;
  auto report = package::build_library(m.plan, options);
  REQUIRE(report.has_value());
  auto model = open_model(report->library);
  const auto json = nlohmann::json::parse(model->metadata_json());
  REQUIRE(json["target"]["kind"] == "cuda");
  REQUIRE(json["target"]["name"] == "a100,h100");
  REQUIRE(json["architectures"].size() == 3);
  REQUIRE(json["architectures"][1]["architecture"] == "sm_90a");
  REQUIRE(json["architectures"][2]["format"] == "ptx");
  REQUIRE(json["cuda_toolkit"] == "13.0");
  const auto& code = json["tasks"][0]["code"];
  REQUIRE(code.size() == 3);
  REQUIRE(code[0]["registers"].get<int64_t>() > 0);
  REQUIRE(code[0]["spill_bytes"] == 0);
  REQUIRE(code[0]["record"] == "default");
  REQUIRE(json["conformance"]["checked_on_device"] == false);
  REQUIRE(json["conformance"]["note"].get<std::string>().find("on a device") != std::string::npos);
  for (const task::Task& t : m.tasks.tasks)
    for (const char* end : {".sm_80.cu", ".sm_80.cubin", ".sm_90a.cu", ".sm_90a.cubin"})
      REQUIRE(fs::file_size((*folder)->path() + "/kernels/" + t.key + end) > 0);

  auto context = model->create_context({.cuda_driver = "libtcc-absent-driver.so.1"});
  REQUIRE_FALSE(context.has_value());
  INFO(context.error().message);
  REQUIRE(context.error().message.find("install the NVIDIA driver") != std::string::npos);
  FakeCuda::start("arch=75");
  context = model->create_context({.cuda_driver = FakeCuda::path()});
  REQUIRE_FALSE(context.has_value());
  REQUIRE(context.error().message.find("compute capability 7.5") != std::string::npos);
  REQUIRE(context.error().message.find("sm_80, sm_90a, sm_80 (PTX)") != std::string::npos);
  REQUIRE(context.error().message.find("--target t4") != std::string::npos);
  FakeCuda::start("arch=120");  // nothing but the PTX fits
  context = model->create_context({.cuda_driver = FakeCuda::path()});
  REQUIRE(context.has_value());
  REQUIRE((*context)->info().jit == 1);
}

TEST_CASE("functions of the prelude that were checked on a device are no longer named") {
  if (no_compiler()) return;
  Model m({"a100"}, false);
  auto folder = TemporaryDirectory::create("tcc-test-");
  const std::string& prelude = codegen::cuda_prelude();
  for (package::TaskCode& code : m.plan.architectures[0].codes) {
    code.artifact.source = prelude + "void k() { tcc_bar_sync(1); mine_tcc_load(); tcc_nothing_known(2); }";
    code.origin = package::Origin::kMeasured;
    code.trace = "{}";
  }
  REQUIRE(prelude.find("tcc_bar_sync(") != std::string::npos);
  auto conformance = [&](const char* sub) {
    auto report = package::build_library(m.plan, options_for((*folder)->path() + sub));
    REQUIRE(report.has_value());
    return nlohmann::json::parse(open_model(report->library)->metadata_json())["conformance"];
  };
  nlohmann::json unknown = conformance("/a");
  REQUIRE(unknown["never_conformed"] == nlohmann::json{{"sm_80", {"tcc_bar_sync"}}});
  REQUIRE(unknown["checked_on_device"] == false);
  m.plan.conformed = {"sm_80 tcc_bar_sync"};
  nlohmann::json known = conformance("/b");
  REQUIRE(known == nlohmann::json{{"checked_on_device", true}});
  m.plan.architectures[0].codes[0].origin = package::Origin::kPredicted;
  REQUIRE(conformance("/c")["checked_on_device"] == false);
}

TEST_CASE("the same GPU plan gives the same bytes, and weights are in it once") {
  if (no_compiler()) return;
  Model a({"a100", "h100"}, true), b({"a100", "h100"}, true);
  auto folder = TemporaryDirectory::create("tcc-test-");
  auto x = package::build_library(a.plan, options_for((*folder)->path() + "/a"));
  auto y = package::build_library(b.plan, options_for((*folder)->path() + "/b/longer"));
  REQUIRE(x.has_value());
  REQUIRE(y.has_value());
  REQUIRE(x->files.size() == y->files.size());
  for (size_t i = 0; i < x->files.size(); ++i) REQUIRE(bytes_of(x->files[i]) == bytes_of(y->files[i]));
  REQUIRE(x->weights_bytes == 384 + 64 + 192 + 64);  // 8x12, 12, 12x4 and 4 floats, padded
}

TEST_CASE("the example of a library for GPUs is C99 without CUDA and runs", "[cli]") {
  if (no_compiler()) return;
  Model m({"a100"}, false);
  auto folder = TemporaryDirectory::create("tcc-test-");
  const std::string out = (*folder)->path();
  auto report = package::build_library(m.plan, options_for(out));
  REQUIRE(report.has_value());
  output_of("cc -std=c99 -Wall -Wextra -Wpedantic -Werror -I" + out + " " + out + "/example.c -L" + out +
            " -Wl,-rpath," + out + " -lmlp -o " + out + "/example");
  const std::string needed = output_of("readelf -d " + report->library);
  REQUIRE(needed.find("libcuda") == std::string::npos);
  // The system's name for the driver, found where the loader looks first.
  fs::create_directories(out + "/driver");
  fs::create_symlink(FakeCuda::path(), out + "/driver/libcuda.so.1");
  const std::string said = output_of("LD_LIBRARY_PATH=" + out + "/driver " + out + "/example");
  REQUIRE(said.rfind("output 0: ", 0) == 0);
  const std::string refused = output_of("FAKE_CUDA=arch=75 LD_LIBRARY_PATH=" + out + "/driver " + out + "/example", 1);
  REQUIRE(refused.find("create: Fake GPU has compute capability 7.5") != std::string::npos);
}
