#include "driver/baselines.h"

#include "tcc/search/search.h"

#include "tcc/support/files.h"
#include "tcc/target/probe.h"

namespace tcc::driver {

Result<void> Baselines::measure(const task::Task& task, const measure::MeasureTask* prepared) {
  auto program = search::unscheduled_program(task, request_.target);
  if (!program) {
    known_[task.key] = {0, program.error().message};
    return {};
  }
  TCC_TRY(std::optional<record::Record> record, find(task, program->nest_hash));
  if (!record) {
    TCC_TRY(record, run(task, prepared, *program));
  }
  const bool ok = record->status == record::Status::kOk;
  known_[task.key] = {ok ? record->median : 0,
                      ok ? "" : fmt::format("{}: {}", record::status_name(record->status), record->failure)};
  return {};
}

Result<Baselines::Baseline> Baselines::of(const task::Task& task) const {
  if (auto it = known_.find(task.key); it != known_.end()) return it->second;
  if (auto program = search::unscheduled_program(task, request_.target)) {
    TCC_TRY(std::optional<record::Record> record, find(task, program->nest_hash));
    if (record && record->status == record::Status::kOk) return Baseline{record->median, ""};
  }
  return Baseline{0, "not reached"};
}

Result<std::optional<record::Record>> Baselines::find(const task::Task& task, uint64_t nest) const {
  TCC_TRY(std::vector<record::Record> records, store_.all(search::task_hash(task.key)));
  for (record::Record& r : records)
    if (r.kind == record::Kind::kMeasured && r.nest_hash == nest &&
        record::is_of(r, search::machine_of(request_.target)) && r.threads == request_.options.threads)
      return std::move(r);
  return std::nullopt;
}

Result<std::optional<record::Record>> Baselines::run(const task::Task& task, const measure::MeasureTask* prepared,
                                                     const search::Chosen& program) {
  measure::Candidate candidate;
  candidate.nest_hash = program.nest_hash;
  candidate.task = prepared;
  candidate.kernel = program.lowered;
  TCC_TRY(std::vector<measure::Measurement> measured, measurer_.measure({&candidate, 1}));
  record::Record record = search::program_record(task, request_.target, schedule::Trace{}, program.nest_hash);
  record.anchor = record.family = 0;  // plain loops are good nowhere else
  record.extents.clear();
  record.tool_version = tool_version();
  record.unix_time = Clock::system().unix_seconds();
  measure::fill_record(measured.at(0), record);
  record.threads = request_.options.threads;
  TCC_TRY(record.id, store_.add(record));
  return record;
}

}  // namespace tcc::driver
