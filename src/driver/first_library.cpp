#include "driver/first_library.h"

#include <algorithm>

#include "tcc/backend/backend.h"
#include "tcc/space/space.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

namespace tcc::driver {
namespace {

// What a store knows already: seconds of the best measurement here, else of an untimed record.
Result<std::optional<FirstProgram>> stored_program(const task::Task& task, const record::Store& store,
                                                   const TuneRequest& request) {
  FirstProgram out{task.key, task.workload, task.weight};
  TCC_TRY(std::optional<record::Record> best,
          store.best(search::task_hash(task), search::machine_of(request.target), request.options.threads));
  if (best) {
    out.source = search::Source::kMeasured;
    out.seconds = best->median;
    return std::optional(std::move(out));
  }
  TCC_TRY(const std::vector<record::Record> all, store.all(search::task_hash(task)));
  for (auto r = all.rbegin(); r != all.rend(); ++r) {
    if (!record::is_untimed(r->kind) || r->status != record::Status::kOk ||
        r->target_features != target::feature_hash(request.target) ||
        (backend::backend_of(request.target).by_threads && r->threads != request.options.threads))
      continue;
    out.source = r->kind == record::Kind::kConstructed ? search::Source::kConstructed : search::Source::kPredicted;
    out.seconds = r->median;
    return std::optional(std::move(out));
  }
  return std::optional<FirstProgram>();
}

record::Record untimed_record(const search::Chosen& chosen, const codegen::Artifact& artifact, const task::Task& task,
                              const TuneRequest& request, double seconds) {
  const Result<schedule::Trace> trace = schedule::trace_from_json(chosen.trace);
  record::Record r = search::program_record(task, request.target, trace ? *trace : schedule::Trace{}, chosen.nest_hash);
  r.kind = chosen.source == search::Source::kConstructed ? record::Kind::kConstructed : record::Kind::kPredicted;
  r.space = space::space_name(request.options.space);
  r.isa = backend::backend_of(request.target).isa(request.target);
  r.median = r.low = r.high = seconds;
  r.threads = request.options.threads;
  r.code = artifact.code.empty() ? 0 : hash_bytes(artifact.code);
  r.tool_version = tool_version();
  r.unix_time = Clock::system().unix_seconds();
  return r;
}

}  // namespace

Result<FirstLibrary> make_first_library(const Program& program, record::Store& store, const TuneRequest& request,
                                        ThreadPool& pool, bool anew) {
  Stopwatch watch;
  FirstLibrary library;
  std::vector<const task::Task*> missing;
  std::vector<size_t> places;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    if (!request.tasks.empty() && std::count(request.tasks.begin(), request.tasks.end(), i) == 0) continue;
    const task::Task& task = program.tasks.tasks[i];
    std::optional<FirstProgram> known;
    if (!anew) {
      TCC_TRY(known, stored_program(task, store, request));
    }
    if (!known) {
      missing.push_back(&task);
      places.push_back(library.programs.size());
    }
    library.programs.push_back(known ? std::move(*known) : FirstProgram{task.key, task.workload, task.weight});
  }
  struct Made {
    Result<search::ChosenArtifact> program = search::ChosenArtifact{};
    double seconds = 0;
  };
  std::vector<Made> made(missing.size());
  const search::Defaults defaults{request.options.space, ""};
  parallel_for(&pool, std::ssize(missing), [&](int64_t i) {
    Made& m = made[static_cast<size_t>(i)];
    const task::Task& task = *missing[static_cast<size_t>(i)];
    m.program = search::default_artifact(task, request.target, request.options.threads, defaults);
    if (m.program)
      m.seconds = search::predicted_seconds(m.program->program, m.program->artifact, task, request.target,
                                            request.options.threads);
  });
  for (size_t i = 0; i < missing.size(); ++i) {
    FirstProgram& first = library.programs[places[i]];
    if (!made[i].program) {
      first.failure = made[i].program.error().message;
      continue;
    }
    const search::ChosenArtifact& chosen = *made[i].program;
    first.source = chosen.program.source;
    first.reason = chosen.program.reason;
    first.seconds = made[i].seconds;
    first.made = true;
    ++library.made;
    TCC_TRY_VOID(store.add(untimed_record(chosen.program, chosen.artifact, *missing[i], request, made[i].seconds)));
  }
  for (const FirstProgram& p : library.programs) {
    library.predicted_seconds += static_cast<double>(p.weight) * p.seconds;
    library.unknown += p.seconds > 0 ? 0 : 1;
  }
  library.seconds = watch.seconds();
  return library;
}

}  // namespace tcc::driver
