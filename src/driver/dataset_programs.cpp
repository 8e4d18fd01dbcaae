// Collecting times of given programs: those of a pool that was drawn for another platform.
#include <algorithm>

#include "driver/dataset_platform.h"
#include "tcc/driver/pool_samples.h"
#include "tcc/lower/lower.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr int64_t kKeptAtOnce = 32;  // programs that go to the pool together

class ProgramCollector {
 public:
  ProgramCollector(data::PoolWriter& pool, const CollectingPlatform& at) : pool_(pool), at_(at) {}

  Result<CollectReport> run(const data::Pool& programs) {
    size_t failed = 0;
    const size_t groups = programs.groups.size();
    for (size_t i = 0; i < groups && !limit_.reached(); ++i) {
      const data::Group& given = programs.groups[i];
      progress_ = {given.task.workload, i, groups, 0, 0, 0};
      until_ = at_.request.seconds > 0 ? limit_.elapsed() + limit_.share(groups - i) : 0;
      if (auto ok = collect_group(given); !ok) {
        if (write_error_ || ++failed == groups) return tl::make_unexpected(std::move(ok).error());
        report_.notes.push_back(fmt::format("{}: not measured: {}", given.task.workload, ok.error().message));
      }
    }
    report_.seconds = limit_.elapsed();
    report_.stopped = limit_.stopped();
    return std::move(report_);
  }

 private:
  // One program, lowered; without a kernel: the target rejects it.
  struct Lowered {
    uint64_t nest_hash = 0;
    ir::Legal<ir::Kernel> kernel = ir::Legal<ir::Kernel>(ir::Kernel{});
  };

  bool out_of_time() const { return limit_.reached() || (until_ > 0 && limit_.elapsed() >= until_); }

  Result<void> collect_group(const data::Group& given) {
    const std::vector<data::Entry> left = unmeasured(given);
    if (left.empty()) return {};
    TCC_TRY(const std::shared_ptr<const measure::MeasureTask> task,
            at_.measurer.prepare(given.task.kernel, at_.platform.target));
    const int64_t at_once = std::max<int64_t>(at_.measurer.traits().at_once, 1);
    for (int64_t begin = 0; begin < std::ssize(left) && !out_of_time(); begin += at_once) {
      const auto n = static_cast<size_t>(std::min(at_once, std::ssize(left) - begin));
      TCC_TRY_VOID(measure(std::span(left).subspan(static_cast<size_t>(begin), n), task.get()));
      if (std::ssize(group_.entries) >= kKeptAtOnce) TCC_TRY_VOID(flush());
    }
    return flush();
  }

  // The first `per_task` programs of the group without those that the pool has; group_ becomes their group, without
  // entries.
  std::vector<data::Entry> unmeasured(const data::Group& given) {
    group_ = given;
    group_.platform = at_.platform;
    if (std::ssize(group_.entries) > at_.request.per_task)
      group_.entries.resize(static_cast<size_t>(at_.request.per_task));
    progress_.wanted = std::ssize(group_.entries);
    data::Pool both;
    for (const data::Group& g : pool_.pool().groups)
      if (g.key() == group_.key()) both.add(g);
    const int64_t known = both.entries();
    progress_.programs = progress_.wanted - both.add(group_);
    if (both.groups.empty()) return {};
    data::Group& all = both.groups[0];
    std::vector<data::Entry> left(all.entries.begin() + known, all.entries.end());
    group_.sketches = std::move(all.sketches), group_.entries.clear();
    return left;
  }

  Result<void> measure(std::span<const data::Entry> programs, const measure::MeasureTask* task) {
    std::vector<Lowered> lowered(programs.size());
    at_.threads.parallel_for(std::ssize(programs), [&](int64_t i, int) {
      lowered[static_cast<size_t>(i)] = lower_program(programs[static_cast<size_t>(i)]);
    });
    std::vector<measure::Candidate> candidates;
    for (size_t i = 0; i < programs.size(); ++i) {
      if (!lowered[i].kernel) {
        ++report_.rejected, ++progress_.programs;
        continue;
      }
      measure::Candidate& c = candidates.emplace_back();
      c.id = i, c.nest_hash = lowered[i].nest_hash, c.task = task, c.kernel = std::move(*lowered[i].kernel), c.run = 1;
      schedule::Trace trace = group_.sketches[static_cast<size_t>(programs[i].sketch)];
      trace.decisions = programs[i].decisions;
      c.naive = group_.task.kernel, c.trace = schedule::trace_to_json(trace);
    }
    if (candidates.empty()) return {};
    TCC_TRY(const std::vector<measure::Measurement> measured, at_.measurer.measure(candidates));
    for (const measure::Measurement& m : measured) {
      const data::Entry& program = programs[m.id];
      const bool ok = m.status == record::Status::kOk;
      if (m.status == record::Status::kRejected)
        ++report_.rejected, ++progress_.programs;
      else if (!ok || m.median > 0)
        group_.entries.push_back({program.sketch, program.decisions, m.status, ok ? m.median : 0});
    }
    return {};
  }

  Lowered lower_program(const data::Entry& program) const {
    const schedule::Trace& sketch = group_.sketches[static_cast<size_t>(program.sketch)];
    const target::Target& target = at_.request.target;
    auto arena = std::make_shared<Arena>();
    Lowered out;
    std::vector<int64_t> used;
    out.kernel = schedule::replay(sketch, program.decisions, group_.task.kernel, arena, &used);
    if (out.kernel && !are_legal(sketch, program.decisions, used))
      out.kernel = ir::reject(ir::RejectReason::kBadDecision, "no draw makes these decisions");
    if (out.kernel) out.kernel = lower::lower(*out.kernel, target, ir::Stage::kNest, arena);
    if (!out.kernel) return out;
    out.nest_hash = ir::hash_kernel(*out.kernel);
    out.kernel = lower::lower(*out.kernel, target, ir::Stage::kLowered, arena);
    return out;
  }

  // Hands what was measured to the pool.
  Result<void> flush() {
    if (group_.entries.empty()) return {};
    Result<int64_t> added = pool_.add(group_);
    write_error_ = !added;
    if (!added) return tl::make_unexpected(std::move(added).error());
    group_.entries.clear();
    report_.added += *added;
    progress_.programs += *added, progress_.elapsed_seconds = limit_.elapsed();
    if (at_.request.progress) at_.request.progress(progress_);
    return {};
  }

  data::PoolWriter& pool_;
  const CollectingPlatform& at_;
  data::Group group_;  // with the entries that go to the pool next
  double until_ = 0;   // the time of the group at hand; 0: no limit
  bool write_error_ = false;
  CollectProgress progress_;
  CollectReport report_;
  const CollectLimit limit_{at_.request};
};

}  // namespace

Result<CollectReport> collect_programs(const data::Pool& programs, data::PoolWriter& pool,
                                       const CollectRequest& request) {
  TCC_TRY_VOID(data::check_programs(programs));
  for (const data::Group& g : programs.groups)
    if (g.platform.target.kind != request.target.kind)
      return make_error(ErrorClass::kInput,
                        fmt::format("expected programs for targets of the kind of '{}', found programs for '{}'",
                                    request.target.name, sanitize(g.platform.target.name)),
                        "name a target of their kind with --target, or another pool");
  return on_platform(request, [&](const CollectingPlatform& at) { return ProgramCollector(pool, at).run(programs); });
}

}  // namespace tcc::driver
