// Explores design spaces by the draft model alone: Pruner's latent schedule explorer (Qiao et al., "Pruner", Algorithm
// 2). A genetic algorithm whose fitness is the draft model; of all programs that it meets it keeps the best ones.
//
// Candidates are columns from beginning to end (tcc/space/sketch_columns.h): drawn or mutated, checked, scored and told
// apart without a kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/cost/draft.h"
#include "tcc/schedule/mutation.h"
#include "tcc/space/sketch.h"
#include "tcc/target/target.h"

namespace tcc::search {

struct ExplorerOptions {
  int64_t population = 4096;  // of a generation
  int64_t generations = 4;    // mutations of the first one included
  int64_t drafts = 512;       // that are kept: the paper's |S_spec|
  double fresh_share = 0.1;   // of later generations that are drawn afresh
  double known_share = 0.1;   // of the first generation that are mutations of known programs (released code)
  // Of the drafts, at most, that are of one sketch, and of one family (cost::draft_family) of it. Others follow only
  // where too few are left. Without a limit the draft model's errors make all of them alike.
  double sketch_share = 1, family_share = 1;
  cost::DraftOptions model;
};

struct Drafted {
  int32_t sketch = 0;  // in the list of the explorer
  std::vector<int64_t> decisions;
  double seconds = 0;  // by the draft model
};

struct ExplorerCounts {
  int64_t made = 0;       // drawn or mutated
  int64_t rejected = 0;   // outside of the target's limits
  int64_t duplicate = 0;  // met before in the same call
  int64_t fresh = 0;      // legal and new
  int64_t passed = 0;     // nobody asked for their kernels, without which it is not known: their estimates are too poor
  int64_t asked = 0;      // of all, those for which instantiate() was asked
};

class DraftExplorer {
 public:
  // `sketches` and `target` must outlive the explorer. Sketches without columns are served by instantiate().
  DraftExplorer(std::span<const space::Sketch> sketches, const target::Target& target, int64_t threads,
                const schedule::MutatorWeights& weights, const ExplorerOptions& options);
  ~DraftExplorer();
  DraftExplorer(DraftExplorer&&) noexcept;

  // The best drafts, best first, no two of them the same program, and none of `known`: measured programs. The first
  // `parents` of them, best first, are parents of a part of the first generation. A function of the seed and of the
  // known programs alone. One call at a time. `stop`: true ends it early, with what was found so far; may be empty.
  std::vector<Drafted> explore(uint64_t seed, ExplorerCounts& counts, std::span<const Drafted> known = {},
                               size_t parents = 0, const std::function<bool()>& stop = {});

  struct Without {
    int32_t sketch;
    std::string why;
  };
  // Sketches that are served by instantiate(), which is slower.
  std::span<const Without> without_columns() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tcc::search
