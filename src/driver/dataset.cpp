// Collecting is a search without a model and without finals, in a store of its own that lives in memory: programs that
// the pool has are records of that store, so that none is measured twice. New records go to the pool after each round.
#include "tcc/driver/dataset.h"

#include <algorithm>

#include "driver/dataset_platform.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/simulated.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/target/probe.h"

namespace tcc::driver {
namespace {

// The target with the rates and sizes of the machine that runs its programs.
target::Target with_rates(target::Target target, const std::optional<target::Target>& device) {
  if (!device) return target;
  target.peak = device->peak, target.clock_hz = device->clock_hz;
  target.memory_bandwidth = device->memory_bandwidth, target.memory_bytes = device->memory_bytes;
  target.measured = device->measured;
  target.cpu.cores = device->cpu.cores, target.cpu.threads = device->cpu.threads;
  target.cpu.l1_bytes = device->cpu.l1_bytes, target.cpu.l2_bytes = device->cpu.l2_bytes;
  target.cpu.l3_bytes = device->cpu.l3_bytes;
  return target;
}

constexpr size_t kTogether = 16;  // tasks of a search

class Collector {
 public:
  Collector(data::PoolWriter& pool, const CollectingPlatform& at)
      : pool_(pool),
        request_(at.request),
        measurer_(at.measurer),
        threads_(at.threads),
        platform_(at.platform),
        tool_version_(tool_version()) {}

  Result<CollectReport> run(std::span<const task::Task> tasks) {
    size_t done = 0, failed = 0;
    while (done < tasks.size() && !limit_.reached()) {
      std::vector<Part> parts = next_parts(tasks.subspan(done));
      progress_ = {parts[0].group.task.workload, done, tasks.size(), parts[0].programs, request_.per_task, 0};
      const auto n = static_cast<double>(parts.size());
      auto failures = collect_parts(parts, done, n * limit_.share(tasks.size() - done));
      if (!failures) return tl::make_unexpected(std::move(failures).error());
      done += parts.size(), failed += failures->size();
      if (failed == tasks.size()) return tl::make_unexpected(std::move(failures->back()));
    }
    report_.seconds = limit_.elapsed();
    report_.stopped = limit_.stopped();
    return std::move(report_);
  }

 private:
  // A task of which programs are collected.
  struct Part {
    data::Group group;  // with the entries that go to the pool next
    const data::Group* known = nullptr;
    int64_t programs = 0;  // that the pool has
    int64_t last = -1;     // record that went there
  };

  // The next task, and those after it that are searched with it: where references are made beside measuring, those of
  // one task are made while programs of another run. Tasks that the pool knows equally well only, since they share the
  // limits of a search.
  std::vector<Part> next_parts(std::span<const task::Task> tasks) const {
    const size_t most = measurer_.traits().prepares_beside ? std::min(kTogether, tasks.size()) : 1;
    std::vector<Part> parts;
    for (const task::Task& task : tasks.first(most)) {
      Part part;
      part.group = {task, platform_, space::space_name(request_.space), {}, {}};
      for (const data::Group& g : pool_.pool().groups)
        if (g.key() == part.group.key()) part.known = &g, part.programs = std::ssize(g.entries);
      if (!parts.empty() && part.programs != parts[0].programs) break;
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // The errors of the tasks that cannot be measured. Errors: the pool or the store cannot be written.
  Result<std::vector<Error>> collect_parts(std::vector<Part>& parts, size_t first, double seconds) {
    std::vector<Error> failures;
    const int64_t missing = request_.per_task - parts[0].programs;
    if (missing <= 0) return failures;
    TCC_TRY(auto store, record::Store::open(":memory:"));
    std::vector<task::Task> tasks;
    for (Part& part : parts) {
      const task::Task& task = part.group.task;
      if (part.known != nullptr) TCC_TRY_VOID(restore(*part.known, task, *store));
      TCC_TRY(std::vector<record::Record> records, store->all(search::task_hash(task)));
      part.last = records.empty() ? -1 : records.back().id;
      part.known = nullptr;  // the pool moves its groups when it grows
      tasks.push_back(task);
    }
    search::TuneOptions options;
    options.trials = missing * std::ssize(parts), options.trials_per_task = missing;
    options.seconds = seconds;
    options.strategy = request_.sampler, options.scheduler = search::TaskScheduler::kRoundRobin;
    options.space = request_.space;
    options.threads = request_.threads;
    // Draws of their own: those of the call before are known.
    options.seed = combine_hash(request_.seed, static_cast<uint64_t>(parts[0].programs));
    options.resume = false;
    options.finals = false;
    search::Environment environment;
    environment.store = store.get(), environment.measurer = &measurer_, environment.pool = &threads_;
    environment.stop = request_.stop;
    environment.tool_version = tool_version_;
    Result<void> written;
    environment.progress = [&](const search::Progress& p) {
      if (p.kind != search::Progress::Kind::kRound || !written) return;
      const auto at = static_cast<size_t>(p.task);
      progress_.workload = parts[at].group.task.workload, progress_.task = first + at;
      written = flush(*store, parts[at]);
    };
    auto tuned = search::tune(tasks, platform_.target, options, environment);
    for (Part& part : parts)
      if (written) written = flush(*store, part);
    if (!written) return tl::make_unexpected(std::move(written).error());
    if (!tuned) {
      failures.assign(parts.size(), tuned.error());
      for (const Part& part : parts) note_failure(part, tuned.error().message);
      return failures;
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const search::TaskResult& result = tuned->tasks[i];
      if (!result.failure.empty()) {
        failures.push_back(Error{ErrorClass::kEnvironment, result.failure});
        note_failure(parts[i], result.failure);
      } else if (result.exhausted && parts[i].programs < request_.per_task) {
        report_.notes.push_back(fmt::format("{}: its design spaces gave {} programs, not {}", result.workload,
                                            parts[i].programs, request_.per_task));
      }
    }
    return failures;
  }
  void note_failure(const Part& part, const std::string& reason) {
    report_.notes.push_back(fmt::format("{}: not measured: {}", part.group.task.workload, reason));
  }

  // The pool's programs as records, with the hash of their nest: they are not drawn again.
  Result<void> restore(const data::Group& known, const task::Task& task, record::Store& store) const {
    for (const data::Entry& e : known.entries) {
      schedule::Trace trace = known.sketches[static_cast<size_t>(e.sketch)];
      trace.decisions = e.decisions;
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = schedule::replay(trace, trace.decisions, task.kernel, arena);
      if (nest) nest = lower::lower(*nest, platform_.target, ir::Stage::kNest, arena);
      if (!nest) continue;  // of an older version: it may be drawn again
      record::Record r;
      r.kind = platform_.kind;
      r.task = search::task_hash(task);
      r.workload = task.workload, r.target = platform_.target.name;
      r.target_features = target::feature_hash(platform_.target);
      r.skeleton = schedule::skeleton_hash(trace);
      r.decisions = e.decisions, r.trace = schedule::trace_to_json(trace);
      r.platform = target::platform_text(platform_.target), r.space = known.space;
      r.nest_hash = ir::hash_kernel(*nest);
      r.threads = request_.threads;
      r.status = e.status, r.median = e.seconds;
      TCC_TRY_VOID(store.add(r));
    }
    return {};
  }

  // Hands the records since the last call to the pool.
  Result<void> flush(const record::Store& store, Part& part) {
    data::Group& group = part.group;
    TCC_TRY(const std::vector<record::Record> records, store.all(search::task_hash(group.task)));
    group.sketches.clear(), group.entries.clear();
    for (const record::Record& r : records) {
      if (r.id <= part.last) continue;
      part.last = r.id;
      if (r.status == record::Status::kRejected || (r.status == record::Status::kOk && !(r.median > 0))) continue;
      TCC_TRY(schedule::Trace trace, schedule::trace_from_json(r.trace));
      const auto same = std::find_if(group.sketches.begin(), group.sketches.end(),
                                     [&](const schedule::Trace& t) { return t.instructions == trace.instructions; });
      const auto sketch = static_cast<int32_t>(same - group.sketches.begin());
      if (same == group.sketches.end()) group.sketches.push_back(trace);
      const bool ok = r.status == record::Status::kOk;
      group.entries.push_back({sketch, std::move(trace.decisions), r.status, ok ? r.median : 0});
    }
    if (group.entries.empty()) return {};
    TCC_TRY(const int64_t added, pool_.add(group));
    report_.added += added, part.programs += added;
    progress_.programs = part.programs, progress_.elapsed_seconds = limit_.elapsed();
    if (request_.progress) request_.progress(progress_);
    return {};
  }

  data::PoolWriter& pool_;
  const CollectRequest& request_;
  measure::Measurer& measurer_;
  ThreadPool& threads_;
  const data::Platform platform_;
  const std::string tool_version_;
  CollectProgress progress_;
  CollectReport report_;
  const CollectLimit limit_{request_};
};

// On the workers of the request's fleet, which are machines of the same kind as this one.
Result<CollectReport> on_fleet(const CollectRequest& request, data::Platform platform, ThreadPool& threads,
                               const std::function<Result<CollectReport>(const CollectingPlatform&)>& collect) {
  // The pool says what is measured already, so no answer of an earlier call is of use.
  TCC_TRY(auto store, record::Store::open(":memory:"));
  TCC_TRY(const std::string run, fleet_run(*store, request.target, request.threads, request.seed, false));
  TCC_TRY(const std::unique_ptr<measure::Measurer> fleet,
          open_fleet(*request.fleet, request.target, request.threads, run, request.stop, nullptr));
  TCC_TRY(CollectReport report, collect({request, std::move(platform), *fleet, threads}));
  for (std::string& text : fleet->notes()) report.notes.push_back(std::move(text));
  return report;
}

}  // namespace

Result<CollectReport> on_platform(const CollectRequest& given,
                                  const std::function<Result<CollectReport>(const CollectingPlatform&)>& collect) {
  CollectRequest request = given;
  const target::Target host = target::host_target();
  const backend::Backend& backend = backend::backend_of(request.target);
  data::Platform platform{target::platform_text(request.target), 1, record::Kind::kMeasured, request.target};
  if (is_simulated(request.target)) {
    request.threads = 1;
    ThreadPool threads(static_cast<int>(host.cpu.threads));
    measure::SimulatedMeasurer measurer(request.target, &threads);
    platform.kind = record::Kind::kSimulated;
    if (request.fleet) return on_fleet(request, platform, threads, collect);
    return collect({request, platform, measurer, threads});
  }
  TCC_TRY_VOID(backend.check_tunable(request.target));
  if (!backend.by_threads) request.threads = 1;
  ThreadPool threads(static_cast<int>(std::max<int64_t>(host.cpu.threads - backend.measuring_cores, 1)));
  platform.threads = request.threads;
  platform.target = with_rates(request.target, request.device);
  if (request.fleet) return on_fleet(request, platform, threads, collect);
  TCC_TRY(auto machine, backend.open(request.target, {.threads = request.threads,
                                                      .device = request.device,
                                                      .cuda_driver = request.cuda_driver,
                                                      .cupti = request.cupti,
                                                      .compile_pool = &threads}));
  if (!machine->name.empty()) platform.name = machine->name;
  TCC_TRY(CollectReport report, collect({request, platform, *machine->measurer, threads}));
  const std::vector<std::string> notes = machine->notes();
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  return report;
}

Result<CollectReport> collect(std::span<const task::Task> tasks, data::PoolWriter& pool,
                              const CollectRequest& request) {
  return on_platform(request, [&](const CollectingPlatform& at) { return Collector(pool, at).run(tasks); });
}

std::vector<task::Task> unite_tasks(std::span<const std::vector<task::Task>> lists) {
  std::vector<task::Task> out;
  for (const std::vector<task::Task>& list : lists)
    for (const task::Task& t : list) {
      const auto known = std::find_if(out.begin(), out.end(), [&](const task::Task& o) { return o.key == t.key; });
      if (known == out.end())
        out.push_back(t);
      else
        known->weight += t.weight;
    }
  return out;
}

}  // namespace tcc::driver
