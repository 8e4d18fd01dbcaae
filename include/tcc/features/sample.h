// Programs as learned cost models read them: beside the row of schema.h, tables with one row for each statement, memory
// access or schedule step of a program. A cost model names the tables that it needs (cost::CostModel::tables).
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tcc/features/schema.h"
#include "tcc/schedule/trace.h"
#include "tcc/task/task.h"

namespace tcc::features {

// What features are read off. The trace is a skeleton; `decisions` are those of this program.
struct Program {
  const task::Task& task;
  const schedule::Trace& trace;
  std::span<const int64_t> decisions;
  const ir::Kernel& nest;  // Stage::Nest, constant extents
  const target::Target& target;
  int64_t threads = 1;  // that the program runs on
};

// Memory that extraction keeps from one program to the next: one for each thread.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// A kind of table. Values are finite and depend on the program alone.
struct Table {
  std::string_view name, summary;
  int version;  // raised whenever a column's meaning changes
  std::span<const std::string_view> columns;
  int64_t max_rows;  // 0: no limit
  bool padded;       // always max_rows rows, the last ones 0 where the program has fewer
  // Appends whole rows. Called by extract() below, which tells the workspace that the program is another one.
  void (*extract)(const Program& program, Workspace& workspace, std::vector<float>& out);
};
// Tables are compared by their addresses in this process, and by this hash of name, version, rows and columns in files.
uint64_t table_hash(const Table& table);
// All tables of the room, in the order to list them.
std::span<const Table* const> tables();
// nullptr: no table has this name.
const Table* find_table(std::string_view name);

// 164 features of each buffer that the program writes (src/features/statement_rows.cpp), and 10 of the task.
extern const Table kStatements;        // the five buffers in the order of TVM's MetaSchedule
extern const Table kStatementsTenSet;  // as TenSet and Pruner extract them
// 23 features of the accesses along which data flows to the statement with most arithmetic and back.
extern const Table kDataflow;        // any program: from the parameters, to the results
extern const Table kDataflowPruner;  // Pruner's pattern: global, shared, local memory; else zeros
// The steps of the schedule with their numbers.
extern const Table kTraceCpu, kTraceGpu;        // 40 and 56 rows, columns of our own primitives
extern const Table kTraceTlpCpu, kTraceTlpGpu;  // TLP: 25 x 22 and 40 x 20
extern const Table kTraceTclCpu, kTraceTclGpu;  // TCL: the same with the machine as the last row
// One row: the machine.
extern const Table kHardware;

// What a model reads: rows of a schema, and tables.
struct Needs {
  Needs(const Schema& schema, std::span<const Table* const> tables = {}) : schema(&schema), tables(tables) {}
  const Schema* schema;
  std::span<const Table* const> tables;
};

// One program: its row and, in the order of the needs, the values of its tables, row-major. Without a schema the sample
// is empty: nothing is known of the program.
struct Sample {
  Row row;
  std::vector<std::vector<float>> tables;

  bool empty() const { return row.empty(); }
};
// Fills `out`, whose memory it uses again.
void extract(const Needs& needs, const Program& program, Workspace& workspace, Sample& out);
// One table of one program.
std::vector<float> extract(const Table& table, const Program& program);

// Programs of one schema for a model to read: views of samples and rows, which must outlive the batch.
class Batch {
 public:
  Batch() = default;
  Batch(const Rows& rows);  // NOLINT: rows are a batch of programs without tables
  Batch(Rows&&) = delete;

  // Schemas must be equal.
  void add(const Sample& sample);
  void add(const Schema& schema, std::span<const float> row);

  size_t size() const { return views_.size(); }
  bool empty() const { return views_.empty(); }
  const Schema* schema() const { return schema_; }  // nullptr: the batch is empty
  size_t width() const { return schema_->columns.size(); }
  std::span<const float> operator[](size_t i) const { return {views_[i].row, width()}; }
  // Table `k` of the needs; empty where only the row of the program is known.
  std::span<const float> table(size_t i, size_t k) const {
    const Sample* sample = views_[i].sample;
    if (sample == nullptr || k >= sample->tables.size()) return {};
    return sample->tables[k];
  }

 private:
  struct View {
    const float* row;
    const Sample* sample;  // nullptr: without tables
  };
  const Schema* schema_ = nullptr;
  std::vector<View> views_;
};

}  // namespace tcc::features
