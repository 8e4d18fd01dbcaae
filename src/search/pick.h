// Which of the proposed programs are measured. Private to the room.
#pragma once

#include "search/strategy.h"

namespace tcc::search {

struct PickOptions {
  int64_t count = 0;
  bool first_round = false;  // nothing of the task has been measured
  bool exploit = false;      // near the end: the best by score, whatever their sketches
  bool informed = false;     // the scores are a trained model's
  Settings::Picking settings = {};
  const cost::CostModel* model = nullptr;  // that tells families; nullptr: none does
};

// At most `count` of the candidates, which are all new and differ from each other; the order is that of measuring.
//
// The first round gives each sketch a turn, best first, as far as three fifths of the picks go, or less than half where
// a model was trained on other tasks. Later a share goes to
// sketches that have been measured little for what they promise (an upper confidence bound over sketches, Auer et al.
// 2002), so that many sketches neither eat the trials nor are forgotten. Everything else goes by score, less a penalty
// for resembling what has been picked already, or for being like a measured one in every feature: eight programs that
// differ in nothing that matters teach as much as one. Where settings say so, the best of each family of the model come
// before others of the same family, and all picks are in the order of their scores, spare ones last.
std::vector<Individual> pick_programs(const TaskState& state, std::vector<Individual> candidates,
                                      const PickOptions& options);

// A round's programs, of all that was seen and never measured: what was best elsewhere (`seeded`, by nest) comes first
// while nothing is known of the task, then the choice of pick_programs; a share of `random_part`, the fresh draws, is
// drawn against an overconfident model, more at first where there is no model yet, evenly spread over the round. Half
// of a round after one that brought next to nothing are those of them that promise most.
std::vector<Individual> pick_round(const Round& round, std::vector<Individual> unmeasured,
                                   const std::vector<Individual>& random_part, std::span<const uint64_t> seeded,
                                   bool exploit);

}  // namespace tcc::search
