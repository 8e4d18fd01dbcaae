// What a worker does with a job: the programs are rebuilt from the task and their traces, and measured.
#include <chrono>
#include <deque>
#include <thread>

#include "tcc/fleet/worker.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/task.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

namespace tcc::fleet {
namespace {

// Inputs and references that are kept in memory: tasks, and the share of what one of them may take.
constexpr size_t kPreparedTasks = 64;
constexpr double kPreparedShare = 0.5;

class MeasurerRunner : public Runner {
 public:
  MeasurerRunner(measure::Measurer& measurer, double most_bytes) : measurer_(measurer), most_bytes_(most_bytes) {}
  record::Kind kind() const override { return measurer_.traits().kind; }
  bool compares() const override { return measurer_.traits().compares; }
  double preparing_seconds() const override { return preparing_seconds_; }

  Result<Answer> run(const Job& job, const TaskText& task) override {
    Answer answer;
    const Result<std::shared_ptr<const measure::MeasureTask>> prepared = prepare(task);
    if (!prepared) {
      answer.trouble = prepared.error().message;
      return answer;
    }
    std::vector<measure::Candidate> candidates;
    for (const Program& program : job.programs) {
      Result<measure::Candidate> candidate = rebuild(program, task);
      if (!candidate) {
        answer.trouble = candidate.error().message;
        return answer;
      }
      candidate->task = prepared->get();
      candidate->run = program.finalist ? 0 : combine_hash(hash_bytes(job.run), job.number);
      candidates.push_back(std::move(*candidate));
    }
    if (candidates.size() == 2) {
      TCC_TRY(answer.compared, measurer_.compare(candidates[0], candidates[1], job.aim));
      return answer;
    }
    TCC_TRY(std::vector<measure::Measurement> measured, measurer_.measure(candidates));
    answer.measured = std::move(measured.at(0));
    return answer;
  }

 private:
  struct Prepared {
    std::string key;
    double bytes = 0;
    std::shared_ptr<const measure::MeasureTask> task;
  };

  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const TaskText& task) {
    for (const Prepared& p : prepared_)
      if (p.key == task.key) return p.task;
    if (const double bytes = measure::task_memory(task.naive); !(bytes <= most_bytes_))
      return environment_error("task {} needs about {} for its inputs and references, expected at most {}", task.key,
                               format_bytes(bytes), format_bytes(most_bytes_));
    const Stopwatch watch;
    auto prepared = measurer_.prepare(task.naive, task.target);
    preparing_seconds_ += watch.seconds();
    TCC_TRY(std::shared_ptr<const measure::MeasureTask> made, std::move(prepared));
    prepared_bytes_ += measure::task_memory(task.naive);
    prepared_.push_back({task.key, measure::task_memory(task.naive), made});
    while (prepared_.size() > 1 &&
           (prepared_.size() > kPreparedTasks || prepared_bytes_ > kPreparedShare * most_bytes_)) {
      prepared_bytes_ -= prepared_.front().bytes;
      prepared_.pop_front();
    }
    return made;
  }

  static Result<measure::Candidate> rebuild(const Program& program, const TaskText& task) {
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> kernel = task.naive;
    if (!program.trace.empty()) {
      TCC_TRY(const schedule::Trace trace, schedule::trace_from_json(program.trace, "the trace of a job"));
      kernel = schedule::replay(trace, trace.decisions, task.naive, arena);
    }
    if (kernel) kernel = lower::lower(*kernel, task.target, ir::Stage::kNest, arena);
    measure::Candidate candidate;
    if (kernel) {
      candidate.nest = *kernel;
      candidate.nest_hash = ir::hash_kernel(*kernel);
      kernel = lower::lower(*kernel, task.target, ir::Stage::kLowered, arena);
    }
    if (!kernel) return input_error("the trace of a job does not replay here: {}", kernel.error().text);
    if (candidate.nest_hash != program.nest_hash)
      return input_error("the trace of a job gives another program here than at the tuner: {:016x}, expected {:016x}",
                         candidate.nest_hash, program.nest_hash);
    candidate.kernel = std::move(*kernel);
    candidate.finalist = program.finalist;
    return candidate;
  }

  measure::Measurer& measurer_;
  const double most_bytes_;
  std::deque<Prepared> prepared_;
  double preparing_seconds_ = 0, prepared_bytes_ = 0;
};

class FakeRunner : public Runner {
 public:
  explicit FakeRunner(double seconds) : seconds_(seconds) {}
  record::Kind kind() const override { return record::Kind::kSimulated; }

  Result<Answer> run(const Job& job, const TaskText&) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    Answer answer;
    measure::Measurement& m = answer.measured.emplace();
    m.code = combine_hash(job.programs[0].nest_hash, 0x636f6465);
    Rng rng(job.programs[0].nest_hash);
    m.median = 1e-4 * (1 + 9 * rng.uniform());
    m.low = m.high = m.median;
    m.samples = {m.median};
    m.repeats = 1;
    m.converged = true;
    return answer;
  }

 private:
  const double seconds_;
};

}  // namespace

std::unique_ptr<Runner> make_runner(measure::Measurer& measurer, double most_bytes) {
  return std::make_unique<MeasurerRunner>(measurer, most_bytes);
}
std::unique_ptr<Runner> make_fake_runner(double seconds) {
  return std::make_unique<FakeRunner>(seconds);
}

}  // namespace tcc::fleet
