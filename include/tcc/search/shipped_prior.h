// What ships with the compiler about families of operators: features and speeds of programs that were measured once, of
// many tasks, so that the cost model ranks programs before a task's own first trial.
//
// The file (models/cpu.prior, format in src/search/shipped_prior.cpp) is written by `tcc-bench prior` from a database
// of records, and is part of the binary. A file from elsewhere is hostile: parse_prior
// trusts no number in it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/features/features.h"
#include "tcc/record/store.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"
#include "tcc/task/task.h"

namespace tcc::search {

struct PriorTask {
  task::AnchorKind anchor = task::AnchorKind::kElementwise;
  uint64_t hash = 0;  // of the task; of a shipped one with its target and threads
  features::Rows rows;
  std::vector<float> throughputs;  // of the fastest, in (0, 1]
  std::vector<std::string> best;   // traces as JSON, fastest first; none are shipped
};

struct ShippedPrior {
  uint64_t hash = 0;  // of the file's bytes: sessions name it
  const features::Schema* schema = nullptr;
  std::vector<PriorTask> tasks;
};

// The file that is part of this binary.
const ShippedPrior& shipped_prior();

// Errors: not such a file, cut short, damaged, of another version of the format, of another schema than `schema`.
Result<ShippedPrior> parse_prior(std::string_view bytes, const features::Schema& schema = features::kHotStatement);
// Rows of `schema`, rounded to 1/512 and cut to [0, 128). Errors: more than the format holds.
Result<std::string> print_prior(std::span<const PriorTask> tasks,
                                const features::Schema& schema = features::kHotStatement);

// The programs that the store has measured of a task on a target and a number of threads, each by its newest record, in
// the order of the records: rows of `schema`. No rows where fewer than two ran.
Result<PriorTask> prior_of(const task::Task& task, const target::Target& target, int64_t threads,
                           const record::Store& store, const features::Schema& schema = features::kHotStatement);

}  // namespace tcc::search
