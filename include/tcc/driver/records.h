// Looking after stores of records: what is in them, joining and thinning them, carrying them as text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tcc/record/store.h"

namespace tcc::driver {

struct TaskRecords {
  std::string key, workload, target;
  std::string platform;  // of the machines that measured; "" = not known
  int64_t threads = 0;
  int64_t records = 0;
  double best_seconds = 0;    // 0 = none is valid
  uint64_t best_program = 0;  // record::Record::nest_hash of that one
};
struct StoreSummary {
  std::string path;
  int64_t records = 0;
  std::map<std::string, int64_t> by_status, by_target, by_platform;
  int64_t oldest = 0, newest = 0;  // unix time
  std::vector<TaskRecords> tasks;  // by workload
};
Result<StoreSummary> summarise_store(const record::Store& store);

// Adds what `to` lacks and returns how many records that are.
Result<int64_t> merge_records(const record::Store& from, record::Store& to);
// Copies, for each task, target and number of threads, the `keep` fastest programs; returns how many records.
Result<int64_t> prune_records(const record::Store& from, int64_t keep, record::Store& to);

// The record with this number. Error (input): the file has no such record; the message names the range of its numbers.
Result<record::Record> find_record(const record::Store& store, int64_t id);
// As `db export` writes it: one JSON object.
std::string record_to_json(const record::Record& record);
// The schedule as text, "" for the plain loops; or, where this tcc does not read it, as it is stored.
std::string record_schedule(const record::Record& record);
// One JSON object a line, oldest first.
Result<std::string> export_records(const record::Store& store);
// Adds what `to` lacks and returns how many records that are. Nothing is added when a line is wrong: the error names
// it.
Result<int64_t> import_records(const std::string& lines, const std::string& name, record::Store& to);

}  // namespace tcc::driver
