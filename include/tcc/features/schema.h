// Programs as rows of numbers for cost models. A Schema names the columns and fills them from a kernel. Every row
// carries its schema, so that rows of different meanings are never mixed. One program may have rows of several schemas:
// each cost model says which one it reads (cost::CostModel::schema).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::features {

struct Schema {
  std::string_view name;
  int version;  // raised whenever a column's meaning changes
  std::span<const std::string_view> columns;
  // Fills one row of columns.size() zeros. `nest`: Stage::Nest, constant extents. `threads`: that the program runs on.
  // All values must be finite.
  void (*extract)(const ir::Kernel& nest, const target::Target& target, int64_t threads, std::span<float> row);
};
// Schemas are compared by their addresses in this process, and by this hash of name, version and columns in files.
uint64_t schema_hash(const Schema& schema);

// One program. Without a schema the row is empty: nothing is known of the program.
struct Row {
  const Schema* schema = nullptr;
  std::vector<float> values;  // schema->columns.size()

  bool empty() const { return schema == nullptr; }
  float operator[](size_t column) const { return values[column]; }
  auto operator<=>(const Row&) const = default;
};
Row extract(const Schema& schema, const ir::Kernel& nest, const target::Target& target, int64_t threads = 1);

// Programs of one schema, row-major.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const Schema& schema) : schema_(&schema) {}

  // Columns must match.
  void add(std::span<const float> values);
  void add(const Row& row);
  const Schema* schema() const { return schema_; }
  size_t size() const { return schema_ == nullptr ? 0 : values_.size() / width(); }
  bool empty() const { return values_.empty(); }
  size_t width() const { return schema_->columns.size(); }
  std::span<const float> operator[](size_t i) const { return {values_.data() + i * width(), width()}; }

 private:
  const Schema* schema_ = nullptr;  // that of the first row, where none was given
  std::vector<float> values_;
};

}  // namespace tcc::features
