#include "search/candidates.h"

namespace tcc::search {

struct Candidates::Slot {
  Individual individual;
  bool legal = false;
  int64_t attempts = 0;
  std::vector<ir::Reject> rejects;
};

void Candidates::fresh_draw(Individual& out, int64_t sketch, Rng& rng) const {
  out.sketch = static_cast<int32_t>(sketch);
  out.decisions.resize(sketch_of(out).trace.decisions.size());
  space::draw_decisions(sketch_of(out), out.decisions, rng);
}

bool Candidates::evaluate(Slot& slot, Worker& worker) const {
  Individual& i = slot.individual;
  worker.arena->reset();
  ir::Legal<ir::Kernel> nest =
      space::instantiate(sketch_of(i), i.decisions, round_.target, worker.arena, &worker.decisions);
  if (!nest) {
    slot.rejects.push_back(std::move(nest).error());
    return false;
  }
  // Where an extent depends on an earlier decision, a draw is repaired: records and models read what the program has.
  i.decisions = worker.decisions;
  i.nest_hash = ir::hash_kernel(*nest);
  const features::Program program = {*round_.state.task, sketch_of(i).trace,    i.decisions, *nest,
                                     round_.target,      round_.options.threads};
  features::extract(round_.model.needs(), program, worker.features, i.sample);
  return true;
}

std::vector<Candidates::Slot> Candidates::fill(int64_t count, uint64_t salt, int64_t attempts, const Make& make) {
  std::vector<Slot> slots(static_cast<size_t>(count));
  auto body = [&](int64_t i, int worker) {
    Slot& slot = slots[static_cast<size_t>(i)];
    Rng rng = round_.rng.fork(salt).fork(static_cast<uint64_t>(i));
    while (!slot.legal && slot.attempts < attempts && !(round_.stop && round_.stop())) {
      ++slot.attempts;
      make(slot.individual, i, rng);
      slot.legal = evaluate(slot, workers_[static_cast<size_t>(worker)]);
    }
  };
  while (std::ssize(workers_) < (round_.pool != nullptr ? round_.pool->size() : 1)) workers_.emplace_back();
  if (round_.pool != nullptr)
    round_.pool->parallel_for(count, body);
  else
    for (int64_t i = 0; i < count; ++i) body(i, 0);
  for (const Slot& slot : slots) {
    counts_.proposed += slot.attempts;
    counts_.rejected += static_cast<int64_t>(slot.rejects.size());
    for (const ir::Reject& r : slot.rejects) {
      const std::string reason(ir::reject_reason_name(r.reason));
      ++counts_.rejected_by_reason[reason];
      counts_.reject_examples.emplace(reason, r.text);
    }
  }
  return slots;
}

std::vector<Individual> Candidates::generation(int64_t count, uint64_t salt, const Make& make) {
  std::vector<Individual> out;
  for (Slot& slot : fill(count, salt, round_.settings.attempts, make))
    if (slot.legal) out.push_back(std::move(slot.individual));
  return out;
}

std::vector<Individual> Candidates::proposals(int64_t count, uint64_t salt, const Make& make) {
  std::vector<Individual> out;
  for (Slot& slot : fill(count, salt, 1, make)) {
    if (!slot.legal) slot.individual.sketch = -1;
    out.push_back(std::move(slot.individual));
  }
  return out;
}

bool Candidates::keep_if_new(const Individual& i) {
  if (!fresh(i) || !seen_.insert(i.nest_hash).second) {
    ++counts_.duplicate;
    return false;
  }
  kept_.push_back(i);
  return true;
}

void score_by(const cost::CostModel& model, std::span<Individual> programs) {
  features::Batch batch;
  std::vector<float> scores(programs.size());
  for (const Individual& i : programs) batch.add(i.sample);
  model.predict(batch, scores);
  for (size_t i = 0; i < scores.size(); ++i) programs[i].score = scores[i];
}

}  // namespace tcc::search
