#include "search/learn.h"

#include <algorithm>

#include "tcc/support/hash.h"

namespace tcc::search {

namespace {

constexpr size_t kOwn = 1024, kOthers = 1024;
constexpr float kOtherWeight = 0.3f;

double best_of(const std::vector<Known>& known) {
  double best = 0;
  for (const Known& k : known)
    if (k.seconds > 0 && (best == 0 || k.seconds < best)) best = k.seconds;
  return best;
}

void add(cost::Samples& samples, std::span<const float> row, double throughput, uint64_t task, float weight,
         const features::Sample* program = nullptr, int64_t record = 0, double seconds = 0) {
  samples.rows.add(row);
  samples.throughputs.push_back(static_cast<float>(throughput));
  samples.tasks.push_back(task);
  samples.weights.push_back(weight);
  samples.programs.push_back(program);
  samples.records.push_back(record);
  samples.seconds.push_back(seconds);
}

}  // namespace

void learn(cost::CostModel& model, const std::vector<TaskState>& states, const Prior& prior, size_t at) {
  struct Entry {
    const Known* known;
    double best;
    uint64_t task;
  };
  std::vector<Entry> own, others;
  for (size_t i = 0; i < states.size(); ++i) {
    double best = best_of(states[i].known), best_elsewhere = best_of(states[i].elsewhere);
    for (const Known& k : states[i].known)
      if (!k.sample.empty()) (i == at ? own : others).push_back({&k, best, states[i].hash});
    for (const Known& k : states[i].elsewhere)
      if (!k.sample.empty()) others.push_back({&k, best_elsewhere, combine_hash(states[i].hash, 0x656c7365)});
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Entry& x, const Entry& y) { return x.known->record < y.known->record; });
  const bool all_of_them = model.wants_all_samples();
  if (own.size() > kOwn && !all_of_them) own.erase(own.begin(), own.end() - kOwn);
  if (others.size() > kOthers && !all_of_them) others.erase(others.begin(), others.end() - kOthers);
  cost::Samples all{.rows = features::Rows(model.schema()), .task = states[at].hash};
  for (const PriorTask& task : prior.tasks) {
    if (task.anchor != states[at].task->anchor || task.hash == states[at].hash) continue;
    for (size_t i = 0; i < task.throughputs.size(); ++i)
      add(all, task.rows[i], static_cast<double>(task.throughputs[i]), combine_hash(task.hash, 0x7072696f),
          kOtherWeight);
  }
  for (const std::vector<Entry>* list : {&others, &own})
    for (const Entry& e : *list)
      add(all, e.known->sample.row.values, e.known->seconds > 0 ? e.best / e.known->seconds : 0, e.task,
          list == &own ? 1.f : kOtherWeight, &e.known->sample, e.known->record, e.known->seconds);
  model.update(all);
}

}  // namespace tcc::search
