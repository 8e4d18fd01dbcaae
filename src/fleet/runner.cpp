// What a worker does with a job: the programs are rebuilt from the task and their traces, and measured.
#include <chrono>
#include <deque>
#include <thread>

#include "tcc/fleet/worker.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::fleet {
namespace {

constexpr size_t kPreparedTasks = 6;  // inputs and references that are kept in memory

class MeasurerRunner : public Runner {
 public:
  explicit MeasurerRunner(measure::Measurer& measurer) : measurer_(measurer) {}
  record::Kind kind() const override { return measurer_.traits().kind; }
  bool compares() const override { return measurer_.traits().compares; }

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
    std::shared_ptr<const measure::MeasureTask> task;
  };

  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const TaskText& task) {
    for (const Prepared& p : prepared_)
      if (p.key == task.key) return p.task;
    TCC_TRY(std::shared_ptr<const measure::MeasureTask> made, measurer_.prepare(task.naive, task.target));
    if (prepared_.size() >= kPreparedTasks) prepared_.pop_front();
    prepared_.push_back({task.key, made});
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
  std::deque<Prepared> prepared_;
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

std::unique_ptr<Runner> make_runner(measure::Measurer& measurer) {
  return std::make_unique<MeasurerRunner>(measurer);
}
std::unique_ptr<Runner> make_fake_runner(double seconds) {
  return std::make_unique<FakeRunner>(seconds);
}

}  // namespace tcc::fleet
