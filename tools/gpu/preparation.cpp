#include "gpu/preparation.h"

#include <algorithm>
#include <optional>

namespace tcc::gpu_check {

Preparation::Preparation(size_t items, Rank rank, Compile compile, int threads)
    : rank_(std::move(rank)), compile_(std::move(compile)), items_(items) {
  for (size_t i = 0; i < items; ++i) jobs_[{i, 0}] = [this, i] { this->rank(i); };
  for (int t = 0; t < std::max(threads, 1); ++t) threads_.emplace_back([this] { work(); });
}

Preparation::~Preparation() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Preparation::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty() || running_ == 0; });
    if (stop_ || (jobs_.empty() && running_ == 0)) return;
    auto job = std::move(jobs_.begin()->second);
    jobs_.erase(jobs_.begin());
    ++running_;
    lock.unlock();
    job();
    lock.lock();
    --running_;
    changed_.notify_all();
  }
}

void Preparation::rank(size_t item) {
  std::vector<RankedProgram> programs = rank_(item);
  std::lock_guard lock(mutex_);
  if (stop_) return;
  Item& i = items_[item];
  i.programs = std::move(programs);
  i.codes.resize(i.programs.size());
  for (size_t p = 0; p < i.programs.size(); ++p) jobs_[{item, p + 1}] = [this, item, p] { compile(item, p); };
  i.ranked = true;
}

void Preparation::compile(size_t item, size_t program) {
  Result<codegen::Artifact> code = compile_(items_[item].programs[program].lowered);
  std::lock_guard lock(mutex_);
  items_[item].codes[program] = std::move(code);
}

const std::vector<RankedProgram>& Preparation::programs(size_t item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return items_[item].ranked; });
  return items_[item].programs;
}

Result<codegen::Artifact> Preparation::code(size_t item, size_t program) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return items_[item].codes[program].has_value(); });
  return std::move(*items_[item].codes[program]);
}

}  // namespace tcc::gpu_check
