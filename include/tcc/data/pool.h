// Data for cost models: pools of programs with their times. A pool is a file of groups: the programs of one task on one
// platform, drawn from one design space. A program is a sketch and its decisions, about 11 bytes; a sketch is stored
// once. The task's plain kernel is part of the group, so nothing but the pool is needed to compute features again.
//
// The file (src/data/pool_format.cpp) grows at its end by whole pieces, each with a checksum. A piece that was cut off
// by an interruption is noticed and left out. A file from elsewhere is hostile: nothing in it is trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/record/record.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"
#include "tcc/task/task.h"

namespace tcc::data {

// What ran the programs.
struct Platform {
  std::string name;  // of the machine: processor, caches, cores; of a simulated one its seed
  int64_t threads = 1;
  record::Kind kind = record::Kind::kMeasured;
  target::Target target;  // that the programs were lowered for, with the machine's rates

  // Equal where times may be compared: name, target's name, threads and kind.
  uint64_t hash() const;
};

struct Entry {
  int32_t sketch = 0;  // in Group::sketches
  std::vector<int64_t> decisions;
  record::Status status = record::Status::kOk;
  double seconds = 0;  // 0 where the status is not ok; otherwise exact to 3 parts in a million
};

struct Group {
  task::Task task;  // without the parameters' sources
  Platform platform;
  std::string space;  // "default", or the names of modules
  std::vector<schedule::Trace> sketches;
  std::vector<Entry> entries;

  // Equal for the same task, platform and space.
  uint64_t key() const;
  // The fastest; 0: no program ran.
  double best_seconds() const;
};

struct Pool {
  std::vector<Group> groups;

  int64_t entries() const;
  // Adds the entries of a group, to the group with its key where there is one; a program that is there already is left
  // out. Returns how many entries were new.
  int64_t add(const Group& group);
};

// Error (input): the pool holds 0 programs. The message names the command that collects programs.
Result<void> check_programs(const Pool& pool);

std::string print_pool(const Pool& pool);
// The same as a gzip file: about a fifth of the size. It does not grow.
std::string pack_pool(const Pool& pool);
// `end`: where the last whole piece ends; a shorter text than the whole was cut off there. `name`: of the file, for
// messages. Errors (input): not a pool, another version, damaged before its end, and where.
Result<Pool> parse_pool(std::string_view bytes, const std::string& name, size_t* end = nullptr);
// A pool, packed or not, of at most 64 MiB.
Result<Pool> read_pool(const std::string& path, bool* cut_off = nullptr);

// One JSON value a line: the groups with their sketches, each followed by its entries.
std::string export_pool(const Pool& pool);
Result<Pool> import_pool(std::string_view text, const std::string& name);

// Appends to a file, which it makes where it is missing. What was cut off at its end is removed. One process at a time
// writes a file; a second one gets an error.
class PoolWriter {
 public:
  static Result<std::unique_ptr<PoolWriter>> open(const std::string& path);
  ~PoolWriter();
  // Everything that the file holds.
  const Pool& pool() const { return pool_; }
  bool was_cut_off() const { return cut_off_; }
  // Writes the entries of the group that are new, in one piece that is on the disk when this returns.
  Result<int64_t> add(const Group& group);

 private:
  PoolWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Result<void> append(std::string_view bytes);

  std::string path_;
  int fd_;
  bool cut_off_ = false;
  Pool pool_;
};

struct Split {
  Pool train, held_out;
};
// Whole tasks: each goes to one side, with all of its platforms. `share` of the tasks, at least one, is held out, drawn
// by the seed from their keys: the same task goes the same way in every pool.
Split split_by_task(const Pool& pool, double share, uint64_t seed);

}  // namespace tcc::data
