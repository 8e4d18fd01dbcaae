#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>

#include "tcc/record/database.h"
#include "tcc/record/disturbed.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::record {
namespace {

// Fastest first (is_faster); among equals the order stays.
void keep_fastest(std::vector<Record>& records, int64_t count) {
  std::stable_sort(records.begin(), records.end(), is_faster);
  if (std::ssize(records) > count) records.resize(static_cast<size_t>(count));
}

class Union : public Database {
 public:
  Union(std::vector<Database*> members, bool ordered) : members_(std::move(members)), ordered_(ordered) {
    TCC_CHECK(!members_.empty(), "a union of no databases");
  }

  Result<std::vector<Record>> fastest(uint64_t task, const Machine& machine, int64_t threads,
                                      int64_t count) const override {
    TCC_TRY(std::vector<Record> found, ask([&](const Database& d) {
              return right_of([&](int64_t n) { return d.fastest(task, machine, threads, n); }, machine.features, count);
            }));
    return best_of(std::move(found), count);
  }
  Result<std::vector<Record>> fastest_relatives(uint64_t anchor, uint64_t task, const Machine& machine, int64_t threads,
                                                int64_t count) const override {
    TCC_TRY(std::vector<Record> found, ask([&](const Database& d) {
              return right_of([&](int64_t n) { return d.fastest_relatives(anchor, task, machine, threads, n); },
                              machine.features, count);
            }));
    return best_of(std::move(found), count);
  }
  Result<std::vector<Shape>> shapes(uint64_t family, const Machine& machine, int64_t threads) const override {
    std::vector<Shape> out;
    std::set<uint64_t> seen;
    for (const Database* member : members_) {
      TCC_TRY(std::vector<Shape> found, member->shapes(family, machine, threads));
      for (Shape& shape : found)
        if (seen.insert(shape.task).second) out.push_back(std::move(shape));
      if (ordered_ && !out.empty()) break;
    }
    std::sort(out.begin(), out.end(), [](const Shape& x, const Shape& y) { return x.task < y.task; });
    return out;
  }
  Result<std::optional<Record>> confirmed_best(uint64_t task, const Machine& machine, int64_t threads) const override {
    std::vector<Record> found;
    std::vector<std::pair<const Database*, uint64_t>> preferred;  // members and programs, in spite of faster records
    for (const Database* member : members_) {
      TCC_TRY(const std::optional<Record> own, member->confirmed_best(task, machine, threads));
      if (!own) continue;
      TCC_TRY(const bool wrong, is_wrong(task, machine.features, own->nest_hash));
      const auto fastest_here = [&](int64_t n) { return member->fastest(task, machine, threads, n); };
      if (wrong) {
        TCC_TRY(const std::vector<Record> right, right_of(fastest_here, machine.features, 1));
        found.insert(found.end(), right.begin(), right.end());
      } else {
        TCC_TRY(const std::vector<Record> fastest, fastest_here(1));
        if (fastest.at(0).nest_hash != own->nest_hash) preferred.emplace_back(member, own->nest_hash);
        found.push_back(*own);
      }
      if (ordered_ && !found.empty()) break;
    }
    // Such a member has compared programs in turns. A copy of its records, as of `merge`, knows their times only.
    for (const auto& [member, winner] : preferred) {
      const auto is_winner = [nest = winner](const Record& r) { return r.nest_hash == nest; };
      if (std::none_of(found.begin(), found.end(), is_winner)) continue;
      std::vector<Record> kept;
      for (const Record& r : found) {
        TCC_TRY(const bool known, member->contains(task, machine.features, r.nest_hash, threads));
        if (is_winner(r) || !known) kept.push_back(r);
      }
      found = std::move(kept);
    }
    keep_fastest(found, 1);
    return found.empty() ? std::optional<Record>() : std::optional(std::move(found[0]));
  }
  Result<std::vector<int64_t>> measured_threads(uint64_t task, const Machine& machine) const override {
    std::set<int64_t> known;
    for (const Database* member : members_) {
      TCC_TRY(std::vector<int64_t> threads, member->measured_threads(task, machine));
      known.insert(threads.begin(), threads.end());
    }
    std::vector<int64_t> found;
    for (int64_t threads : known) {
      TCC_TRY(std::vector<Record> one, fastest(task, machine, threads, 1));
      if (!one.empty()) found.push_back(threads);
    }
    return found;
  }
  Result<bool> contains(uint64_t task, uint64_t target_features, uint64_t nest, int64_t threads) const override {
    return any([&](const Database& d) { return d.contains(task, target_features, nest, threads); });
  }
  Result<bool> is_wrong(uint64_t task, uint64_t target_features, uint64_t nest) const override {
    return any([&](const Database& d) { return d.is_wrong(task, target_features, nest); });
  }
  Result<std::vector<Record>> all(std::optional<uint64_t> task) const override {
    TCC_TRY(std::vector<Record> found, ask([&](const Database& d) { return d.all(task); }));
    std::set<Identity> seen;
    std::erase_if(found, [&](const Record& r) { return !seen.insert(identity(r)).second; });
    return found;
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
  template <class Question>
  Result<bool> any(const Question& question) const {
    for (const Database* member : members_) {
      TCC_TRY(const bool yes, question(*member));
      if (yes) return true;
    }
    return false;
  }

  // The first `count` of a member's answers that no other member knows to be wrong. `question` takes how many to give.
  template <class Question>
  Result<std::vector<Record>> right_of(const Question& question, uint64_t target_features, int64_t count) const {
    for (int64_t asked = count;; asked *= 2) {
      TCC_TRY(std::vector<Record> found, question(asked));
      const int64_t given = std::ssize(found);
      std::vector<Record> right;
      for (Record& r : found) {
        TCC_TRY(const bool wrong, is_wrong(r.task, target_features, r.nest_hash));
        if (!wrong) right.push_back(std::move(r));
      }
      if (std::ssize(right) < count && given >= asked && asked < std::numeric_limits<int64_t>::max() / 2) continue;
      keep_fastest(right, count);
      return right;
    }
  }

  // A program that several members know counts once, with its best figure.
  static std::vector<Record> best_of(std::vector<Record> found, int64_t count) {
    keep_fastest(found, std::ssize(found));
    std::set<std::tuple<uint64_t, uint64_t, int64_t>> seen;
    std::erase_if(found, [&](const Record& r) { return !seen.insert({r.task, r.nest_hash, r.threads}).second; });
    keep_fastest(found, count);
    return found;
  }

  std::vector<Database*> members_;
  bool ordered_;
};

// Records among which a confirmed program is looked for: it is one of the first as a rule.
constexpr int64_t kCandidates[] = {16, 4096};
constexpr int64_t kProgramsOfShape = 2;  // of a task that nearest_shapes() takes

}  // namespace

Identity identity(const Record& r) {
  return {r.task, r.target_features, r.nest_hash, r.threads, r.unix_time, status_name(r.status), r.median};
}

bool is_of(const Record& record, const Machine& machine) {
  return record.target_features == machine.features &&
         (machine.platform.empty() || record.platform.empty() || record.platform == machine.platform);
}

namespace {

std::string session_key(const char* what, uint64_t task, const Machine& machine, int64_t threads) {
  std::string key = fmt::format("{} {} {} {}", what, hash_text(task), hash_text(machine.features), threads);
  return machine.platform.empty() ? key : fmt::format("{} {}", key, hash_text(hash_bytes(machine.platform)));
}

}  // namespace

std::string confirmed_best_key(uint64_t task, const Machine& machine, int64_t threads) {
  return session_key("best", task, machine, threads);
}
std::string chosen_form_key(uint64_t task, const Machine& machine, int64_t threads) {
  return session_key("form", task, machine, threads);
}

double shape_distance(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += std::fabs(std::log2(static_cast<double>(std::max<int64_t>(a[i], 1))) -
                     std::log2(static_cast<double>(std::max<int64_t>(b[i], 1))));
  return sum;
}

Result<std::vector<Record>> Database::nearest_shapes(uint64_t family, std::span<const int64_t> extents,
                                                     const Machine& machine, int64_t threads, double most,
                                                     int64_t count) const {
  TCC_TRY(const std::vector<Shape> known, shapes(family, machine, threads));
  std::vector<std::pair<double, uint64_t>> near;
  for (const Shape& shape : known)
    if (const double d = shape_distance(extents, shape.extents); d > 0 && d <= most) near.emplace_back(d, shape.task);
  std::sort(near.begin(), near.end());
  std::vector<Record> out;
  for (const auto& [d, task] : near) {
    const int64_t left = count - std::ssize(out);
    if (left <= 0) break;
    TCC_TRY(std::vector<Record> programs, fastest(task, machine, threads, std::min(left, kProgramsOfShape)));
    std::move(programs.begin(), programs.end(), std::back_inserter(out));
  }
  return out;
}

Result<std::optional<Record>> Database::best(uint64_t task, const Machine& machine, int64_t threads) const {
  TCC_TRY(std::vector<Record> records, fastest(task, machine, threads, 1));
  return records.empty() ? std::optional<Record>() : std::optional(std::move(records[0]));
}

Result<std::optional<Record>> Database::confirmed_best(uint64_t task, const Machine& machine, int64_t threads) const {
  TCC_TRY(std::vector<Record> records, fastest(task, machine, threads, kCandidates[0]));
  if (records.empty()) return std::optional<Record>();
  TCC_TRY(std::optional<std::string> confirmed, load_session(confirmed_best_key(task, machine, threads)));
  if (!confirmed && !machine.platform.empty()) {  // of a time when records did not name platforms
    TCC_TRY(confirmed, load_session(confirmed_best_key(task, machine.features, threads)));
  }
  if (!confirmed) return std::optional(std::move(records[0]));
  const auto is_confirmed = [&](const Record& r) { return hash_text(r.nest_hash) == *confirmed; };
  auto found = std::find_if(records.begin(), records.end(), is_confirmed);
  if (found == records.end() && std::ssize(records) == kCandidates[0]) {
    TCC_TRY(records, fastest(task, machine, threads, kCandidates[1]));
    found = std::find_if(records.begin(), records.end(), is_confirmed);
  }
  const bool holds = found != records.end() && may_be_confirmed(*found, records[0]);
  return std::optional(std::move(holds ? *found : records[0]));
}

std::unique_ptr<Database> make_union(std::vector<Database*> members) {
  return std::make_unique<Union>(std::move(members), false);
}
std::unique_ptr<Database> make_ordered_union(std::vector<Database*> members) {
  return std::make_unique<Union>(std::move(members), true);
}

}  // namespace tcc::record
