#include "search/learn.h"

#include <algorithm>

namespace tcc::search {

namespace {
constexpr size_t kMaxSamples = 4096;  // the latest; a round's retraining stays below a second
}

void learn(cost::CostModel& model, const std::vector<TaskState>& states) {
  struct Entry {
    const Known* known;
    const TaskState* state;
  };
  std::vector<Entry> all;
  for (const TaskState& s : states)
    for (const Known& k : s.known)
      if (k.has_row) all.push_back({&k, &s});
  std::stable_sort(all.begin(), all.end(),
                   [](const Entry& x, const Entry& y) { return x.known->record < y.known->record; });
  if (all.size() > kMaxSamples) all.erase(all.begin(), all.end() - kMaxSamples);
  std::vector<float> rows, throughputs;
  std::vector<uint64_t> tasks;
  for (const Entry& e : all) {
    double best = 0;
    for (const Known& k : e.state->known)
      if (k.seconds > 0 && (best == 0 || k.seconds < best)) best = k.seconds;
    rows.insert(rows.end(), e.known->row.begin(), e.known->row.end());
    throughputs.push_back(e.known->seconds > 0 ? static_cast<float>(best / e.known->seconds) : 0.f);
    tasks.push_back(e.state->hash);
  }
  model.update({{rows.data(), all.size(), features::kCount}, throughputs, tasks});
}

}  // namespace tcc::search
