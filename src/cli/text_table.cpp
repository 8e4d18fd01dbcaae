#include "cli/text_table.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "cli/output.h"
#include "cli/terminal.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

constexpr size_t kGap = 2;           // blanks between columns
constexpr size_t kLeastCut = 6;      // columns of a cell, at last
constexpr size_t kMaxCell = 20'000;  // characters

size_t total_of(const std::vector<size_t>& widths, const std::vector<size_t>& shown) {
  size_t total = shown.empty() ? 0 : kGap * (shown.size() - 1);
  for (size_t i : shown) total += widths[i];
  return total;
}

// Takes columns from the widest of those that may be cut until the table fits or none is above its least.
void cut_columns(const std::vector<Column>& columns, const std::vector<size_t>& shown, size_t width, bool last_resort,
                 std::vector<size_t>& widths) {
  while (total_of(widths, shown) > width) {
    size_t widest = columns.size();
    for (size_t i : shown) {
      const size_t least = last_resort ? std::min(kLeastCut, columns[i].least) : columns[i].least;
      if (columns[i].least == 0 || widths[i] <= least) continue;
      if (widest == columns.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == columns.size()) return;
    --widths[widest];
  }
}

std::string padded(const std::string& cell, size_t width, bool left) {
  const std::string fill(width - std::min(width, text_width(cell)), ' ');
  return left ? cell + fill : fill + cell;
}

}  // namespace

void TextTable::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = sanitize(cell, kMaxCell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(size_t width) const {
  std::vector<size_t> natural, shown(columns_.size());
  std::iota(shown.begin(), shown.end(), 0);
  for (size_t i = 0; i < columns_.size(); ++i) {
    natural.push_back(text_width(columns_[i].head));
    for (const auto& row : rows_) natural[i] = std::max(natural[i], text_width(row[i]));
  }
  std::vector<size_t> widths = natural;
  std::vector<bool> left_out(columns_.size(), false);
  while (width > 0) {
    widths = natural;
    cut_columns(columns_, shown, width, false, widths);
    if (total_of(widths, shown) <= width) break;
    auto first = std::max_element(shown.begin(), shown.end(),
                                  [&](size_t a, size_t b) { return columns_[a].drop < columns_[b].drop; });
    if (first == shown.end() || columns_[*first].drop == 0) break;
    left_out[*first] = true;
    shown.erase(first);
  }
  if (width > 0) cut_columns(columns_, shown, width, true, widths);

  std::string text;
  auto add_line = [&](auto cell_of, bool head) {
    std::string line;
    for (size_t i : shown) {
      if (i != shown.front()) line += std::string(kGap, ' ');
      line += padded(cut_text(cell_of(i), widths[i]), widths[i], columns_[i].left);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (head && width > 0 ? styled(STDOUT_FILENO, Style::kBold, line) : line) + "\n";
  };
  add_line([&](size_t i) { return columns_[i].head; }, true);
  for (const auto& row : rows_) add_line([&](size_t i) { return row[i]; }, false);
  std::string names;
  for (size_t i = 0; i < columns_.size(); ++i)
    if (left_out[i]) names += (names.empty() ? "" : ", ") + columns_[i].head;
  if (!names.empty()) text += fmt::format("(left out here: {}; --wide shows all)\n", names);
  return text;
}

std::string TextTable::text() const {
  return text(output_width());
}

std::string format_table(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths(left, 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < std::min(left, row.size()); ++i) widths[i] = std::max(widths[i], row[i].size());
  const auto widest = static_cast<size_t>(std::max_element(widths.begin(), widths.end()) - widths.begin());
  std::vector<Column> columns;
  for (size_t i = 0; i < rows[0].size(); ++i)
    columns.push_back(
        {rows[0][i], i < left ? 0 : static_cast<int>(i - left) + 1, i < left && i == widest ? 24u : 0u, i < left});
  TextTable table(std::move(columns));
  for (size_t i = 1; i < rows.size(); ++i) table.add(rows[i]);
  return table.text();
}

std::string format_rows(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths;
  std::vector<std::vector<std::string>> clean = rows;
  for (auto& row : clean) {
    for (std::string& cell : row) cell = sanitize(cell, kMaxCell);
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], text_width(row[i]));
  }
  size_t before = 0;  // columns in front of the last one
  for (size_t i = 0; i + 1 < widths.size(); ++i) before += widths[i] + kGap;
  const size_t width = output_width();
  const bool folds = left >= widths.size() && width > before + 2 * kLeastCut;
  std::string text;
  for (const auto& row : clean) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += std::string(kGap, ' ');
      if (i + 1 < widths.size() || !folds) {
        line += padded(row[i], widths[i], i < left);
        continue;
      }
      const std::string cell = fold_text(row[i], width - before);
      for (size_t at = 0; at <= cell.size();) {
        const size_t end = std::min(cell.find('\n', at), cell.size());
        if (at > 0) line += "\n" + std::string(before, ' ');
        line += cell.substr(at, end - at);
        at = end + 1;
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace tcc::cli
