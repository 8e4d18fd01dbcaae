// The whole way through the worker: every way a candidate can go wrong, and that measuring goes on after each.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "kernels.h"
#include "measure/task_segment.h"
#include "tcc/codegen/llvm.h"
#include "tcc/ir/layout.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/host.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::measure;
using namespace tcc::measure::test;
using record::Status;

namespace {

const target::Target& host() {
  static const target::Target target = target::host_target();
  return target;
}

HostMeasureOptions test_options() {
  HostMeasureOptions options;
  options.worker_path = TCC_BINARY_DIR "/tools/tcc-worker";
  options.budget_seconds = 0.05;
  return options;
}

IsolatedHostMeasurer& measurer() {
  static std::unique_ptr<IsolatedHostMeasurer> shared = [] {
    auto created = IsolatedHostMeasurer::create(test_options());
    if (!created) FAIL(created.error().message);
    return std::move(*created);
  }();
  return *shared;
}

std::shared_ptr<const MeasureTask> make_task(const GemmOptions& options = {}) {
  auto task = MeasureTask::create(measurer(), make_gemm(options), host(), {});
  if (!task) FAIL(task.error().message);
  return *task;
}

Candidate candidate_of(const MeasureTask& task, const ir::Kernel& kernel, uint64_t id = 0) {
  auto lowered = lower::lower(kernel, host(), ir::Stage::kLowered, std::make_shared<Arena>());
  if (!lowered) FAIL(lowered.error().text);
  Candidate candidate;
  candidate.id = id;
  candidate.task = &task;
  candidate.kernel = *lowered;
  return candidate;
}

Measurement measure_one(const MeasureTask& task, const ir::Kernel& kernel) {
  Candidate candidate = candidate_of(task, kernel, 42);
  auto results = measurer().measure(std::span(&candidate, 1));
  if (!results) FAIL(results.error().message);
  REQUIRE(results->size() == 1);
  CHECK((*results)[0].id == 42);
  return (*results)[0];
}

}  // namespace

TEST_CASE("a right kernel is measured", "[unit]") {
  auto task = make_task();
  CHECK(task->facts().exact);
  CHECK(task->facts().plain);
  CHECK(task->facts().reduce_terms == 29);
  Measurement m = measure_one(*task, make_gemm());
  CAPTURE(m.failure);
  REQUIRE(m.status == Status::kOk);
  CHECK(m.gate == "exact");
  CHECK(m.max_error < 1);
  CHECK(m.samples.size() >= 1);
  CHECK(m.low <= m.median);
  CHECK(m.median <= m.high);
  CHECK(m.median > 0);
  CHECK(m.code != 0);
  CHECK(m.calibration > 0);
}

TEST_CASE("kernels in other types and with intrinsics pass by tolerance", "[unit]") {
  GemmOptions options;
  options.gelu = true;
  auto task = make_task(options);
  CHECK_FALSE(task->facts().plain);
  Measurement m = measure_one(*task, make_gemm(options));
  CAPTURE(m.failure);
  CHECK(m.status == Status::kOk);
  CHECK(m.gate == "tolerance");
  options.defect = Defect::kShortSum;
  CHECK(measure_one(*task, make_gemm(options)).status == Status::kWrong);

  GemmOptions narrow;
  narrow.in = narrow.out = ir::Type::kBF16;
  narrow.relu = true;
  auto narrow_task = make_task(narrow);
  Measurement n = measure_one(*narrow_task, make_gemm(narrow));
  CAPTURE(n.failure);
  CHECK(n.status == Status::kOk);
  CHECK(n.gate == "exact");
}

TEST_CASE("weights arrive in the candidate's layout", "[unit]") {
  auto task = make_task();
  ir::Kernel kernel = make_gemm();
  Arena& arena = *kernel.arena;
  std::vector<const ir::Buffer*> buffers(kernel.buffers.begin(), kernel.buffers.end());
  ir::Buffer packed = *buffers[1];
  REQUIRE(packed.role == ir::BufferRole::kWeight);
  // [k, n] in tiles of 16 columns, the last one padded: another order and another size than row-major.
  packed.layout = ir::make_blocked(arena, std::array<int64_t, 2>{28, 20}, std::array<int32_t, 2>{1, 0},
                                   std::array{std::pair<int32_t, int64_t>{1, 16}});
  REQUIRE(packed.layout->size == 28 * 32);
  buffers[1] = ir::Builder(arena).buffer(packed);
  kernel.buffers = arena.copy(buffers);
  Measurement m = measure_one(*task, kernel);
  CAPTURE(m.failure);
  CHECK(m.status == Status::kOk);
  CHECK(m.gate == "exact");
  record::Record record;
  fill_record(m, record);
  CHECK(record.layouts == "1 " + ir::print_layout(*packed.layout) + "\n");
  // The pair shares what is laid out alike and nothing else.
  auto comparison =
      measurer().compare(candidate_of(*task, kernel), candidate_of(*task, make_gemm()), PairAim::kWhoWins).value();
  CHECK(comparison.failure == "");
}

TEST_CASE("long sums of reals stay within what is allowed, a missing term does not", "[unit]") {
  GemmOptions options;
  options.m = options.n = 8;
  options.k = 3000;
  auto task = make_task(options);
  Measurement m = measure_one(*task, make_gemm(options));
  CAPTURE(m.failure, m.max_error, m.where);
  CHECK(m.status == Status::kOk);
  CHECK(m.max_error > 0);
  CHECK(m.max_error < 0.5);
  options.gelu = true;
  auto curved = make_task(options);
  m = measure_one(*curved, make_gemm(options));
  CAPTURE(m.failure, m.max_error, m.where);
  CHECK(m.status == Status::kOk);
  options.defect = Defect::kShortSum;
  m = measure_one(*curved, make_gemm(options));
  CHECK(m.status == Status::kWrong);
  CHECK(m.max_error > 50);
}

TEST_CASE("a weight of one element is a factor near one, whatever the length of the sums", "[unit]") {
  GemmOptions options;
  options.m = 4, options.n = 1, options.k = 900;
  options.gelu = options.divisor = true;
  auto task = make_task(options);
  CHECK_FALSE(task->facts().plain);
  const MeasureTask::Segment& segment = task->segment();
  REQUIRE(segment.description.params.size() == 4);
  for (int64_t set = 0; set < segment.description.num_sets; ++set) {
    auto largest = [&](size_t param) {
      const TaskParam& p = segment.description.params[param];
      const auto* data = reinterpret_cast<const float*>(segment.memory.data() + p.sets[static_cast<size_t>(set)].data);
      float most = 0;
      for (int64_t i = 0; i < p.elements(); ++i) most = std::max(most, std::fabs(data[i]));
      return most;
    };
    INFO("set " << set);
    REQUIRE(segment.description.params[3].elements() == 1);
    CHECK(largest(3) >= 0.5f);  // as a divisor it does not drive what follows into saturation
    CHECK(largest(3) <= 1.5f);
    CHECK(largest(1) <= 1.01f / 30);  // other weights keep sums of 900 terms near one
    CHECK(largest(1) >= 0.5f / 30);
  }
  CHECK(measure_one(*task, make_gemm(options)).status == Status::kOk);
  options.defect = Defect::kShortSum;
  CHECK(measure_one(*task, make_gemm(options)).status == Status::kWrong);
}

TEST_CASE("several threads", "[unit]") {
  HostMeasureOptions options = test_options();
  options.threads = 0;
  auto own = IsolatedHostMeasurer::create(options).value();
  auto task = MeasureTask::create(*own, make_gemm(), host(), {}).value();
  Candidate candidate = candidate_of(*task, make_gemm());
  auto m = own->measure(std::span(&candidate, 1)).value()[0];
  CAPTURE(m.failure);
  CHECK(m.status == Status::kOk);
  CHECK(m.threads >= 1);
}

TEST_CASE("every planted defect gets its status and measuring goes on", "[unit]") {
  auto task = make_task();
  struct Case {
    Defect defect;
    Status status;
    const char* text;
  };
  const Case cases[] = {
      {Defect::kShortSum, Status::kWrong, "of parameter 2 are wrong on integer data"},
      {Defect::kNaN, Status::kWrong, "NaN"},
      {Defect::kUnwritten, Status::kWrong, "of parameter 2 are wrong"},
      {Defect::kOneTooMany, Status::kCrashed, "bytes beyond the end of parameter 2"},
      {Defect::kWildStore, Status::kCrashed, "SEGV"},
      {Defect::kWritesInput, Status::kWrong, "writes to its input, parameter 0"},
      {Defect::kHang, Status::kHung, "did not end its first runs"},
      {Defect::kTwice, Status::kOk, ""},
  };
  std::vector<Candidate> batch;
  for (const Case& c : cases)
    batch.push_back(candidate_of(*task, make_gemm(c.defect), static_cast<uint64_t>(c.defect)));
  for (size_t i = 0; i < std::size(cases); ++i) {
    if (cases[i].defect != Defect::kWritesInput) continue;
    auto artifact = codegen::compile_host(batch[i].kernel, host()).value();
    artifact.buffers[0].role = ir::BufferRole::kInput;
    batch[i].artifact = std::make_shared<codegen::Artifact>(std::move(artifact));
  }
  auto results = measurer().measure(batch);
  REQUIRE(results.has_value());
  for (size_t i = 0; i < std::size(cases); ++i) {
    const Measurement& m = (*results)[i];
    CAPTURE(i, m.failure);
    CHECK(m.id == static_cast<uint64_t>(cases[i].defect));
    CHECK(m.status == cases[i].status);
    CHECK_THAT(m.failure, Catch::Contains(cases[i].text));
    CHECK(m.samples.empty() == (m.status != Status::kOk));
  }
  CHECK(measurer().restarts() == 0);
}

TEST_CASE("a stack overflow is a crash that is told from others by its address", "[unit]") {
  auto task = make_task();
  Candidate candidate = candidate_of(*task, make_gemm());
  auto artifact = codegen::compile_host(candidate.kernel, host()).value();
  auto folder = TemporaryDirectory::create("tcc-overflow").value();
  std::string source =
      "static int deep(int n) { volatile char a[4096]; a[n % 4096] = 1; return n ? deep(n - 1) + a[n % 4096] : 0; }\n";
  for (const codegen::Launch& launch : artifact.launches)
    source += "void " + launch.symbol + "(void* const* b, long long i, long long e) { deep(1 << 30); }\n";
  REQUIRE(write_file(folder->path() + "/deep.c", source));
  const std::string command = "cd " + folder->path() + " && cc -w -O0 -fPIC -fno-asynchronous-unwind-tables -c deep.c";
  REQUIRE(std::system(command.c_str()) == 0);
  artifact.code = read_file(folder->path() + "/deep.o").value();
  candidate.artifact = std::make_shared<codegen::Artifact>(std::move(artifact));
  Measurement m = measurer().measure(std::span(&candidate, 1)).value()[0];
  CAPTURE(m.failure);
  CHECK(m.status == Status::kCrashed);
  CHECK_THAT(m.failure, Catch::Contains("SEGV") && Catch::Contains("at address"));
  CHECK(m.samples.empty());
  CHECK(measure_one(*task, make_gemm()).status == Status::kOk);
}

TEST_CASE("the fastest program must be right on data of a second seed", "[unit]") {
  // Right where the first element of A is positive, on integers and on reals: the luck of a quarter of the seeds.
  int caught = 0, lucky = 0;
  for (uint64_t seed = 1; seed <= 24 && (caught == 0 || lucky == 0); ++seed) {
    MeasureTask::Options options;
    options.seed = seed;
    auto task = MeasureTask::create(measurer(), make_gemm(), host(), options).value();
    Measurement m = measure_one(*task, make_gemm(Defect::kLucky));
    CAPTURE(seed, m.failure);
    if (m.status == Status::kOk) {
      ++lucky;
      continue;
    }
    REQUIRE(m.status == Status::kWrong);
    if (m.failure.find("second seed") == std::string::npos) continue;
    ++caught;
    CHECK_THAT(m.failure, Catch::Contains("of parameter 2 are wrong"));
    CHECK(m.samples.empty());
    CHECK(m.median == 0);
    // It did not become what others are compared with, and it wins no comparison either.
    Measurement right = measure_one(*task, make_gemm());
    CHECK(right.status == Status::kOk);
    CHECK_FALSE(right.cut_short);
    auto verdict = measurer().compare(candidate_of(*task, make_gemm(Defect::kLucky)), candidate_of(*task, make_gemm()),
                                      PairAim::kWhoWins);
    CHECK(verdict.value().winner == PairedComparison::Winner::kNone);
    CHECK_THAT(verdict.value().failure, Catch::Contains("second seed"));
  }
  CHECK(caught >= 1);
}

TEST_CASE("a program far behind the best gets a few samples only", "[unit]") {
  GemmOptions shape{.m = 60, .n = 60, .k = 60};
  auto task = make_task(shape);
  REQUIRE(measure_one(*task, make_gemm(shape)).status == Status::kOk);
  shape.defect = Defect::kTwice;
  bool cut = false;
  for (int i = 0; i < 40 && !cut; ++i) {  // where every sample is disturbed nothing is sure
    Measurement m = measure_one(*task, make_gemm(shape));
    REQUIRE(m.status == Status::kOk);
    // The run of the numeric gate is the only sample where other programs made it very long.
    cut = m.cut_short && m.samples.size() > 1;
    if (!cut) continue;
    CHECK(m.samples.size() >= 3);
    CHECK(m.samples.size() < 20);
    CHECK_FALSE(m.converged);
    CHECK(m.median > 0);
  }
  CHECK(cut);
}

TEST_CASE("a program that is hopelessly slower than the best is ended in its first run", "[unit]") {
  auto task = make_task();
  REQUIRE(measure_one(*task, make_gemm()).status == Status::kOk);
  Candidate endless = candidate_of(*task, make_gemm(Defect::kHang));
  auto results = measurer().measure({&endless, 1});
  REQUIRE(results.has_value());
  const Measurement& m = (*results)[0];
  CHECK(m.status == Status::kTimedOut);
  CHECK_THAT(m.failure, Catch::Contains("far more than the best of the task"));
  CHECK(m.samples.empty());
  CHECK(m.gate.empty());
  // One whose time decides is given all the time there is.
  endless.finalist = true;
  auto again = measurer().measure({&endless, 1});
  REQUIRE(again.has_value());
  CHECK((*again)[0].status == Status::kHung);
}

TEST_CASE("where it may, a measurement of the same code stands for a program", "[unit]") {
  const GemmOptions shape{.m = 24, .n = 20, .k = 28};
  auto task = make_task(shape);
  bool found = false;
  for (int i = 0; i < 40 && !found; ++i) {  // what was disturbed is measured again
    std::vector<Candidate> batch = {candidate_of(*task, make_gemm(shape), 7), candidate_of(*task, make_gemm(shape), 8),
                                    candidate_of(*task, make_gemm(shape), 9)};
    batch[0].run = batch[1].run = 5;
    auto results = measurer().measure(batch);
    REQUIRE(results.has_value());
    const std::vector<Measurement>& m = *results;
    REQUIRE(m.size() == 3);
    for (size_t k = 0; k < 3; ++k) CHECK((m[k].status == Status::kOk && m[k].id == 7 + k));
    CHECK_FALSE(m[2].twin);
    if (i == 0) CHECK_FALSE(m[0].twin);
    found = m[1].twin;
    if (!found || m[0].disturbed) continue;
    CHECK(m[1].samples == m[0].samples);
    CHECK(m[1].code == m[0].code);
    CHECK(m[1].run_seconds == 0);
  }
  CHECK(found);
  auto other = make_task(shape);
  Candidate alone = candidate_of(*other, make_gemm(shape));
  alone.run = 5;
  auto results = measurer().measure(std::span(&alone, 1));
  REQUIRE(results.has_value());
  CHECK_FALSE((*results)[0].twin);  // of another task: other data, other shapes
  alone = candidate_of(*task, make_gemm(shape));
  alone.run = 6;
  results = measurer().measure(std::span(&alone, 1));
  REQUIRE(results.has_value());
  CHECK_FALSE((*results)[0].twin);  // another run tries for itself
}

TEST_CASE("records say how a time was taken, and where", "[unit]") {
  auto task = make_task();
  std::vector<Candidate> batch = {candidate_of(*task, make_gemm(), 0), candidate_of(*task, make_gemm(), 1)};
  auto measured = measurer().measure(batch).value();
  record::Record record;
  fill_record(measured[1], record);
  CHECK(record.statistic == (measured[1].disturbed ? "fastest tenth" : "median"));
  CHECK(record.cache == "warm");
  CHECK(record.repeats >= 1);
  CHECK(record.dropped == measured[1].dropped);
  CHECK(record.converged == measured[1].converged);
  CHECK(record.compile_seconds > 0);
  CHECK(record.overlap == (measurer().notes().empty() && host().cpu.cores > 1));
  CHECK(record.isa == target::isa_level_name(target::isa_level(host())));
  auto device = target::target_from_json(record.device);
  REQUIRE(device.has_value());
  CHECK(target::feature_hash(*device) == target::feature_hash(host()));
  record::Record failed;
  fill_record(measure_one(*task, make_gemm(Defect::kShortSum)), failed);
  CHECK(failed.statistic.empty());
  CHECK(failed.cache.empty());
}

TEST_CASE("programs are timed with their weights out of the caches where models are large", "[unit]") {
  HostMeasureOptions options = test_options();
  options.cold_weights = true;
  auto cold = IsolatedHostMeasurer::create(options);
  REQUIRE(cold.has_value());
  GemmOptions gemm;
  gemm.m = 3, gemm.n = 700, gemm.k = 650;  // 1.8 MB of weights
  auto task = MeasureTask::create(**cold, make_gemm(gemm), host(), {});
  REQUIRE(task.has_value());
  std::vector<Candidate> batch = {candidate_of(**task, make_gemm(gemm))};
  auto measured = (*cold)->measure(batch);
  REQUIRE(measured.has_value());
  CHECK(measured->at(0).status == Status::kOk);
  record::Record record;
  fill_record(measured->at(0), record);
  CHECK(record.cache == "cold");
  CHECK(record.median > 0);
  auto pair = (*cold)->compare(batch[0], batch[0], PairAim::kWhoWins);
  REQUIRE(pair.has_value());
  CHECK(pair->failure.empty());
  CHECK(pair->winner == PairedComparison::Winner::kNone);
}

TEST_CASE("a kernel that codegen refuses is compile_failed", "[unit]") {
  constexpr int64_t kElements = 16 << 20;
  auto copy_through = [](ir::Stage stage, ir::Scope scope) {
    ir::KernelBuilder maker;
    ir::Builder& b = maker.b();
    const auto* x = maker.add_buffer("x", ir::Type::kF32, std::array{kElements}, ir::BufferRole::kInput);
    const auto* y = maker.add_buffer("y", ir::Type::kF32, std::array{kElements}, ir::BufferRole::kOutput);
    const auto* temp = maker.add_buffer("t", ir::Type::kF32, std::array{kElements}, ir::BufferRole::kTemp, scope);
    auto copy = [&](const ir::Buffer* to, const ir::Buffer* from) {
      ir::Id loop = maker.new_id("i"), iter = maker.new_id("v");
      bool blocks = stage == ir::Stage::kBuilt;
      std::array at = {b.var(blocks ? iter : loop)};
      ir::Stmt store = b.store(to->id, at, b.load(*from, at));
      std::array iters = {ir::Iter{iter, ir::IterKind::kSpatial, b.integer(kElements), b.var(loop)}};
      return b.loop(loop, b.integer(kElements), blocks ? b.block(maker.new_id("copy"), iters, store) : store);
    };
    ir::Stmt body = b.seq(std::array{copy(temp, x), copy(y, temp)});
    ir::Kernel kernel = maker.finish(stage == ir::Stage::kBuilt ? body : b.alloc(std::array{temp->id}, body));
    kernel.stage = stage;
    return kernel;
  };
  auto task = MeasureTask::create(measurer(), copy_through(ir::Stage::kBuilt, ir::Scope::kWorkspace), host(), {});
  if (!task) FAIL(task.error().message);
  Candidate candidate;
  candidate.task = task->get();
  candidate.kernel = copy_through(ir::Stage::kLowered, ir::Scope::kLocal);
  Measurement m = measurer().measure(std::span(&candidate, 1)).value()[0];
  CAPTURE(m.failure);
  CHECK(m.status == Status::kCompileFailed);
  CHECK_THAT(m.failure, Catch::Contains("bytes of local buffers"));
  CHECK(m.samples.empty());
}

TEST_CASE("a wrong program is recorded as wrong", "[unit]") {
  auto task = make_task();
  record::Record record;
  fill_record(measure_one(*task, make_gemm(Defect::kShortSum)), record);
  CHECK(record.status == Status::kWrong);
  CHECK(record.samples.empty());
  CHECK_FALSE(record.failure.empty());
}

TEST_CASE("the same kernel entered twice never yields a winner", "[unit]") {
  auto task = make_task();
  int64_t most_pairs = 0;
  for (int i = 0; i < 5; ++i) {
    auto comparison =
        measurer().compare(candidate_of(*task, make_gemm()), candidate_of(*task, make_gemm()), PairAim::kWhoWins);
    REQUIRE(comparison.has_value());
    CAPTURE(comparison->failure, comparison->ratio, comparison->low, comparison->high, comparison->pairs);
    CHECK(comparison->failure.empty());
    CHECK(comparison->winner == PairedComparison::Winner::kNone);
    most_pairs = std::max(most_pairs, comparison->pairs);
  }
  CHECK(most_pairs > 0);  // where the machine is busy few pairs count
}

TEST_CASE("a clearly faster kernel wins on either side", "[unit]") {
  auto task = make_task();
  auto fast = candidate_of(*task, make_gemm()), slow = candidate_of(*task, make_gemm(Defect::kTwice));
  // A machine that is busy may leave a comparison undecided; the slow one wins none.
  auto decided = [](const Candidate& a, const Candidate& b) {
    PairedComparison comparison = measurer().compare(a, b, PairAim::kWhoWins).value();
    for (int i = 0; i < 20 && comparison.winner == PairedComparison::Winner::kNone; ++i)
      comparison = measurer().compare(a, b, PairAim::kWhoWins).value();
    return comparison;
  };
  const PairedComparison comparison = decided(fast, slow);
  CAPTURE(comparison.ratio, comparison.low, comparison.high);
  CHECK(comparison.winner == PairedComparison::Winner::kA);
  CHECK(comparison.ratio < 1);
  CHECK(decided(slow, fast).winner == PairedComparison::Winner::kB);
  auto broken = measurer().compare(fast, candidate_of(*task, make_gemm(Defect::kShortSum)), PairAim::kWhoWins).value();
  CHECK(broken.winner == PairedComparison::Winner::kNone);
  CHECK_THAT(broken.failure, Catch::Contains("wrong"));
}

TEST_CASE("a killed worker is started again", "[unit]") {
  auto own = IsolatedHostMeasurer::create(test_options()).value();
  auto task = MeasureTask::create(*own, make_gemm(), host(), {}).value();
  Candidate candidate = candidate_of(*task, make_gemm());
  for (int i = 0; i < 2; ++i) {
    kill(own->worker_pid(), SIGKILL);
    auto results = own->measure(std::span(&candidate, 1));
    REQUIRE(results.has_value());
    CHECK((*results)[0].status == Status::kOk);
    CHECK(own->restarts() == i + 1);
  }
}

TEST_CASE("an artifact of another task is rejected", "[unit]") {
  auto task = make_task();
  GemmOptions other;
  other.n = 21;
  CHECK(measure_one(*task, make_gemm(other)).status == Status::kRejected);
}

TEST_CASE("what is compiled once is not compiled again", "[unit]") {
  auto task = make_task();
  std::vector<Candidate> candidates = {candidate_of(*task, make_gemm()),
                                       candidate_of(*task, make_gemm(Defect::kShortSum))};
  candidates[0].nest_hash = 1, candidates[1].nest_hash = 2;
  measurer().compile(candidates);
  for (const Candidate& c : candidates) REQUIRE(c.artifact != nullptr);
  auto again = measurer().measure(candidates).value();
  CHECK(again[0].status == Status::kOk);
  CHECK(again[1].status == Status::kWrong);
  Candidate named = candidate_of(*task, make_gemm());
  named.nest_hash = 1;
  named.kernel.root = nullptr;  // nothing that could be compiled
  auto kept = measurer().measure({&named, 1}).value();
  CHECK(kept[0].status == Status::kOk);
  CHECK(kept[0].compile_seconds == 0);
  CHECK(kept[0].code == again[0].code);
}

TEST_CASE("a batch of small kernels goes through", "[unit]") {
  auto task = make_task();
  std::vector<Candidate> batch;
  for (uint64_t i = 0; i < 20; ++i) batch.push_back(candidate_of(*task, make_gemm(), i));
  Stopwatch watch;
  auto results = measurer().measure(batch).value();
  double rate = 20 / watch.seconds();
  for (const Measurement& m : results) CHECK(m.status == Status::kOk);
  WARN(fmt::format("{:.1f} candidates a second", rate));
}

TEST_CASE("workers that cannot be used say so", "[errors]") {
  auto message_of = [](const std::string& path) {
    HostMeasureOptions options = test_options();
    options.worker_path = path;
    auto created = IsolatedHostMeasurer::create(options);
    REQUIRE_FALSE(created.has_value());
    return created.error().message + "; " + created.error().hint;
  };
  CHECK_THAT(message_of("/nowhere/tcc-worker"),
             Catch::Contains("/nowhere/tcc-worker") && Catch::Contains("tcc-worker beside tcc"));
  CHECK_THAT(message_of("/bin/true"), Catch::Contains("did not answer"));
  HostMeasureOptions options = test_options();
  options.cpus = {1023};
  CHECK_FALSE(IsolatedHostMeasurer::create(options).has_value());
  options.cpus = {0, 1023};
  auto created = IsolatedHostMeasurer::create(options);
  if (created) {
    REQUIRE((*created)->notes().size() == 1);
    CHECK_THAT((*created)->notes()[0], Catch::Contains("CPU 1023"));
  }
}
