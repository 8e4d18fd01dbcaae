#include "tcc/driver/records.h"

#include "cli/command.h"
#include "cli/db_command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/history.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using record::Store;

const std::vector<std::string> kDbActions = {"stats", "show", "diff", "merge", "prune", "export", "import"};

struct DbArguments {
  Common common;
  RecordArguments records;
  std::string action, output;
  std::vector<std::string> files;
  int64_t keep = 16;
};

void declare(Options& options, DbArguments& a) {
  options.option("ACTION", a.action, "stats, show, diff, merge, prune, export or import").words(kDbActions).required();
  options.list("FILES", a.files,
               "The records [those of --db]; for import, the text; for show, the number of a record of --db; for diff, "
               "two stores");
  options.option("-o,--output", a.output, "The file to write").value("FILE");
  options.option("--keep", a.keep, "prune: the fastest programs to keep of each task, target and number of threads")
      .positive()
      .show_default();
  add_db(options, a.records);
}

// Of speed: two measurements of one program differ by less, as a rule.
constexpr double kNotable = 0.03;

Result<Json> store_json(const std::string& path);  // what `stats` says of a file

// The records to read: those named, or those of --db.
Result<std::vector<std::string>> sources(const DbArguments& a) {
  std::vector<std::string> files = a.files;
  if (files.empty()) {
    TCC_TRY(std::string path, store_path(a.records.db));
    files.push_back(path);
  }
  for (const std::string& file : files)
    if (!file_exists(file))
      return make_error(ErrorClass::kInput,
                        fmt::format("expected a file of tuning records, but '{}' does not exist", sanitize(file)),
                        "`tcc tune` makes one; name it, or give --db FILE");
  return files;
}

// A record by its number: all that is stored of it, and its schedule as `tcc bench --schedule` takes it.
Result<int> show_record(const DbArguments& a) {
  TCC_TRY(const int64_t id, parse_record("tcc db show", a.files.size() == 1 ? a.files[0] : ""));
  TCC_TRY(const std::string path, store_path(a.records.db));
  TCC_TRY(auto store, Store::open(path, Store::Mode::kReadOnly));
  TCC_TRY(const record::Record r, driver::find_record(*store, id));
  if (a.common.json) {
    Json json = {{"record", id}, {"form", driver::form_of(r.workload)}};
    json.update(Json::parse(driver::record_to_json(r)));
    return print_json(json);
  }
  std::vector<std::vector<std::string>> rows = {
      {"record", fmt::format("{}, {} {}", id, record::kind_name(r.kind), record::status_name(r.status))},
      {"task", fmt::format("{} {}", record::hash_text(r.task), r.workload)},
      {"target", fmt::format("{}, {}, {}", r.target, r.isa, plural(r.threads, "thread"))},
      {"machine", r.platform.empty() ? "not known" : r.platform},
      {"space", r.space.empty() ? "not known" : r.space}};
  if (const std::string form = driver::form_of(r.workload); !form.empty()) rows.push_back({"form", form});
  if (r.median > 0)
    rows.push_back(
        {"time", fmt::format("{}, {} to {}, the {} of {}{}{}", format_seconds(r.median), format_seconds(r.low),
                             format_seconds(r.high), r.statistic.empty() ? "estimate" : r.statistic,
                             plural(std::ssize(r.samples), "sample"), r.cache.empty() ? "" : ", " + r.cache,
                             r.converged || r.samples.empty() ? "" : "; not converged")});
  if (!r.failure.empty()) rows.push_back({"failure", r.failure});
  if (!r.gate.empty())
    rows.push_back({"checked", fmt::format("{}, largest error {:.2g} of what is allowed", r.gate, r.max_error)});
  rows.push_back({"made by", fmt::format("tcc {} on {}", r.tool_version, format_day(r.unix_time))});
  const std::string schedule = driver::record_schedule(r);
  print(format_rows(rows, 2) + "\n-- its schedule\n");
  return print_exact(schedule.empty() ? "# none: the plain loops\n" : schedule);
}

// A task that one of two stores lacks, or has no valid program of.
std::string seconds_or(double seconds, int64_t records) {
  return seconds > 0 ? format_seconds(seconds) : records > 0 ? "failed" : "-";
}

// The best programs of two stores beside each other: what the second one gained or lost.
Result<int> diff(const DbArguments& a) {
  if (a.files.size() != 2)
    return make_error(ErrorClass::kUsage,
                      fmt::format("tcc db diff takes two stores of records, not {}", a.files.size()),
                      "tcc db diff yesterday.db today.db");
  TCC_TRY_VOID(sources(a));
  TCC_TRY(const auto before, Store::open(a.files[0], Store::Mode::kReadOnly));
  TCC_TRY(const auto after, Store::open(a.files[1], Store::Mode::kReadOnly));
  TCC_TRY(const driver::StoreChange change, driver::compare_stores(*before, *after));
  int64_t faster = 0, slower = 0, only_a = 0, only_b = 0;
  Json tasks = Json::array();
  TextTable table({text_column("key", 0, 4),
                   text_column("workload", 24),
                   text_column("target", 0, 2),
                   {"threads", 3},
                   {"before"},
                   {"after"},
                   {"speed"},
                   text_column("program", 0, 1)});
  for (const driver::TaskChange& t : change.tasks) {
    const bool has_a = t.seconds_a > 0, has_b = t.seconds_b > 0;
    const double speed = has_a && has_b ? t.seconds_a / t.seconds_b : 0;
    if (speed > 1 + kNotable) ++faster;
    if (speed > 0 && speed < 1 / (1 + kNotable)) ++slower;
    if (has_a && !has_b) ++only_a;
    if (has_b && !has_a) ++only_b;
    Json one =
        TCC_JSON(t, key, workload, target, platform, threads, records_a, records_b, seconds_a, seconds_b, same_program);
    if (speed > 0) one["speed"] = speed;
    tasks.push_back(std::move(one));
    table.add({t.key, t.workload, t.target, std::to_string(t.threads), seconds_or(t.seconds_a, t.records_a),
               seconds_or(t.seconds_b, t.records_b), speed > 0 ? fmt::format("{:.3f}x", speed) : "-",
               !has_a || !has_b ? ""
               : t.same_program ? "same"
                                : "other"});
  }
  if (a.common.json)
    return print_json({{"files", a.files},
                       {"tasks", tasks},
                       {"both", change.both},
                       {"faster", faster},
                       {"slower", slower},
                       {"only_a", only_a},
                       {"only_b", only_b},
                       {"speed", change.both > 0 ? Json(change.speed) : Json()}});
  std::string text = table.text();
  if (change.both > 0)
    text +=
        fmt::format("{} in both: {:.3f}x the speed in the geometric mean; {} faster, {} slower by more than {:g}%\n",
                    plural(change.both, "task"), change.speed, faster, slower, 100 * kNotable);
  if (only_a > 0) text += fmt::format("{} only in {}\n", plural(only_a, "task"), sanitize(a.files[0]));
  if (only_b > 0) text += fmt::format("{} only in {}\n", plural(only_b, "task"), sanitize(a.files[1]));
  if (change.tasks.empty()) text = "neither store has records\n";
  return print(text);
}

Result<void> need_output(const DbArguments& a, bool fresh) {
  if (a.output.empty())
    return make_error(ErrorClass::kUsage, fmt::format("tcc db {} needs -o FILE: the file to write", a.action),
                      fmt::format("tcc db {} -o all.db", a.action));
  if (fresh && file_exists(a.output))
    return make_error(ErrorClass::kInput,
                      fmt::format("expected a new file for -o, but '{}' exists", sanitize(a.output)),
                      "name another file: db prune keeps its input as it is");
  return {};
}

Result<int> merge(const DbArguments& a) {
  TCC_TRY_VOID(need_output(a, false));
  TCC_TRY(std::vector<std::string> files, sources(a));
  TCC_TRY(auto to, Store::open(a.output));
  int64_t added = 0;
  for (const std::string& file : files) {
    TCC_TRY(auto from, Store::open(file, Store::Mode::kReadOnly));
    TCC_TRY(int64_t n, driver::merge_records(*from, *to));
    added += n;
  }
  if (a.common.json) print_json(Json{{"added", added}, {"file", a.output}});
  remark(a.common.quiet, fmt::format("{} added to {}", plural(added, "record"), a.output));
  return kOk;
}

Result<int> prune(const DbArguments& a) {
  TCC_TRY_VOID(need_output(a, true));
  TCC_TRY(std::vector<std::string> files, sources(a));
  if (files.size() != 1)
    return make_error(ErrorClass::kUsage, fmt::format("tcc db prune takes one file, not {}", files.size()),
                      "`tcc db merge` joins files");
  TCC_TRY(auto from, Store::open(files[0], Store::Mode::kReadOnly));
  TCC_TRY(auto to, Store::open(a.output));
  TCC_TRY(int64_t kept, driver::prune_records(*from, a.keep, *to));
  if (a.common.json) print_json(Json{{"kept", kept}, {"file", a.output}});
  remark(a.common.quiet, fmt::format("{} kept in {}", plural(kept, "record"), a.output));
  return kOk;
}

Result<int> export_text(const DbArguments& a) {
  TCC_TRY(std::vector<std::string> files, sources(a));
  std::string text;
  for (const std::string& file : files) {
    TCC_TRY(auto from, Store::open(file, Store::Mode::kReadOnly));
    TCC_TRY(std::string part, driver::export_records(*from));
    text += part;
  }
  if (a.output.empty()) return print_exact(text);
  TCC_TRY_VOID(write_file(a.output, text));
  return kOk;
}

Result<int> import_text(const DbArguments& a) {
  if (a.files.empty())
    return make_error(ErrorClass::kUsage, "tcc db import needs FILES: the text of records",
                      "`tcc db export -o records.jsonl` writes it");
  TCC_TRY(std::string path, store_path(a.records.db));
  int64_t added = 0;
  for (const std::string& file : a.files) {
    TCC_TRY(std::string text, read_file(file));
    TCC_TRY(auto to, Store::open(path));
    TCC_TRY(int64_t n, driver::import_records(text, file, *to));
    added += n;
  }
  if (a.common.json) print_json(Json{{"added", added}, {"file", path}});
  remark(a.common.quiet, fmt::format("{} added to {}", plural(added, "record"), path));
  return kOk;
}

Result<int> db(const DbArguments& a) {
  if (a.action == "stats") {
    TCC_TRY(std::vector<std::string> files, sources(a));
    if (a.common.json) {
      Json stores = Json::array();
      for (const std::string& file : files) {
        TCC_TRY(Json one, store_json(file));
        stores.push_back(std::move(one));
      }
      return print_json({{"stores", stores}});
    }
    for (const std::string& file : files) TCC_TRY_VOID(print_store(a.common, file));
    return kOk;
  }
  if (a.action == "show") return show_record(a);
  if (a.action == "diff") return diff(a);
  if (a.action == "merge") return merge(a);
  if (a.action == "prune") return prune(a);
  if (a.action == "export") return export_text(a);
  if (a.action == "import") return import_text(a);
  const std::string near = suggest(a.action, kDbActions);
  return make_error(
      ErrorClass::kUsage,
      fmt::format("tcc db: expected stats, show, diff, merge, prune, export or import, not '{}'", sanitize(a.action)),
      near.empty() ? "`tcc db --help` shows examples" : near);
}

}  // namespace

namespace {

Result<Json> store_json(const std::string& path) {
  TCC_TRY(auto store, Store::open(path, Store::Mode::kReadOnly));
  TCC_TRY(driver::StoreSummary s, driver::summarise_store(*store));
  Json json = {{"file", s.path},           {"records", s.records},         {"by_status", s.by_status},
               {"by_target", s.by_target}, {"by_platform", s.by_platform}, {"oldest", s.oldest},
               {"newest", s.newest},       {"tasks", Json::array()}};
  for (const driver::TaskRecords& t : s.tasks) {
    Json task = TCC_JSON(t, key, workload, target, platform, threads, records, best_seconds);
    task["form"] = driver::form_of(t.workload);
    json["tasks"].push_back(std::move(task));
  }
  return json;
}

}  // namespace

Result<int> print_store(const Common& common, const std::string& path) {
  if (common.json) {
    TCC_TRY(const Json json, store_json(path));
    return print_json(json);
  }
  TCC_TRY(auto store, Store::open(path, Store::Mode::kReadOnly));
  TCC_TRY(driver::StoreSummary s, driver::summarise_store(*store));
  std::string text = fmt::format("{}: {}", sanitize(s.path), plural(s.records, "record"));
  if (s.records > 0) text += fmt::format(" from {} to {}", format_day(s.oldest), format_day(s.newest));
  text += "\n";
  for (const auto& [status, count] : s.by_status) text += fmt::format("  {} {}\n", count, status);
  for (const auto& [platform, count] : s.by_platform)
    text += fmt::format("  {} on {}\n", count, platform.empty() ? "a platform that is not known" : sanitize(platform));
  const bool several = s.by_platform.size() > 1;
  std::vector<Column> columns = {text_column("key", 0, 4),
                                 text_column("workload", 24),
                                 text_column("target", 0, 2),
                                 {"threads", 3},
                                 {"records", 1},
                                 {"best"}};
  if (several) columns.push_back(text_column("platform", 12));
  TextTable table(std::move(columns));
  for (const driver::TaskRecords& t : s.tasks) {
    std::vector<std::string> cells = {t.key,
                                      t.workload,
                                      t.target,
                                      std::to_string(t.threads),
                                      std::to_string(t.records),
                                      format_seconds(t.best_seconds)};
    if (several) cells.push_back(t.platform.empty() ? "not known" : t.platform);
    table.add(std::move(cells));
  }
  return print(text + table.text());
}

Command db_command() {
  return make_command("db", "Look after tuning records",
                      "  tcc db stats\n"
                      "  tcc db show 17\n"
                      "  tcc db diff yesterday.db today.db\n"
                      "  tcc db merge here.db there.db -o all.db\n"
                      "  tcc db prune all.db --keep 8 -o small.db\n"
                      "  tcc db export small.db -o records.jsonl\n"
                      "  tcc db import records.jsonl --db mine.db",
                      declare, db);
}

}  // namespace tcc::cli
