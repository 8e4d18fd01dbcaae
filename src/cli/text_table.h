// Tables for people that fit their terminal. Private to the room.
//
// A table that is wider than the terminal is narrowed in this order, until it fits:
//   1. the cells of columns that may be cut are cut, the widest first, down to Column::least;
//   2. columns are left out, the one with the highest Column::drop first;
//   3. the cells of columns that may be cut are cut further.
// A line below the table names the columns that are left out. With --wide, and where standard output is not a terminal,
// a table has all its columns.
#pragma once

#include <string>
#include <vector>

namespace tcc::cli {

struct Column {
  std::string head;
  int drop = 0;      // 0: is never left out
  size_t least = 0;  // cells may be cut to this many columns; 0: they are not cut
  bool left = false;
};
// Columns of a table, as {{"task"}, text("workload", 24), {"weight", 2}}.
inline Column text_column(std::string head, size_t least = 0, int drop = 0) {
  return {std::move(head), drop, least, true};
}

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Cells are sanitized. Missing ones are empty.
  void add(std::vector<std::string> cells);
  // `width` 0: all columns.
  std::string text(size_t width) const;
  // For standard output as it is now.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A table from rows, the first of which holds the heads. The first `left` columns are flushed left, the widest of them
// may be cut, and the others are left out from the right.
std::string format_table(const std::vector<std::vector<std::string>>& rows, size_t left = 1);

// Rows without heads: columns aligned, the first `left` flushed left. What is too long for the terminal goes on below,
// inside of the last column, where that is flushed left.
std::string format_rows(const std::vector<std::vector<std::string>>& rows, size_t left);

}  // namespace tcc::cli
