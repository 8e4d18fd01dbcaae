// docs/ir.md is the reference of the text form: its grammar, its lists of names and its table of instructions are
// compared with the code. TCC_UPDATE_GOLDEN=1 writes the grammar and the instructions; a missing name is a row to write
// by hand.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

using Lines = std::vector<std::string>;

Lines read_lines(const std::string& path) {
  std::ifstream file(path);
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  REQUIRE_FALSE(lines.empty());
  return lines;
}

const std::string kPage = std::string(TCC_SOURCE_DIR) + "/docs/ir.md";

// The rows of the table number `which` below a heading: [first, last) in the page.
std::pair<size_t, size_t> table(const Lines& page, const std::string& heading, int which = 0) {
  size_t line = 0;
  while (line < page.size() && page[line] != "## " + heading) ++line;
  INFO(heading);
  REQUIRE(line < page.size());
  for (;; ++line) {
    while (line < page.size() && !page[line].starts_with("| ---")) ++line;
    REQUIRE(line < page.size());
    if (which-- == 0) break;
  }
  const size_t first = line + 1;
  for (line = first; line < page.size() && page[line].starts_with("|"); ++line) {
  }
  return {first, line};
}

// The first cells of a table, without backquotes.
Lines names_in(const Lines& page, const std::string& heading, int which = 0) {
  Lines names;
  const auto [first, last] = table(page, heading, which);
  for (size_t i = first; i < last; ++i) {
    const std::string cell = page[i].substr(2, page[i].find(" |", 2) - 2);
    names.push_back(cell.starts_with("`") ? cell.substr(1, cell.size() - 2) : cell);
  }
  return names;
}

template <class E, class NameOf>
Lines names_of(E last, NameOf name) {
  Lines names;
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (const std::string_view text = name(static_cast<E>(i)); !text.empty()) names.emplace_back(text);
  return names;
}

// The grammar in the comment of the parser.
Lines grammar() {
  Lines rules;
  for (const std::string& line : read_lines(std::string(TCC_SOURCE_DIR) + "/src/ir/parse.cpp")) {
    if (line.starts_with("//   ")) rules.push_back(line.substr(5));
    if (!rules.empty() && !line.starts_with("//   ")) break;
  }
  return rules;
}

std::string participants_text(Participants p) {
  return p == Participants::kThread      ? "thread"
         : p == Participants::kWarp      ? "warp"
         : p == Participants::kWarpgroup ? "warpgroup"
                                         : "block";
}
std::string completion_text(Completion c) {
  return c == Completion::kImmediate    ? "at once"
         : c == Completion::kCopyGroup  ? "after its copy group"
         : c == Completion::kWgmmaGroup ? "after its wgmma group"
                                        : "when its barrier has counted the bytes";
}

std::string operand_text(const OperandSpec& o) {
  std::string tile;
  for (int32_t d = 0; d < o.rank; ++d)
    tile += (d == 0 ? "" : "x") + (o.tile[d] == 0 ? std::string("$") : std::to_string(o.tile[d]));
  const char* access = o.access == Access::kRead ? "" : o.access == Access::kWrite ? "out " : "inout ";
  return fmt::format("{}{}: {}[{}] {}", access, o.name, type_name(o.type), tile, scope_name(o.scope));
}

Lines instruction_rows() {
  Lines rows;
  for (const Instruction& in : instruction_table()) {
    std::string operands;
    for (const OperandSpec& o : in.operands) operands += (operands.empty() ? "" : ", ") + operand_text(o);
    rows.push_back(fmt::format("| `{}` | {} | {} | {} | {} |", in.name,
                               in.feature.empty() ? "" : fmt::format("`{}`", in.feature),
                               participants_text(in.participants), completion_text(in.completion), operands));
  }
  return rows;
}

void replace(Lines& page, size_t first, size_t last, const Lines& with) {
  page.erase(page.begin() + static_cast<std::ptrdiff_t>(first), page.begin() + static_cast<std::ptrdiff_t>(last));
  page.insert(page.begin() + static_cast<std::ptrdiff_t>(first), with.begin(), with.end());
}

}  // namespace

TEST_CASE("the reference of the IR names every type, kind, axis, scope and annotation", "[golden]") {
  const Lines page = read_lines(kPage);
  Lines types, intrinsics, exprs, stmts, annotations;
#define TCC_X(name, text, bytes) types.push_back(text);
  TCC_IR_TYPES(TCC_X)
#undef TCC_X
#define TCC_X(name, text, arity) intrinsics.push_back(text);
  TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
#define TCC_X(kind, type) exprs.push_back(#kind);
  TCC_IR_EXPR_KINDS(TCC_X)
#undef TCC_X
#define TCC_X(kind) stmts.push_back(#kind);
  TCC_IR_STMT_KINDS(TCC_X)
#undef TCC_X
#define TCC_X(name, text) annotations.push_back(text);
  TCC_IR_ANNOTATIONS(TCC_X)
#undef TCC_X
  CHECK(names_in(page, "Stages") == names_of(Stage::kLowered, stage_name));
  CHECK(names_in(page, "Types") == types);
  CHECK(names_in(page, "Expressions") == exprs);
  CHECK(names_in(page, "Intrinsics") == intrinsics);
  CHECK(names_in(page, "Statements") == stmts);
  CHECK(names_in(page, "Loop kinds") == names_of(LoopKind::kBound, loop_kind_name));
  CHECK(names_in(page, "Axes") == names_of(Axis::kVthread, axis_name));
  CHECK(names_in(page, "Iterators of blocks") == names_of(IterKind::kCarried, iter_kind_name));
  CHECK(names_in(page, "Reducers") == names_of(ReducerKind::kMin, reducer_name));
  CHECK(names_in(page, "Buffers") == names_of(BufferRole::kTemp, buffer_role_name));
  CHECK(names_in(page, "Buffers", 1) == names_of(Scope::kAmxTile, scope_name));
  CHECK(names_in(page, "Annotations") == annotations);
  for (const auto& [heading, bytes] : {std::pair("Types", true), std::pair("Intrinsics", false)}) {
    const auto [first, last] = table(page, heading);
    for (size_t i = first; i < last; ++i) {
      std::istringstream row(page[i]);
      std::string bar, name, number;
      row >> bar >> name >> bar >> number;
      name = name.substr(1, name.size() - 2);
#define TCC_X(kind, text, size) \
  if (bytes && name == text) CHECK(number == std::to_string(size));
      TCC_IR_TYPES(TCC_X)
#undef TCC_X
#define TCC_X(kind, text, arity) \
  if (!bytes && name == text) CHECK(number == std::to_string(arity));
      TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
    }
  }
}

TEST_CASE("the reference of the IR has the parser's grammar and the instruction table", "[golden]") {
  Lines page = read_lines(kPage);
  const Lines rules = grammar(), rows = instruction_rows();
  REQUIRE(rules.size() > 10);
  REQUIRE(rows.size() > 20);
  size_t open = 0;
  while (open < page.size() && page[open] != "```grammar") ++open;
  REQUIRE(open < page.size());
  size_t close = open + 1;
  while (close < page.size() && page[close] != "```") ++close;
  const auto between = [&](size_t first, size_t last) {
    return Lines(page.begin() + static_cast<std::ptrdiff_t>(first), page.begin() + static_cast<std::ptrdiff_t>(last));
  };
  const auto [first, last] = table(page, "Instructions");
  if (std::getenv("TCC_UPDATE_GOLDEN") == nullptr) {
    CHECK(between(open + 1, close) == rules);
    CHECK(between(first, last) == rows);
    return;
  }
  replace(page, first, last, rows);
  replace(page, open + 1, close, rules);
  std::ofstream file(kPage);
  for (const std::string& line : page) file << line << "\n";
}

TEST_CASE("the example of the IR's reference is a kernel", "[golden]") {
  const Lines page = read_lines(kPage);
  std::string text;
  bool inside = false;
  for (const std::string& line : page) {
    if (line == "```" && inside) break;
    if (inside) text += line + "\n";
    inside |= line == "```tir";
  }
  const Result<Kernel> kernel = parse(text, "docs/ir.md");
  REQUIRE(kernel.has_value());
  CHECK(parse(print(*kernel)).has_value());
}
