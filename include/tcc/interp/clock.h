// Vector clocks of GPU threads. Dense over the threads of the own block (one slot more for its asynchronous agent),
// sparse over threads of other blocks, which are known only through communication between blocks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace tcc::interp {

// One access: which thread (numbered over the launch) at which of its clock ticks. `agent` bits: the access went
// through the asynchronous proxy; it was atomic.
struct Epoch {
  uint32_t thread = 0;
  uint32_t tick = 0;  // 0: no access
  bool async = false, atomic = false;
};

class Clock {
 public:
  void start(uint32_t first, uint32_t count) {
    first_ = first;
    dense_.assign(count, 0);
    sparse_.clear();
  }
  uint32_t at(uint32_t thread) const {
    const uint32_t i = thread - first_;
    if (i < dense_.size()) return dense_[i];
    const auto known = sparse_.find(thread);
    return known == sparse_.end() ? 0 : known->second;
  }
  void set(uint32_t thread, uint32_t tick) {
    const uint32_t i = thread - first_;
    if (i < dense_.size()) {
      dense_[i] = tick;
    } else {
      sparse_[thread] = tick;
    }
  }
  void join(const Clock& other) {
    if (dense_.empty() && sparse_.empty()) {
      *this = other;
      return;
    }
    if (other.first_ == first_ && other.dense_.size() == dense_.size()) {
      for (size_t i = 0; i < dense_.size(); ++i) dense_[i] = dense_[i] < other.dense_[i] ? other.dense_[i] : dense_[i];
    } else {
      for (size_t i = 0; i < other.dense_.size(); ++i) {
        if (other.dense_[i] > at(other.first_ + static_cast<uint32_t>(i)))
          set(other.first_ + static_cast<uint32_t>(i), other.dense_[i]);
      }
    }
    for (const auto& [thread, tick] : other.sparse_)
      if (tick > at(thread)) set(thread, tick);
  }
  void clear() {
    dense_.assign(dense_.size(), 0);
    sparse_.clear();
  }

 private:
  uint32_t first_ = 0;
  std::vector<uint32_t> dense_;
  std::map<uint32_t, uint32_t> sparse_;
};

// Accesses to one element (FastTrack): the last write; the readers since, of which those ordered before a later reader
// are dropped.
struct ElementHistory {
  Epoch writer;
  Epoch reader;
  int32_t more_readers = -1;  // row of the machine's table of reader sets
};

}  // namespace tcc::interp
