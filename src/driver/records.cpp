#include "tcc/driver/records.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

#include "tcc/schedule/trace.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using Json = nlohmann::ordered_json;
using record::Record;

// Hashes are text of their own: JSON's numbers do not hold 64 bits.
Json to_json(const Record& r) {
  Json json;
  for_each_field(r, [&]<class T>(const char* name, const T& value, int64_t) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      json[name] = record::hash_text(value);
    } else if constexpr (std::is_same_v<T, record::Status>) {
      json[name] = record::status_name(value);
    } else if constexpr (std::is_same_v<T, record::Kind>) {
      json[name] = record::kind_name(value);
    } else {
      json[name] = value;
    }
  });
  return json;
}

bool parse_hash(const std::string& text, uint64_t& value) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return code == std::errc() && end == text.data() + text.size() && text.size() == 16;
}

// "" or what is wrong. Fields that are not there keep their defaults: older versions did not write all of them.
std::string from_json(const Json& json, Record& r) {
  if (!json.is_object()) return "expected a JSON object";
  std::string wrong;
  for (const char* needed : {"task", "target_features", "nest", "status", "median", "threads"})
    if (!json.contains(needed)) return fmt::format("'{}' is missing", needed);
  for_each_field(r, [&]<class T>(const char* name, T& value, int64_t) {
    if (!json.contains(name)) return;
    try {
      bool usable = true;
      if constexpr (std::is_same_v<T, uint64_t>) {
        usable = parse_hash(json[name].template get<std::string>(), value);
      } else if constexpr (std::is_enum_v<T>) {
        usable = record::find_name(json[name].template get<std::string>(), value);
      } else {
        json[name].get_to(value);
      }
      if (!usable) wrong = name;
    } catch (const nlohmann::json::exception&) {
      wrong = name;
    }
  });
  return wrong.empty() ? "" : fmt::format("'{}' has no usable value", wrong);
}

Result<int64_t> add_missing(std::vector<Record> records, record::Store& to) {
  TCC_TRY(std::vector<Record> present, to.all());
  std::set<record::Identity> known;
  for (const Record& r : present) known.insert(record::identity(r));
  std::erase_if(records, [&](const Record& r) { return !known.insert(record::identity(r)).second; });
  TCC_TRY_VOID(to.add_all(records));
  return static_cast<int64_t>(records.size());
}

}  // namespace

Result<StoreSummary> summarise_store(const record::Store& store) {
  TCC_TRY(std::vector<Record> records, store.all());
  StoreSummary summary;
  summary.path = store.path();
  summary.records = static_cast<int64_t>(records.size());
  std::map<std::tuple<std::string, uint64_t, std::string, int64_t, std::string>, TaskRecords> tasks;
  std::map<std::string, std::set<uint64_t>> features;  // of each target's name
  for (const Record& r : records) {
    ++summary.by_status[std::string(record::status_name(r.status))];
    ++summary.by_target[r.target];
    ++summary.by_platform[r.platform];
    summary.oldest = summary.oldest == 0 ? r.unix_time : std::min(summary.oldest, r.unix_time);
    summary.newest = std::max(summary.newest, r.unix_time);
    TaskRecords& t = tasks[{r.workload, r.task, r.target, r.threads, r.platform}];
    t.key = record::hash_text(r.task);
    t.workload = r.workload;
    t.target = r.target;
    t.threads = r.threads;
    t.platform = r.platform;
    ++t.records;
    features[r.target].insert(r.target_features);
  }
  for (auto& [key, task] : tasks) {
    for (uint64_t machine : features[task.target]) {
      TCC_TRY(auto best, store.confirmed_best(std::get<1>(key), {machine, task.platform}, task.threads));
      if (best && (task.best_seconds == 0 || best->median < task.best_seconds))
        task.best_seconds = best->median, task.best_program = best->nest_hash;
    }
    summary.tasks.push_back(std::move(task));
  }
  return summary;
}

namespace {

struct TaskOnMachine {
  uint64_t task = 0;
  record::Machine machine;
  int64_t threads = 0;
};

std::vector<TaskOnMachine> tasks_of(const std::vector<Record>& records) {
  std::set<std::tuple<uint64_t, uint64_t, int64_t, std::string>> groups;
  for (const Record& r : records) groups.insert({r.task, r.target_features, r.threads, r.platform});
  std::vector<TaskOnMachine> tasks;
  for (const auto& [task, features, threads, platform] : groups) tasks.push_back({task, {features, platform}, threads});
  return tasks;
}

// Winners of paired comparisons stay winners, but where `to` has programs that they were not compared with.
Result<int64_t> add_with_winners(std::vector<Record> records, const record::Store& from, record::Store& to) {
  std::vector<std::pair<std::string, std::string>> winners;
  for (const TaskOnMachine& t : tasks_of(records)) {
    const std::string key = record::confirmed_best_key(t.task, t.machine, t.threads);
    TCC_TRY(const std::optional<std::string> winner, from.load_session(key));
    TCC_TRY(const std::vector<Record> others, to.fastest(t.task, t.machine, t.threads, 1));
    if (winner && others.empty()) winners.emplace_back(key, *winner);
    const std::string form_key = record::chosen_form_key(t.task, t.machine, t.threads);
    TCC_TRY(const std::optional<std::string> form, from.load_session(form_key));
    if (form && others.empty()) winners.emplace_back(form_key, *form);
  }
  TCC_TRY(const int64_t added, add_missing(std::move(records), to));
  for (const auto& [key, winner] : winners) TCC_TRY_VOID(to.save_session(key, winner));
  return added;
}

}  // namespace

Result<int64_t> merge_records(const record::Store& from, record::Store& to) {
  TCC_TRY(std::vector<Record> records, from.all());
  return add_with_winners(std::move(records), from, to);
}

Result<int64_t> prune_records(const record::Store& from, int64_t keep, record::Store& to) {
  TCC_TRY(std::vector<Record> records, from.all());
  std::set<int64_t> kept;
  for (const TaskOnMachine& t : tasks_of(records)) {
    TCC_TRY(std::vector<Record> best, from.fastest(t.task, t.machine, t.threads, keep));
    for (const Record& r : best) kept.insert(r.id);
  }
  std::erase_if(records, [&](const Record& r) { return !kept.contains(r.id); });
  return add_with_winners(std::move(records), from, to);
}

Result<Record> find_record(const record::Store& store, int64_t id) {
  TCC_TRY(const std::vector<Record> records, store.all());
  int64_t least = 0, most = 0;
  for (const Record& r : records) {
    if (r.id == id) return r;
    least = least == 0 ? r.id : std::min(least, r.id);
    most = std::max(most, r.id);
  }
  return make_error(ErrorClass::kInput, fmt::format("'{}' has no record {}", sanitize(store.path()), id),
                    records.empty() ? "it has no records; `tcc tune` adds some"
                                    : fmt::format("its records have numbers from {} to {}", least, most));
}
std::string record_to_json(const Record& record) {
  return to_json(record).dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string record_schedule(const Record& record) {
  const auto trace = schedule::trace_from_json(record.trace);
  return trace ? schedule::print_trace(*trace) : record.trace;
}

Result<std::string> export_records(const record::Store& store) {
  TCC_TRY(std::vector<Record> records, store.all());
  std::string text;
  for (const Record& r : records) text += record_to_json(r) + "\n";
  return text;
}

Result<int64_t> import_records(const std::string& lines, const std::string& name, record::Store& to) {
  std::vector<Record> records;
  std::istringstream stream(lines);
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Record r;
    const std::string wrong = from_json(Json::parse(line, nullptr, false), r);
    if (!wrong.empty())
      return make_error(ErrorClass::kInput, fmt::format("'{}', line {}: {}", sanitize(name), number, wrong),
                        "`tcc db export` writes such files; nothing was imported");
    records.push_back(std::move(r));
  }
  return add_missing(std::move(records), to);
}

}  // namespace tcc::driver
