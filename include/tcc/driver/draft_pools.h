// How well draft models order the programs of a pool: nothing is measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tcc/cost/draft.h"
#include "tcc/data/pool.h"
#include "tcc/support/result.h"

namespace tcc::driver {

// Programs of one group that ran, with estimates of several models; less is better.
struct DraftedGroup {
  std::string workload;
  std::vector<double> seconds;                 // measured
  std::vector<std::vector<double>> estimates;  // [model][program]
  int64_t without_columns = 0;                 // programs whose estimates their kernels gave
};
// Every group with at least `least` programs; `models`: draft models. With `rules` the last estimate is the rule
// model's, as minus its score.
// Errors: a program of the pool that this version of tcc does not make.
Result<std::vector<DraftedGroup>> draft_pool(const data::Pool& pool, std::span<const cost::DraftOptions> models,
                                             bool rules, int64_t least = 1);

// Best-1 of the first k programs by estimate (Pruner, section 6.3): the fastest of all / the fastest of these.
double best_of_drafts(const DraftedGroup& group, size_t model, int64_t k);

}  // namespace tcc::driver
