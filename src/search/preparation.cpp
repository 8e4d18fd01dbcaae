#include "search/preparation.h"

#include <algorithm>

namespace tcc::search {

Preparation::~Preparation() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Preparation::work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
      if (ended_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Prepared made = prepare(job.naive);
    std::lock_guard lock(mutex_);
    ready_.insert_or_assign(job.task, std::move(made));
    changed_.notify_all();
  }
}

Preparation::Prepared Preparation::take(size_t at, std::span<const size_t> order,
                                        const std::vector<TaskState>& states) {
  std::unique_lock lock(mutex_);
  std::vector<size_t> missing;
  for (size_t task : order)
    if (!ready_.contains(task)) missing.push_back(task);
  if (measurer_.traits().prepares_beside) {
    for (size_t task : missing) {
      ready_.emplace(task, std::nullopt);
      waiting_.push_back({task, states[task].task->kernel});
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    auto mine = std::find_if(waiting_.begin(), waiting_.end(), [&](const Job& job) { return job.task == at; });
    if (mine != waiting_.end()) std::rotate(waiting_.begin(), mine, mine + 1);
    changed_.notify_all();
    changed_.wait(lock, [&] { return ready_.at(at).has_value(); });
  } else if (!ready_.contains(at)) {
    missing.resize(std::min<size_t>(missing.size(), pool_ != nullptr ? static_cast<size_t>(pool_->size()) : 1));
    std::vector<std::optional<Prepared>> made(missing.size());
    parallel_for(pool_, std::ssize(missing), [&](int64_t i) {
      const auto n = static_cast<size_t>(i);
      made[n] = prepare(states[missing[n]].task->kernel);
    });
    for (size_t i = 0; i < missing.size(); ++i) ready_.insert_or_assign(missing[i], std::move(made[i]));
  }
  Prepared taken = std::move(*ready_.at(at));
  ready_.at(at).reset();
  return taken;
}

}  // namespace tcc::search
