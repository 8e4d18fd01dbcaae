// A third kind of target, to prove that code above the backends asks no target of which kind it is: its programs are
// kernels as text, and an interpreter runs them. It has no modules, so that only the plain loops can be tried.
#include <catch2/catch.hpp>

#include "driver/build.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/tune.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/lower/pass.h"
#include "tcc/support/files.h"

using namespace tcc;

namespace {

target::Target interpreter() {
  return {.name = "interpreter", .kind = backend::kOtherKind};
}

// Lowering is nothing beyond the passes that every target shares.
ir::Legal<ir::Kernel> keep(const ir::Kernel& kernel, const target::Target&, const ArenaPtr&) {
  return kernel;
}
const lower::Pipeline& pipeline() {
  static const std::vector<lower::Pass> passes = [] {
    std::vector<lower::Pass> all(lower::common_passes().begin(), lower::common_passes().end());
    all.push_back({"check_nothing", lower::Form::kFolded, lower::Form::kNest, keep});
    all.push_back({"finish", lower::Form::kNest, lower::Form::kLowered, keep});
    return all;
  }();
  static const lower::Pipeline kPipeline = {"interpreter", passes,
                                            [](const ir::Kernel&, const target::Target&) { return ir::Legal<void>(); }};
  return kPipeline;
}

// Programs are as good as each other.
constexpr std::string_view kColumns[] = {"buffers"};
void count_buffers(const ir::Kernel& nest, const target::Target&, int64_t, std::span<float> row) {
  row[0] = static_cast<float>(nest.buffers.size());
}
constinit const features::Schema kSchema = {"interpreter", 1, kColumns, count_buffers};

class Indifferent : public cost::CostModel {
 public:
  const features::Schema& schema() const override { return kSchema; }
  void predict(const features::Batch&, std::span<float> scores) const override {
    std::fill(scores.begin(), scores.end(), 0.f);
  }
};

// A program is its kernel's text.
Result<codegen::Artifact> compile(const ir::Kernel& lowered, const target::Target&, const backend::CompileOptions&) {
  return codegen::Artifact{.code = ir::print(lowered)};
}

// Runs a text; the tensors of all parameters afterwards.
Result<std::vector<interp::TensorData>> interpret(const std::string& text) {
  TCC_TRY(const ir::Kernel kernel, ir::parse(text));
  std::vector<interp::TensorData> data;
  for (const ir::Buffer* b : kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    data.push_back(interp::TensorData::make_random(b->type, shape, data.size() + 1));
  }
  std::vector<interp::TensorData*> params;
  for (interp::TensorData& d : data) params.push_back(&d);
  const interp::Report report = interp::run(kernel, params);
  if (!report.ok()) return input_error("{}", report.text());
  return data;
}

class Interpreter : public measure::Measurer {
 public:
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override {
    std::vector<measure::Measurement> out;
    for (const measure::Candidate& c : candidates) {
      measure::Measurement& m = out.emplace_back();
      m.id = c.id;
      const Stopwatch watch;
      const auto ran = interpret(ir::print(c.kernel));
      m.samples = {watch.seconds()};
      m.median = m.low = m.high = m.samples[0];
      m.status = ran ? record::Status::kOk : record::Status::kWrong;
      if (!ran) m.failure = ran.error().message;
    }
    return out;
  }
};

Result<package::PackageReport> write(package::PackagePlan, std::vector<package::ArchitectureCode> code,
                                     const package::PackageOptions& options) {
  package::PackageReport report;
  report.library = options.folder + "/" + options.id + ".txt";
  std::string text;
  for (const package::TaskCode& task : code.at(0).codes) text += task.artifact.code + "---\n";
  TCC_TRY_VOID(write_file(report.library, text));
  return report;
}

constexpr backend::Payload kTexts = {.write = write};
constexpr space::ModuleList kNoModules = {};
const backend::Backend kInterpreter = {
    .kind = backend::kOtherKind,
    .modules = &kNoModules,
    .pipeline = pipeline,
    .prior = [](const target::Target&) -> std::unique_ptr<cost::CostModel> { return std::make_unique<Indifferent>(); },
    .runs_unscheduled = true,
    .compile = compile,
    .payload = &kTexts,
    .isa = [](const target::Target& t) { return t.name; },
    .open = [](const target::Target&, const backend::OpenOptions&) -> Result<std::unique_ptr<backend::Machine>> {
      auto machine = std::make_unique<backend::Machine>();
      machine->measurer = std::make_unique<Interpreter>();
      return machine;
    },
};

}  // namespace

TEST_CASE("a backend from outside tunes a model and builds it") {
  backend::add_backend(kInterpreter);
  auto model = driver::load_model({.model = "zoo:mlp"});
  REQUIRE(model.has_value());
  auto program = driver::make_program(*model, interpreter());
  REQUIRE(program.has_value());
  auto store = record::Store::open(":memory:");
  REQUIRE(store.has_value());
  auto tuned = driver::tune_program(*program, **store, {.target = interpreter(), .options = {.trials = 6}});
  if (!tuned) FAIL(tuned.error().message);
  REQUIRE(tuned->tasks.size() == 3);
  for (const driver::TunedTask& t : tuned->tasks) CHECK(t.result.best_seconds > 0);

  auto folder = TemporaryDirectory::create("tcc-");
  REQUIRE(folder.has_value());
  auto built = driver::build_model(
      *model, {.folder = (*folder)->path(), .targets = {interpreter()}, .store = store->get(), .require_tuned = true});
  if (!built) FAIL(built.error().message);
  CHECK(built->kernels.size() == 3);
  for (const driver::KernelChoice& k : built->kernels) CHECK(k.origin == package::Origin::kMeasured);
  // The library holds the first task's kernel, which computes the same as its plain loops.
  const std::string text = *read_file(built->package.library);
  auto first = interpret(text.substr(0, text.find("---\n")));
  REQUIRE(first.has_value());
  auto expected = interpret(ir::print(program->tasks.tasks[0].kernel));
  REQUIRE(expected.has_value());
  CHECK(first->back().bytes == expected->back().bytes);
}
