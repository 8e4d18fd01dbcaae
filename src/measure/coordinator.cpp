#include "tcc/measure/coordinator.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "measure/executor.h"
#include "measure/task_segment.h"
#include "measure/timing.h"
#include "measure/verdict.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

namespace tcc::measure {

using record::Status;

namespace {

constexpr double kFinalistPatience = 2;  // times that of others
constexpr size_t kKeptPrograms = 256;    // programs whose code is kept, so that a final compiles nothing again

struct Compiled {
  std::shared_ptr<const codegen::Artifact> artifact;
  // Of everything that runs: the code, how it is launched, its buffers.
  uint64_t digest = 0;
  Measurement measurement;
  std::optional<Error> error;  // no candidate's fault
};

}  // namespace

class Coordinator::State {
 public:
  State(std::unique_ptr<Executor> executor, IsolatedHostMeasurer& references)
      : references_(references), executor_(std::move(executor)) {}

  Executor& executor() const { return *executor_; }
  const Executor::Facts& facts() const { return executor_->facts(); }
  IsolatedHostMeasurer& references() const { return references_; }

  Compiled compile(const Candidate& candidate);
  Result<void> measure(const Candidate& candidate, Compiled& compiled, bool overlap);
  Result<PairedComparison> compare(const Candidate& a, const Candidate& b, PairAim aim);

 private:
  JobSpec job_of(JobKind kind, const MeasureTask& task, std::vector<const codegen::Artifact*> artifacts) const {
    JobSpec spec;
    spec.kind = kind;
    spec.artifacts = std::move(artifacts);
    spec.task = &task.segment().memory;
    spec.task_id = task.id();
    spec.budget_seconds = facts().budget_seconds;
    return spec;
  }
  // Runs the job and says in `m` what became of the program. Errors: what no candidate is to blame for.
  Result<FinishedJob> run(const JobSpec& spec, const Candidate& candidate, const MeasureTask& task, Measurement& m);
  Result<void> judge(const FinishedJob& job, const JobSpec& spec, const MeasureTask& task, Measurement& m) const;
  Result<Measurement> confirm(const Candidate& candidate, const Compiled& compiled);
  Result<void> confirm_best(const Candidate& candidate, Compiled& compiled);
  const Measurement* twin_of(const Candidate& candidate, const Compiled& compiled);

  using Program = std::pair<uint64_t, uint64_t>;  // task, then the digest or the hash of the program

  IsolatedHostMeasurer& references_;
  const std::unique_ptr<Executor> executor_;
  std::map<uint64_t, double> best_seconds_;  // of right programs, by task
  std::map<Program, Measurement> measured_;  // in the run `run_`
  uint64_t run_ = 0;
  std::set<Program> confirmed_;  // passed the second seed
  std::mutex mutex_;
  std::map<Program, std::shared_ptr<const codegen::Artifact>> kept_;  // guarded by mutex_
};

Compiled Coordinator::State::compile(const Candidate& candidate) {
  Compiled c;
  Measurement& m = c.measurement;
  m.id = candidate.id;
  c.artifact = candidate.artifact;
  const Program program{candidate.task->id(), candidate.nest_hash};
  if (!c.artifact && candidate.nest_hash != 0) {
    std::lock_guard lock(mutex_);
    if (auto kept = kept_.find(program); kept != kept_.end()) c.artifact = kept->second;
  }
  if (!c.artifact) {
    TCC_CHECK(candidate.kernel.stage == ir::Stage::kLowered, "candidates are measured at Stage::Lowered");
    Stopwatch watch;
    auto artifact = executor_->compile(candidate.kernel, candidate.task->target());
    m.compile_seconds = watch.seconds();
    if (!artifact) {
      if (artifact.error().cls == ErrorClass::kEnvironment) c.error = artifact.error();
      m.status = Status::kCompileFailed;
      m.failure = artifact.error().message;
      return c;
    }
    c.artifact = std::make_shared<const codegen::Artifact>(std::move(*artifact));
    std::lock_guard lock(mutex_);
    if (kept_.size() >= kKeptPrograms) kept_.erase(kept_.begin());
    if (candidate.nest_hash != 0) kept_[program] = c.artifact;
  }
  Writer whole;
  put_artifact(whole, *c.artifact);
  c.digest = hash_bytes(whole.bytes());
  m.code = hash_bytes(c.artifact->code);
  m.layouts = constant_layouts(*c.artifact);
  if (std::string mismatch = parameter_mismatch(*c.artifact, candidate.task->segment().description);
      !mismatch.empty()) {
    m.status = Status::kRejected;
    m.failure = mismatch;
  }
  return c;
}

Result<void> Coordinator::State::judge(const FinishedJob& job, const JobSpec& spec, const MeasureTask& task,
                                       Measurement& m) const {
  const WorkerResult& result = job.result();
  if (job.end == FinishedJob::End::kTimedOut) {
    const bool first = result.phase != Phase::kTiming;
    m.status = first ? Status::kHung : Status::kTimedOut;
    m.failure = fmt::format("did not end {} within {:.1f} s", first ? "its first runs" : "its timed runs",
                            spec.timeout_seconds);
    return {};
  }
  if (job.end == FinishedJob::End::kDied) {
    m.status = job.status;
    m.failure = job.failure;
    return {};
  }
  if (result.given_up_seconds > 0) {
    m.status = Status::kTimedOut;
    m.failure = fmt::format("a run took more than {:.2f} s of CPU time, far more than the best of the task",
                            result.given_up_seconds);
    return {};
  }
  m.max_error = result.max_error;
  m.where = result.where.data();
  m.failure = result.text.data();
  switch (result.status) {
    case ChildStatus::kOk:
      m.status = Status::kOk;
      m.failure.clear();
      m.gate = result.exact_passed ? "exact" : "tolerance";
      if (task.facts().sampled) m.gate += " at samples";
      break;
    case ChildStatus::kWrong:
      m.status = Status::kWrong;
      break;
    case ChildStatus::kFailed:
      m.status = Status::kCompileFailed;
      break;
    case ChildStatus::kCrashed:
      m.status = Status::kCrashed;
      break;
    case ChildStatus::kNoMemory:
      return make_error(ErrorClass::kEnvironment, fmt::format("{}: {}", facts().name, m.failure),
                        "end other programs on the device (nvidia-smi shows them), use a smaller batch, or another "
                        "device; what was measured is in the store, and the same command goes on from there");
  }
  return {};
}

Result<FinishedJob> Coordinator::State::run(const JobSpec& spec, const Candidate& candidate, const MeasureTask& task,
                                            Measurement& m) {
  TCC_TRY(FinishedJob job, executor_->run(spec));
  TCC_TRY_VOID(judge(job, spec, task, m));
  executor_->learn(candidate, job, m);
  return job;
}

// The gate on data of a second seed. Programs must pass it before they are called the best or are compared with it. The
// result is ok, or says what became of the program.
Result<Measurement> Coordinator::State::confirm(const Candidate& candidate, const Compiled& compiled) {
  Measurement m;
  m.id = candidate.id;
  const Program program{candidate.task->id(), compiled.digest};
  if (confirmed_.contains(program)) return m;
  TCC_TRY(std::shared_ptr<const MeasureTask> second, candidate.task->second(references_));
  JobSpec spec = job_of(JobKind::kCheck, *second, {compiled.artifact.get()});
  spec.timeout_seconds = executor_->timeout_of(*second, 0);
  TCC_TRY_VOID(run(spec, candidate, *second, m));
  if (m.status == Status::kOk)
    confirmed_.insert(program);
  else
    m.failure = "right on the first data, but on data of a second seed: " + m.failure;
  return m;
}

// The program is the fastest of its task so far. Notes its time, or takes it out where it is wrong.
Result<void> Coordinator::State::confirm_best(const Candidate& candidate, Compiled& compiled) {
  Measurement& m = compiled.measurement;
  TCC_TRY(Measurement second, confirm(candidate, compiled));
  if (second.status == Status::kOk)
    best_seconds_[candidate.task->id()] = m.median;
  else
    disqualify(m, second);
  return {};
}

// What was measured of the same code in this run; nullptr: nothing that counts for it.
const Measurement* Coordinator::State::twin_of(const Candidate& candidate, const Compiled& compiled) {
  if (candidate.run == 0) return nullptr;
  if (candidate.run != run_) measured_.clear();
  run_ = candidate.run;
  auto at = measured_.find({candidate.task->id(), compiled.digest});
  return at != measured_.end() ? &at->second : nullptr;
}

Result<void> Coordinator::State::measure(const Candidate& candidate, Compiled& compiled, bool overlap) {
  if (compiled.error) return tl::make_unexpected(*compiled.error);
  Measurement& m = compiled.measurement;
  m.threads = facts().threads;
  m.overlap = overlap;
  m.device = facts().device;
  if (m.status != Status::kOk) return {};
  if (const Measurement* twin = twin_of(candidate, compiled)) {
    const Measurement own = std::exchange(m, *twin);
    m.id = own.id;
    m.compile_seconds = own.compile_seconds;
    m.run_seconds = 0;
    m.twin = true;
    return {};
  }
  if (std::string refusal = executor_->refusal(candidate); !refusal.empty()) {
    m.status = Status::kRejected;
    m.failure = std::move(refusal);
    return {};
  }
  const MeasureTask& task = *candidate.task;
  auto known = best_seconds_.find(task.id());
  const double best = known == best_seconds_.end() ? 0 : known->second;
  JobSpec spec = job_of(JobKind::kMeasure, task, {compiled.artifact.get()});
  spec.patience_seconds = spec.budget_seconds * facts().patience * (candidate.finalist ? kFinalistPatience : 1);
  spec.timeout_seconds = executor_->timeout_of(task, std::max(spec.budget_seconds, spec.patience_seconds));
  spec.best_seconds = candidate.finalist ? 0 : best;
  spec.profile = candidate.finalist;  // attaching CUPTI takes longer than timing a program
  Stopwatch watch;
  TCC_TRY(FinishedJob job, run(spec, candidate, task, m));
  if (m.status == Status::kOk) {
    read_samples(job.result(), m);
    m.cold = facts().cold;
    if (best <= 0 || m.median < best) TCC_TRY_VOID(confirm_best(candidate, compiled));
  }
  m.run_seconds = watch.seconds();
  if (candidate.run != 0 && m.status == Status::kOk && !m.disturbed)
    measured_.insert_or_assign({task.id(), compiled.digest}, m);
  return {};
}

Result<PairedComparison> Coordinator::State::compare(const Candidate& a, const Candidate& b, PairAim aim) {
  TCC_CHECK(a.task && a.task == b.task, "a pair is of one task");
  PairedComparison failed;
  Compiled compiled[2] = {compile(a), compile(b)};
  for (int i = 0; i < 2; ++i) {
    if (compiled[i].error) return tl::make_unexpected(*compiled[i].error);
    failed.failure = compiled[i].measurement.failure;
    if (compiled[i].measurement.status != Status::kOk) return failed;
    TCC_TRY(Measurement second, confirm(i == 0 ? a : b, compiled[i]));
    failed.failure = second.failure;
    if (second.status != Status::kOk) return failed;
  }
  PairTally tally(aim);
  // In every other turn B is loaded first.
  for (int turn = 0; turn < kPairedProcesses && tally.open(); ++turn) {
    const bool swapped = turn % 2 == 1;
    JobSpec spec =
        job_of(JobKind::kPaired, *a.task, {compiled[swapped].artifact.get(), compiled[!swapped].artifact.get()});
    spec.patience_seconds = spec.budget_seconds;  // both programs see the same machine
    spec.timeout_seconds =
        executor_->timeout_of(*a.task, kMaxPairBudgets * spec.budget_seconds + spec.patience_seconds);
    Measurement m;
    TCC_TRY(FinishedJob job, run(spec, swapped ? b : a, *a.task, m));
    failed.failure = m.failure;
    if (m.status != Status::kOk) return failed;
    tally.add(job.result(), swapped);
  }
  return tally.close();
}

Coordinator::Coordinator(std::unique_ptr<Executor> executor, IsolatedHostMeasurer& references)
    : state_(std::make_unique<State>(std::move(executor), references)) {}
Coordinator::~Coordinator() = default;

MeasurerTraits Coordinator::traits() const {
  return state_->facts().traits;
}
std::vector<std::string> Coordinator::notes() const {
  return state_->executor().notes();
}
int Coordinator::worker_pid() const {
  return state_->executor().worker_pid();
}
int64_t Coordinator::restarts() const {
  return state_->executor().restarts();
}

Result<std::shared_ptr<const MeasureTask>> Coordinator::prepare(const ir::Kernel& naive, const target::Target& target) {
  TCC_TRY_VOID(state_->executor().check_task(naive));
  MeasureTask::Options options;
  options.sample_above_flops = state_->executor().facts().sample_above_flops;
  TCC_TRY(std::shared_ptr<const MeasureTask> task, MeasureTask::create(state_->references(), naive, target, options));
  // The first right program needs it: made here, it delays no measurement and may share the time with other tasks.
  TCC_TRY_VOID(task->second(state_->references()));
  return task;
}

void Coordinator::compile(std::span<Candidate> candidates) {
  parallel_for(state_->facts().compile_pool, std::ssize(candidates), [&](int64_t i) {
    Candidate& c = candidates[static_cast<size_t>(i)];
    c.artifact = state_->compile(c).artifact;
  });
}

// Candidates are compiled in any order and measured in the order asked. Where measuring has a processor of its own the
// two go on side by side. Elsewhere all are compiled first, and measuring has the machine to itself.
Result<std::vector<Measurement>> Coordinator::measure(std::span<const Candidate> candidates) {
  const bool overlap = state_->facts().compiles_beside && candidates.size() > 1;
  std::vector<Compiled> compiled(candidates.size());
  std::vector<bool> ready(candidates.size(), false);  // guarded by `mutex`
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Error> error;  // of the measuring thread; read when it has ended
  auto compile_all = [&] {
    parallel_for(state_->facts().compile_pool, std::ssize(candidates), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      Compiled one = state_->compile(candidates[at]);
      std::lock_guard lock(mutex);
      compiled[at] = std::move(one);
      ready[at] = true;
      changed.notify_one();
    });
  };
  auto measure_all = [&] {
    for (size_t i = 0; i < candidates.size() && !error; ++i) {
      {
        std::unique_lock lock(mutex);
        if (!ready[i]) {
          state_->executor().end_measuring();
          changed.wait(lock, [&] { return ready[i]; });
        }
      }
      if (Result<void> done = state_->measure(candidates[i], compiled[i], overlap); !done)
        error = std::move(done).error();
    }
    state_->executor().end_measuring();
  };
  if (overlap) {
    std::jthread measuring(measure_all);
    compile_all();
  } else {
    compile_all();
    measure_all();
  }
  if (error) return tl::make_unexpected(std::move(*error));
  std::vector<Measurement> results;
  for (Compiled& c : compiled) results.push_back(std::move(c.measurement));
  return results;
}

Result<PairedComparison> Coordinator::compare(const Candidate& a, const Candidate& b, PairAim aim) {
  Result<PairedComparison> comparison = state_->compare(a, b, aim);
  state_->executor().end_measuring();
  return comparison;
}

Result<SharedMemory> make_job(const JobSpec& spec) {
  Writer writer;
  for (const codegen::Artifact* artifact : spec.artifacts) put_artifact(writer, *artifact);
  const auto bytes = static_cast<int64_t>(writer.bytes().size());
  const int64_t payload = page_up(static_cast<int64_t>(sizeof(JobHeader)));
  const int64_t outputs = page_up(payload + bytes);
  TCC_TRY(SharedMemory memory, SharedMemory::create("tcc-job", outputs + spec.output_bytes));
  auto* header = new (memory.data()) JobHeader{};
  header->kind = spec.kind;
  header->threads = 1;
  header->budget_seconds = spec.budget_seconds;
  header->patience_seconds = spec.patience_seconds;
  header->best_seconds = spec.best_seconds;
  header->profile = spec.profile ? 1 : 0;
  header->payload_offset = payload;
  header->payload_bytes = bytes;
  header->num_artifacts = static_cast<int32_t>(spec.artifacts.size());
  header->outputs_offset = outputs;
  std::memcpy(memory.data() + payload, writer.bytes().data(), writer.bytes().size());
  return memory;
}

}  // namespace tcc::measure
