#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "tcc/record/database.h"
#include "tcc/support/check.h"

namespace tcc::record {
namespace {

// Fastest first; among equals the order stays.
void keep_fastest(std::vector<Record>& records, int64_t count) {
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& x, const Record& y) { return x.median < y.median; });
  if (std::ssize(records) > count) records.resize(static_cast<size_t>(count));
}

class MemoryDatabase : public Database {
 public:
  Result<std::vector<Record>> fastest(uint64_t task, uint64_t target_features, int64_t threads,
                                      int64_t count) const override {
    return valid_of([&](const Record& r) { return r.task == task; }, target_features, threads, count);
  }
  Result<std::vector<Record>> fastest_relatives(uint64_t anchor, uint64_t task, uint64_t target_features,
                                                int64_t threads, int64_t count) const override {
    return valid_of([&](const Record& r) { return anchor != 0 && r.anchor == anchor && r.task != task; },
                    target_features, threads, count);
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
  template <class Wanted>
  std::vector<Record> valid_of(const Wanted& wanted, uint64_t target_features, int64_t threads, int64_t count) const {
    std::lock_guard lock(mutex_);
    std::map<std::tuple<uint64_t, uint64_t, int64_t>, const Record*> verdicts;
    for (const Record& r : records_)
      if (r.kind == Kind::kMeasured && r.target_features == target_features && wanted(r))
        verdicts[{r.task, r.nest, r.threads}] = &r;
    std::set<std::pair<uint64_t, uint64_t>> wrong;
    for (const auto& [key, r] : verdicts)
      if (r->status == Status::kWrong) wrong.insert({r->task, r->nest});
    std::vector<const Record*> found;
    for (const auto& [key, r] : verdicts)
      if (r->status == Status::kOk && (threads == 0 || r->threads == threads) && !wrong.contains({r->task, r->nest}))
        found.push_back(r);
    std::sort(found.begin(), found.end(), [](const Record* x, const Record* y) { return x->id < y->id; });
    std::vector<Record> out;
    for (const Record* r : found) out.push_back(*r);
    keep_fastest(out, count);
    return out;
  }

  mutable std::mutex mutex_;
  std::vector<Record> records_;
};

class Union : public Database {
 public:
  Union(std::vector<Database*> members, bool ordered) : members_(std::move(members)), ordered_(ordered) {
    TCC_CHECK(!members_.empty(), "a union of no databases");
  }

  Result<std::vector<Record>> fastest(uint64_t task, uint64_t target_features, int64_t threads,
                                      int64_t count) const override {
    TCC_TRY(std::vector<Record> found,
            ask([&](const Database& d) { return d.fastest(task, target_features, threads, count); }));
    return best_of(std::move(found), count);
  }
  Result<std::vector<Record>> fastest_relatives(uint64_t anchor, uint64_t task, uint64_t target_features,
                                                int64_t threads, int64_t count) const override {
    TCC_TRY(std::vector<Record> found,
            ask([&](const Database& d) { return d.fastest_relatives(anchor, task, target_features, threads, count); }));
    return best_of(std::move(found), count);
  }
  Result<std::vector<Record>> all(std::optional<uint64_t> task) const override {
    return ask([&](const Database& d) { return d.all(task); });
  }
  Result<std::optional<std::string>> load_session(const std::string& key) const override {
    for (const Database* member : members_) {
      TCC_TRY(std::optional<std::string> text, member->load_session(key));
      if (text) return text;
    }
    return std::optional<std::string>();
  }
  Result<int64_t> add(const Record& record) override { return members_[0]->add(record); }

 private:
  template <class Question>
  Result<std::vector<Record>> ask(const Question& question) const {
    std::vector<Record> out;
    for (const Database* member : members_) {
      TCC_TRY(std::vector<Record> found, question(*member));
      std::move(found.begin(), found.end(), std::back_inserter(out));
      if (ordered_ && !out.empty()) break;
    }
    return out;
  }

  // A program that several members know counts once, with its best figure.
  static std::vector<Record> best_of(std::vector<Record> found, int64_t count) {
    keep_fastest(found, std::ssize(found));
    std::set<std::tuple<uint64_t, uint64_t, int64_t>> seen;
    std::erase_if(found, [&](const Record& r) { return !seen.insert({r.task, r.nest, r.threads}).second; });
    keep_fastest(found, count);
    return found;
  }

  std::vector<Database*> members_;
  bool ordered_;
};

}  // namespace

std::unique_ptr<Database> make_memory_database() {
  return std::make_unique<MemoryDatabase>();
}
std::unique_ptr<Database> make_union(std::vector<Database*> members) {
  return std::make_unique<Union>(std::move(members), false);
}
std::unique_ptr<Database> make_ordered_union(std::vector<Database*> members) {
  return std::make_unique<Union>(std::move(members), true);
}

}  // namespace tcc::record
