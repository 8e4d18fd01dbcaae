// Measuring on a GPU, by a driver that only pretends: every way a program can go wrong, and that measuring goes on.
#include "tcc/measure/gpu.h"
#include "nvrtc.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "kernels.h"
#include "sample_tasks.h"
#include "skip.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::measure;
using namespace tcc::measure::test;
using record::Status;

namespace {

const target::Target& ampere() {
  static const target::Target target = target::find_target("a100").value();
  return target;
}

IsolatedHostMeasurer& references() {
  static std::unique_ptr<IsolatedHostMeasurer> shared = [] {
    HostMeasureOptions options;
    options.worker_path = TCC_BINARY_DIR "/tools/tcc-worker";
    auto created = IsolatedHostMeasurer::create(options);
    if (!created) FAIL(created.error().message);
    return std::move(*created);
  }();
  return *shared;
}

GpuMeasureOptions test_options() {
  GpuMeasureOptions options;
  options.worker_path = TCC_BINARY_DIR "/tools/tcc-worker";
  options.driver_library = TCC_FAKE_CUDA;
  options.budget_seconds = 0.02;
  options.timeout_seconds = 1;
  return options;
}

// What the fake driver pretends, for the workers that start while this lives.
class Fake {
 public:
  explicit Fake(const std::string& text = "") {
    setenv("FAKE_CUDA", ("kernels=" TCC_FAKE_GPU_KERNELS "," + text).c_str(), 1);
  }
  ~Fake() { unsetenv("FAKE_CUDA"); }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
};

std::unique_ptr<GpuMeasurer> open(const GpuMeasureOptions& options = test_options()) {
  auto created = GpuMeasurer::create(references(), options);
  if (!created) FAIL(created.error().message);
  return std::move(*created);
}

std::shared_ptr<const MeasureTask> make_task(GpuMeasurer& measurer) {
  auto task = measurer.prepare(make_gemm(), ampere());
  if (!task) FAIL(task.error().message);
  return *task;
}

// A program whose kernel is `name`, of this many blocks: the fake device takes longer for more of them.
Candidate program(const MeasureTask& task, const std::string& name, uint64_t id = 1, int64_t blocks = 4) {
  auto artifact = std::make_shared<codegen::Artifact>();
  const std::string symbol = "tcc_" + name + "_0";
  artifact->format = codegen::CodeFormat::kPtx;
  artifact->code = fmt::format(
      ".version 8.0\n.target sm_80\n.visible .entry {}(.param .u64 a, .param .u64 w, .param .u64 c)\n// {} blocks\n",
      symbol, blocks);
  artifact->launches.push_back({.symbol = symbol, .grid = {blocks, 1, 1}, .block = {32, 1, 1}});
  const std::pair<ir::BufferRole, std::vector<int64_t>> params[] = {
      {ir::BufferRole::kInput, {24, 28}}, {ir::BufferRole::kWeight, {28, 20}}, {ir::BufferRole::kOutput, {24, 20}}};
  for (const auto& [role, shape] : params)
    artifact->buffers.push_back({role, ir::Type::kF32, shape, "", shape[0] * shape[1] * 4, 16});
  Candidate candidate;
  candidate.id = id;
  candidate.task = &task;
  candidate.artifact = artifact;
  return candidate;
}

Measurement measure_one(GpuMeasurer& measurer, const Candidate& candidate) {
  auto results = measurer.measure({&candidate, 1});
  if (!results) FAIL(results.error().message);
  REQUIRE(results->size() == 1);
  CHECK((*results)[0].id == candidate.id);
  return (*results)[0];
}

}  // namespace

TEST_CASE("gpu: references of more than 0.2 GFLOP are computed at samples", "[unit]") {
  Fake fake;
  auto measurer = open();
  for (const int64_t rows : {256, 640}) {
    auto task = measurer->prepare(task::make_gemm({.m = rows, .n = 512, .k = 512}).kernel, ampere());
    if (!task) FAIL(task.error().message);
    CHECK((*task)->facts().sampled == (rows == 640));
  }
}

TEST_CASE("gpu: a right program is timed on cold caches", "[unit]") {
  Fake fake;
  auto measurer = open();
  CHECK(measurer->device().name == "Fake GPU");
  CHECK(target::sm_name(measurer->device().target) == "sm_80");
  auto task = make_task(*measurer);
  const Measurement m = measure_one(*measurer, program(*task, "right", 42));
  CAPTURE(m.failure);
  REQUIRE(m.status == Status::kOk);
  CHECK(m.gate == "exact");
  CHECK(m.cold);
  CHECK(m.converged);
  CHECK(m.repeats > 1);  // a short program: several launches a sample
  CHECK(m.median > 0);
  REQUIRE(m.device);
  CHECK(m.device->isa == "sm_80");
  record::Record record;
  fill_record(m, record);
  CHECK(record.cache == "cold");
  CHECK(measurer->restarts() == 0);
}

TEST_CASE("gpu: in a sandbox programs are measured, and reach nothing else", "[unit]") {
  Fake fake;
  for (const bool sandbox : {false, true}) {
    GpuMeasureOptions options = test_options();
    options.sandbox = sandbox;
    auto measurer = open(options);
    auto task = make_task(*measurer);
    CHECK(measure_one(*measurer, program(*task, "right", 1)).status == Status::kOk);
    const Measurement reaches = measure_one(*measurer, program(*task, "reaches", 2));
    CAPTURE(sandbox, reaches.failure);
    if (sandbox && reaches.status == Status::kWrong) SKIP("the system has no seccomp filters");
    CHECK(reaches.status == (sandbox ? Status::kOk : Status::kWrong));
    CHECK(measurer->restarts() == 0);
  }
  std::filesystem::remove("/tmp/tcc-gpu-sandbox");
}

TEST_CASE("gpu: wrong programs are told apart", "[unit]") {
  Fake fake;
  auto measurer = open();
  auto task = make_task(*measurer);
  const std::pair<const char*, const char*> cases[] = {{"short", "are wrong on integer data"},
                                                       {"unwritten", "NaN"},
                                                       {"beside", "writes beside buffer 2"},
                                                       {"before", "writes beside buffer 2"},
                                                       {"input", "writes to its input, parameter 0"}};
  for (const auto& [name, text] : cases) {
    const Measurement m = measure_one(*measurer, program(*task, name));
    CAPTURE(name, m.failure);
    CHECK(m.status == Status::kWrong);
    CHECK_THAT(m.failure, Catch::Contains(text));
    CHECK(m.samples.empty());
  }
  CHECK(measurer->restarts() == 0);
  CHECK(measure_one(*measurer, program(*task, "right")).status == Status::kOk);
}

TEST_CASE("gpu: a hang ends the worker, and the next program is measured", "[unit]") {
  Fake fake;
  auto measurer = open();
  auto task = make_task(*measurer);
  const std::vector<Candidate> candidates = {program(*task, "right", 1), program(*task, "hang", 2),
                                             program(*task, "right", 3, 8)};
  auto results = measurer->measure(candidates);
  REQUIRE(results);
  CHECK((*results)[0].status == Status::kOk);
  CHECK((*results)[1].status == Status::kHung);
  CHECK_THAT((*results)[1].failure, Catch::Contains("did not end its first runs within 1.0 s"));
  CHECK((*results)[2].status == Status::kOk);
  CHECK(measurer->restarts() == 1);
  CHECK(measurer->notes().empty());
}

TEST_CASE("gpu: after two hangs programs with asynchronous copies are not tried any more", "[unit]") {
  Fake fake;
  auto measurer = open();
  auto task = make_task(*measurer);
  // The kernel beside the artifact says that it copies asynchronously.
  ir::KernelBuilder kb;
  const ir::Expr none[] = {kb.b().integer(0)};
  const ir::Stmt wait = kb.b().instr(ir::find_instruction("cp.async.wait"), {}, none);
  Candidate copies = program(*task, "right", 7);
  copies.kernel = kb.finish(wait);
  CHECK(measure_one(*measurer, copies).status == Status::kOk);
  measure_one(*measurer, program(*task, "hang"));
  CHECK(measure_one(*measurer, copies).status == Status::kOk);
  measure_one(*measurer, program(*task, "hang"));
  const Measurement m = measure_one(*measurer, copies);
  CHECK(m.status == Status::kRejected);
  CHECK_THAT(m.failure, Catch::StartsWith("hangs: "));
  CHECK(measure_one(*measurer, program(*task, "right")).status == Status::kOk);
  REQUIRE(measurer->notes().size() == 1);
  CHECK_THAT(measurer->notes()[0], Catch::Contains("asynchronous copies"));
  // Of another task nothing is known.
  auto other = make_task(*measurer);
  copies.task = other.get();
  CHECK(measure_one(*measurer, copies).status == Status::kOk);
}

TEST_CASE("gpu: a trap of a program that waits for copies counts as a hang", "[unit]") {
  Fake fake("crash=fault:719");
  auto measurer = open();
  auto task = make_task(*measurer);
  ir::KernelBuilder kb;
  const ir::Expr none[] = {kb.b().integer(0)};
  Candidate waits = program(*task, "fault", 7);
  waits.kernel = kb.finish(kb.b().instr(ir::find_instruction("cp.async.wait"), {}, none));
  for (int i = 0; i < 2; ++i) {
    const Measurement m = measure_one(*measurer, waits);
    CHECK(m.status == Status::kCrashed);
    CHECK_THAT(m.failure, Catch::Contains("719") && Catch::Contains("a wait for a copy may have lasted"));
  }
  CHECK(measure_one(*measurer, waits).status == Status::kRejected);
  // A trap of a program that waits for nothing says nothing about waits.
  const Measurement other = measure_one(*measurer, program(*task, "fault", 8));
  CHECK(other.status == Status::kCrashed);
  CHECK_THAT(other.failure, !Catch::Contains("wait for a copy"));
}

TEST_CASE("gpu: a fault costs the worker, and the record names the culprit", "[unit]") {
  Fake fake("crash=fault:700");
  auto measurer = open();
  auto task = make_task(*measurer);
  const std::vector<Candidate> candidates = {program(*task, "fault", 1), program(*task, "right", 2),
                                             program(*task, "abort", 3), program(*task, "right", 4, 8)};
  auto results = measurer->measure(candidates);
  REQUIRE(results);
  CHECK((*results)[0].status == Status::kCrashed);
  CHECK_THAT((*results)[0].failure, Catch::Contains("700"));
  CHECK((*results)[1].status == Status::kOk);
  CHECK((*results)[2].status == Status::kCrashed);
  CHECK_THAT((*results)[2].failure, Catch::Contains("exit code 9"));
  CHECK((*results)[3].status == Status::kOk);
  CHECK(measurer->restarts() == 2);
}

TEST_CASE("gpu: the fastest must be right on data of a second seed", "[unit]") {
  Fake fake;
  auto measurer = open();
  // A first input that is not negative on the first data, and negative on the second: found by trying seeds.
  for (uint64_t seed = 1; seed < 64; ++seed) {
    auto task = MeasureTask::create(references(), make_gemm(), ampere(), {.seed = seed});
    REQUIRE(task);
    const Measurement m = measure_one(*measurer, program(**task, "lucky"));
    if (m.status != Status::kWrong || m.failure.find("second seed") == std::string::npos) continue;
    CHECK(m.samples.empty());
    CHECK(m.gate.empty());
    return;
  }
  FAIL("no seed made the difference");
}

TEST_CASE("gpu: programs far behind the best are not timed on, and pairs find the faster one", "[unit]") {
  Fake fake;
  auto measurer = open();
  auto task = make_task(*measurer);
  const Candidate fast = program(*task, "right", 1, 4), slow = program(*task, "right", 2, 4000);
  const Measurement best = measure_one(*measurer, fast);
  const Measurement loser = measure_one(*measurer, slow);
  REQUIRE(loser.status == Status::kOk);
  CHECK(loser.median > 1.3 * best.median);
  CHECK((loser.cut_short || loser.converged));
  auto verdict = measurer->compare(slow, fast, PairAim::kWhoWins);
  REQUIRE(verdict);
  CHECK(verdict->failure == "");
  CHECK(verdict->winner == PairedComparison::Winner::kB);
  CHECK(verdict->ratio > 1.3);
  auto tie = measurer->compare(fast, fast, PairAim::kWhoWins);
  REQUIRE(tie);
  CHECK(tie->winner == PairedComparison::Winner::kNone);
  auto broken = measurer->compare(fast, program(*task, "short"), PairAim::kWhoWins);
  REQUIRE(broken);
  CHECK_THAT(broken->failure, Catch::Contains("are wrong"));
}

TEST_CASE("gpu: a program is measured once in a run, and one that is launched otherwise is another program", "[unit]") {
  Fake fake;
  auto measurer = open();
  auto task = make_task(*measurer);
  Candidate first = program(*task, "right", 1, 4), same = program(*task, "right", 2, 4), wider = first;
  auto artifact = std::make_shared<codegen::Artifact>(*first.artifact);
  artifact->launches[0].grid = {4000, 1, 1};  // the code is that of the first
  wider.artifact = artifact;
  first.run = same.run = wider.run = 1;
  // A device that was disturbed leaves no measurement that counts for others.
  Measurement m = measure_one(*measurer, first);
  for (int i = 0; i < 20 && m.disturbed; ++i) m = measure_one(*measurer, first);
  REQUIRE(m.status == Status::kOk);
  const Measurement twin = measure_one(*measurer, same);
  CHECK(twin.twin);
  CHECK(twin.id == 2);
  CHECK(twin.samples == m.samples);
  CHECK(twin.run_seconds == 0);
  const Measurement other = measure_one(*measurer, wider);
  CHECK(other.code == m.code);
  CHECK_FALSE(other.twin);
  CHECK(other.median > 1.3 * m.median);
  same.run = 2;  // another run forgets
  CHECK_FALSE(measure_one(*measurer, same).twin);
}

TEST_CASE("gpu: where CUPTI is, the records of finalists hold the device's own times and counters", "[unit]") {
  Fake fake;
  GpuMeasureOptions options = test_options();
  options.cupti_library = TCC_FAKE_CUPTI;
  auto measurer = open(options);
  auto task = make_task(*measurer);
  Candidate candidate = program(*task, "right", 1, 400);
  const Measurement plain = measure_one(*measurer, candidate);
  CAPTURE(plain.failure);
  REQUIRE(plain.status == Status::kOk);
  CHECK(plain.device_seconds == 0);
  CHECK(plain.median > 0);
  CHECK_FALSE(plain.counts.any());
  candidate.finalist = true;
  const Measurement final = measure_one(*measurer, candidate);
  // The fake device takes 2 us and 10 ns a block; events hold the gaps beside that.
  CHECK(final.device_seconds == Approx(6e-6).epsilon(0.01));
  CHECK(final.counts == record::Counts{1500, 0.25, 0.5});
  CHECK(measurer->notes().empty());
  record::Record record;
  fill_record(final, record);
  CHECK(record.counts == final.counts);
  CHECK(record.device_seconds == final.device_seconds);
}

TEST_CASE("gpu: without CUPTI or the right to its counters measuring goes on, and one note says so", "[unit]") {
  Fake fake;
  const auto notes_with = [&](const char* library, const char* setting) {
    setenv("FAKE_CUPTI", setting, 1);
    GpuMeasureOptions options = test_options();
    options.cupti_library = library;
    auto measurer = open(options);
    auto task = make_task(*measurer);
    for (uint64_t id = 1; id <= 3; ++id) {
      Candidate candidate = program(*task, "right", id, 4 * static_cast<int64_t>(id));
      candidate.finalist = true;
      const Measurement m = measure_one(*measurer, candidate);
      CHECK(m.status == Status::kOk);
      CHECK_FALSE(m.counts.any());
    }
    CHECK(measurer->restarts() == 0);
    unsetenv("FAKE_CUPTI");
    return measurer->notes();
  };
  const auto locked = notes_with(TCC_FAKE_CUPTI, "private");
  REQUIRE(locked.size() == 1);
  CHECK_THAT(locked[0], Catch::Contains("no counters by CUPTI") && Catch::Contains("NVreg_RestrictProfiling"));
  const auto absent = notes_with("/nonexistent/libcupti.so.13", "");
  REQUIRE(absent.size() == 1);
  CHECK_THAT(absent[0], Catch::Contains("no times and counters by CUPTI") && Catch::Contains("/nonexistent"));
  // Another profiler is attached.
  const auto refused = notes_with(TCC_FAKE_CUPTI, "refused");
  REQUIRE(refused.size() == 2);
  CHECK_THAT(refused[0] + refused[1], Catch::Contains("status 39"));
}

TEST_CASE("gpu: a device that is lost is an error that says how to go on", "[unit]") {
  auto folder = TemporaryDirectory::create("tcc-gpu-test-");
  REQUIRE(folder);
  const std::string gone = (*folder)->path() + "/gone";
  Fake fake("fail=cuLaunchKernel:719:30,gone=" + gone);
  auto measurer = open();
  auto task = make_task(*measurer);
  std::vector<Candidate> candidates;
  for (uint64_t i = 0; i < 12; ++i) candidates.push_back(program(*task, "right", i, 4 + static_cast<int64_t>(i)));
  auto results = measurer->measure(candidates);
  REQUIRE_FALSE(results);
  CHECK_THAT(results.error().message, Catch::Contains("the device was lost while tuning"));
  CHECK_THAT(results.error().hint, Catch::Contains("the same command again"));
  // It comes back, and works.
  std::filesystem::remove(gone);
  Fake healthy;
  CHECK(measure_one(*measurer, candidates[0]).status == Status::kOk);
}

TEST_CASE("gpu: no room for the task's tensors is an error, not the program's fault", "[unit]") {
  Fake fake("memory=2110000");  // the flush takes 2 MiB of it
  auto measurer = open();
  auto task = make_task(*measurer);
  const Candidate right = program(*task, "right");
  auto results = measurer->measure({&right, 1});
  REQUIRE_FALSE(results);
  CHECK_THAT(results.error().message, Catch::Contains("do not fit the device's free memory"));
  CHECK_FALSE(results.error().hint.empty());
  // Tensors beyond all of the memory are refused before anything runs.
  GemmOptions large;
  large.m = large.n = large.k = 1024;
  auto refused = measurer->prepare(make_gemm(large), ampere());
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("its tensors take"));
}

TEST_CASE("gpu: a measurer that cannot begin says what to do", "[unit]") {
  const auto error = [](const std::string& fake_text, GpuMeasureOptions options = test_options()) {
    Fake fake(fake_text);
    auto created = GpuMeasurer::create(references(), options);
    REQUIRE_FALSE(created);
    CHECK(created.error().cls == ErrorClass::kEnvironment);
    return created.error().message + " | " + created.error().hint;
  };
  GpuMeasureOptions absent = test_options();
  absent.driver_library = "/nonexistent/libcuda.so.1";
  CHECK_THAT(error("", absent), Catch::Contains("install the NVIDIA driver"));
  GpuMeasureOptions second = test_options();
  second.device = 1;
  CHECK_THAT(error("", second), Catch::Contains("there is no CUDA device 1"));
  CHECK_THAT(error("fail=cuInit:100"), Catch::Contains("CUDA_VISIBLE_DEVICES"));
  CHECK_THAT(error("fail=cuDevicePrimaryCtxRetain:2"), Catch::Contains("nvidia-smi"));
  GpuMeasureOptions lost = test_options();
  lost.worker_path = "/nonexistent/tcc-worker";
  CHECK_THAT(error("", lost), Catch::Contains("build or install tcc-worker"));
  if (codegen::nvrtc_available()) {
    const std::string old = error("driver=9020");
    CHECK_THAT(old, Catch::Contains("CUDA 9.2") && Catch::Contains("older than the compiler") &&
                        Catch::Contains("install a driver for CUDA"));
  }
}
