// Records in a vector: what a store answers, said without SQL.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include "tcc/record/database.h"
#include "tcc/record/disturbed.h"

namespace tcc::record {

class MemoryDatabase : public Database {
 public:
  Result<std::vector<Record>> fastest(uint64_t task, const Machine& machine, int64_t threads,
                                      int64_t count) const override {
    return valid_of([&](const Record& r) { return r.task == task; }, machine, threads, count);
  }
  Result<std::vector<Record>> fastest_relatives(uint64_t anchor, uint64_t task, const Machine& machine, int64_t threads,
                                                int64_t count) const override {
    return valid_of([&](const Record& r) { return anchor != 0 && r.anchor == anchor && r.task != task; }, machine,
                    threads, count);
  }
  Result<std::vector<Shape>> shapes(uint64_t family, const Machine& machine, int64_t threads) const override {
    std::lock_guard lock(mutex_);
    std::map<uint64_t, Shape> found;
    for (const Record& r : records_)
      if (family != 0 && r.family == family && r.kind == Kind::kMeasured && is_of(r, machine) &&
          r.status == Status::kOk && (threads == 0 || r.threads == threads))
        found.insert_or_assign(r.task, Shape{r.task, r.extents});
    std::vector<Shape> out;
    for (auto& [task, shape] : found) out.push_back(std::move(shape));
    return out;
  }
  Result<std::vector<int64_t>> measured_threads(uint64_t task, const Machine& machine) const override {
    TCC_TRY(std::vector<Record> found, fastest(task, machine, 0, std::numeric_limits<int64_t>::max()));
    std::set<int64_t> threads;
    for (const Record& r : found) threads.insert(r.threads);
    return std::vector<int64_t>(threads.begin(), threads.end());
  }
  Result<bool> contains(uint64_t task, uint64_t target_features, uint64_t nest, int64_t threads) const override {
    std::lock_guard lock(mutex_);
    return std::any_of(records_.begin(), records_.end(), [&](const Record& r) {
      return r.kind == Kind::kMeasured && r.task == task && r.target_features == target_features &&
             r.nest_hash == nest && (threads == 0 || r.threads == threads);
    });
  }
  Result<bool> is_wrong(uint64_t task, uint64_t target_features, uint64_t nest) const override {
    std::lock_guard lock(mutex_);
    for (const auto& [key, r] :
         verdicts_of([&](const Record& one) { return one.task == task && one.nest_hash == nest; }, target_features))
      if (r->status == Status::kWrong) return true;
    return false;
  }
  Result<std::vector<Record>> all(std::optional<uint64_t> task) const override {
    std::lock_guard lock(mutex_);
    std::vector<Record> out;
    for (const Record& r : records_)
      if (!task || r.task == *task) out.push_back(r);
    return out;
  }
  Result<std::optional<std::string>> load_session(const std::string&) const override {
    return std::optional<std::string>();
  }
  Result<int64_t> add(const Record& record) override {
    std::lock_guard lock(mutex_);
    records_.push_back(record);
    records_.back().id = std::ssize(records_);
    return records_.back().id;
  }

 private:
  using Verdicts = std::map<std::tuple<uint64_t, uint64_t, int64_t>, const Record*>;  // of task, nest, threads

  template <class Wanted>
  Verdicts verdicts_of(const Wanted& wanted, const Machine& machine) const {
    Verdicts verdicts;
    for (const Record& r : records_)
      if (r.kind == Kind::kMeasured && is_of(r, machine) && wanted(r)) verdicts[{r.task, r.nest_hash, r.threads}] = &r;
    return verdicts;
  }

  template <class Wanted>
  std::vector<Record> valid_of(const Wanted& wanted, const Machine& machine, int64_t threads, int64_t count) const {
    std::lock_guard lock(mutex_);
    const Verdicts verdicts = verdicts_of(wanted, machine);
    std::set<std::pair<uint64_t, uint64_t>> wrong;
    for (const auto& [key, r] : verdicts)
      if (r->status == Status::kWrong) wrong.insert({r->task, r->nest_hash});
    std::vector<const Record*> found;
    for (const auto& [key, r] : verdicts)
      if (r->status == Status::kOk && (threads == 0 || r->threads == threads) &&
          !wrong.contains({r->task, r->nest_hash}))
        found.push_back(r);
    std::sort(found.begin(), found.end(), [](const Record* x, const Record* y) { return x->id < y->id; });
    std::vector<Record> out;
    for (const Record* r : found) out.push_back(*r);
    // Fastest first; among equals the order stays.
    std::stable_sort(out.begin(), out.end(), is_faster);
    if (std::ssize(out) > count) out.resize(static_cast<size_t>(count));
    return out;
  }

  mutable std::mutex mutex_;
  std::vector<Record> records_;
};

inline std::unique_ptr<Database> make_memory_database() {
  return std::make_unique<MemoryDatabase>();
}

}  // namespace tcc::record
