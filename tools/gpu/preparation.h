// Ranking and compiling on the host's cores, ahead of the device, which measures meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/programs.h"
#include "tcc/codegen/artifact.h"

namespace tcc::gpu_check {

class Preparation {
 public:
  using Rank = std::function<std::vector<RankedProgram>(size_t item)>;
  using Compile = std::function<Result<codegen::Artifact>(const ir::Kernel&)>;
  // Begins with items 0 to `items` - 1: earlier items go first. Both functions are called by `threads` threads at once.
  Preparation(size_t items, Rank rank, Compile compile, int threads);
  // Forgets what is not compiled yet.
  ~Preparation();
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  // The programs of an item. Waits for them.
  const std::vector<RankedProgram>& programs(size_t item);
  // The code of one of them. Waits for it; may be taken once.
  Result<codegen::Artifact> code(size_t item, size_t program);

 private:
  struct Item {
    bool ranked = false;
    std::vector<RankedProgram> programs;
    std::deque<std::optional<Result<codegen::Artifact>>> codes;
  };
  void work();
  void rank(size_t item);
  void compile(size_t item, size_t program);

  const Rank rank_;
  const Compile compile_;
  std::vector<Item> items_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<size_t, size_t>, std::function<void()>> jobs_;  // by item, then program; ranking is program 0
  size_t running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tcc::gpu_check
