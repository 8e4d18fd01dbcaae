// Where records are looked up: one interface for a store on disk, records in memory, and several of them together.
// MetaSchedule has the same kinds (JSON, memory, union, ordered union).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tcc/record/record.h"
#include "tcc/support/result.h"

namespace tcc::record {

// A kind of machine, as questions name it.
struct Machine {
  uint64_t features = 0;      // target::feature_hash: its programs are exchangeable
  std::string platform = {};  // target::platform_text: its times are comparable; "" = whatever the platform

  Machine(uint64_t features_, std::string platform_ = {}) : features(features_), platform(std::move(platform_)) {}
};
// Records whose platform is not known count for every platform.
bool is_of(const Record& record, const Machine& machine);

// A task of a family: the anchor's loops have these extents, outermost first.
struct Shape {
  uint64_t task = 0;
  std::vector<int64_t> extents;
};
// How far extents are from each other, in doublings: the sum over the loops of |log2(a / b)|. Infinite where the
// numbers of loops differ.
double shape_distance(std::span<const int64_t> a, std::span<const int64_t> b);

class Database {
 public:
  virtual ~Database() = default;

  // By exact structure: the fastest `count` different programs of a task that were measured and are ok, fastest
  // first; disturbed times count as longer than they are (is_faster).
  // The newest record of a program on a number of threads is its verdict there; where one of its verdicts is "wrong" it
  // counts nowhere. threads 0 = whatever the number of threads.
  virtual Result<std::vector<Record>> fastest(uint64_t task, const Machine& machine, int64_t threads,
                                              int64_t count) const = 0;
  // By anchor: the same among the other tasks whose anchor block is equal, as the same matrix product with another
  // epilogue. Their programs are of other kernels: who takes one over must replay it and check the result.
  virtual Result<std::vector<Record>> fastest_relatives(uint64_t anchor, uint64_t task, const Machine& machine,
                                                        int64_t threads, int64_t count) const = 0;
  // By family: the tasks whose anchor is the same but for its extents, and of which a program ran and is ok, by task.
  virtual Result<std::vector<Shape>> shapes(uint64_t family, const Machine& machine, int64_t threads) const = 0;
  // The fastest programs, at most two a task, of the tasks of shapes() whose extents differ by up to `most` doublings:
  // the nearest extents first. Tasks with these very extents are left out: they are relatives.
  Result<std::vector<Record>> nearest_shapes(uint64_t family, std::span<const int64_t> extents, const Machine& machine,
                                             int64_t threads, double most, int64_t count) const;
  // The fastest alone.
  Result<std::optional<Record>> best(uint64_t task, const Machine& machine, int64_t threads = 0) const;
  // The program to build: the winner of the last paired comparison where it is not far behind the fastest record, else
  // the fastest record. The session text under confirmed_best_key() is the winner's nest, in hash_text(). It does not
  // count for programs of other databases.
  virtual Result<std::optional<Record>> confirmed_best(uint64_t task, const Machine& machine, int64_t threads) const;
  // Numbers of threads on which fastest() finds something, ascending.
  virtual Result<std::vector<int64_t>> measured_threads(uint64_t task, const Machine& machine) const = 0;
  // Has this very program been measured on this target with `threads` threads (0 = any number), with any result?
  virtual Result<bool> contains(uint64_t task, uint64_t target_features, uint64_t nest, int64_t threads) const = 0;
  // Is one of the program's verdicts "wrong"?
  virtual Result<bool> is_wrong(uint64_t task, uint64_t target_features, uint64_t nest) const = 0;
  // Every record of a task, in the order of adding; all tasks when `task` is empty.
  virtual Result<std::vector<Record>> all(std::optional<uint64_t> task = {}) const = 0;
  // Text that was kept under a key.
  virtual Result<std::optional<std::string>> load_session(const std::string& key) const = 0;
  // Returns the record's id within this database.
  virtual Result<int64_t> add(const Record& record) = 0;
};

std::string confirmed_best_key(uint64_t task, const Machine& machine, int64_t threads);
// Of a task that has several forms: the session text under it is hash_text() of the form that was fastest between its
// neighbors. `task` is the first form.
std::string chosen_form_key(uint64_t task, const Machine& machine, int64_t threads);

// What makes two records the same event, wherever they are kept: the program, the kind of machine, the number of
// threads, and when it was measured with which result.
using Identity = std::tuple<uint64_t, uint64_t, uint64_t, int64_t, int64_t, std::string_view, double>;
Identity identity(const Record& record);

// Members must outlive the union; what is added goes to the first. Ids are those of the members: they may repeat.
// Every member is asked, and the answers are one: the best of all, or everything, members in order. An event that
// several members know counts once; a program that one member knows to be wrong counts nowhere.
std::unique_ptr<Database> make_union(std::vector<Database*> members);
// The first member that knows an answer gives it: a first one of one's own, a last one shared by many.
std::unique_ptr<Database> make_ordered_union(std::vector<Database*> members);

}  // namespace tcc::record
