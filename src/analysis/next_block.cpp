#include "tcc/analysis/next_block.h"

#include "analysis/moving_address.h"
#include "tcc/analysis/memory_hints.h"

namespace tcc::analysis {
namespace {

using namespace ir;

constexpr int64_t kFirstLevelBytes = 32 << 10;

// The loop whose next iteration reads the next block, and the readings of the present one.
struct Block {
  const Term* moved = nullptr;  // the term of the address that moves
  Expr next = nullptr;          // its atom in the next iteration
  Expr reading = nullptr;       // the number of the present reading
  int64_t readings = 1;
};

// The term that the loop changes most often, and for how many iterations it leaves it alone; 0: for none. A loop that
// several ones were fused into moves several terms. nullptr: it is not known how.
std::pair<const Term*, int64_t> most_often(const MovingAddress& address, Id loop) {
  if (const Term* only = address.only_term(loop)) return {only, period(only->atom, loop).value_or(0)};
  std::pair<const Term*, int64_t> found = {nullptr, 0};
  for (const Term& t : address.terms) {
    if (!mentions(t.atom, loop)) continue;
    const std::optional<int64_t> repeats = period(t.atom, loop);
    if (!repeats) return {nullptr, 0};
    if (found.first == nullptr || *repeats < found.second) found = {&t, *repeats};
  }
  return found;
}

std::optional<Block> find_block(Builder& b, const MovingAddress& address, std::span<const Loop* const> around,
                                const Loop& l) {
  Block block;
  std::vector<Term> reading;
  const auto add_readings = [&](Expr index, int64_t count) {
    reading.push_back({block.readings, index});
    block.readings *= count;
    block.reading = b.sum(0, reading);
  };
  // What the loops so far read lies within this distance.
  int64_t span = *address.step(l.id) * int_value(l.extent);
  for (size_t left = around.size(); left > 0; --left) {
    const Loop& x = *around[left - 1];
    if (!is_int(x.extent)) return std::nullopt;
    if (int_value(x.extent) == 1) continue;
    const bool serial = x.loop_kind == LoopKind::kSerial;
    if (!address.moves_with(x.id)) {
      if (!serial) return std::nullopt;
      add_readings(b.var(x.id), int_value(x.extent));
      continue;
    }
    const auto [t, repeats] = most_often(address, x.id);
    if (t == nullptr || t->coefficient < 0) return std::nullopt;
    if (repeats > 0) {
      add_readings(b.floor_mod(b.var(x.id), b.integer(repeats)), repeats);
      block.moved = t;
      block.next = b.offset(t->atom, 1);
      return block;
    }
    if (!serial || as<Var>(t->atom) == nullptr) return std::nullopt;
    if (block.readings > 1 || t->coefficient >= span) {
      block.moved = t;
      block.next = b.min(b.offset(t->atom, 1), b.integer(int_value(x.extent) - 1));
      return block;
    }
  }
  return std::nullopt;
}

// Lines in rows: `row` elements from one row to the next, `per_row` lines in each. nullopt: they are not so.
struct Rows {
  int64_t row = 0, per_row = 1;
};
std::optional<Rows> rows_of(std::span<const int64_t> starts, int64_t length) {
  const auto n = std::ssize(starts);
  const auto at = [&](int64_t i) { return starts[static_cast<size_t>(i)]; };
  Rows rows;
  while (rows.per_row < n && at(rows.per_row) == at(rows.per_row - 1) + length) ++rows.per_row;
  if (rows.per_row < n) rows.row = at(rows.per_row) - at(0);
  for (int64_t i = 0; i < n; ++i)
    if (at(i) != at(0) + i / rows.per_row * rows.row + i % rows.per_row * length) return std::nullopt;
  return rows;
}

// The addresses that one iteration asks for, of an access that reads the lines `starts` of `length` elements in it.
std::vector<Expr> asked_lines(Builder& b, const MovingAddress& address, const Block& block,
                              std::span<const int64_t> starts, int64_t length) {
  std::vector<Term> terms;
  for (const Term& t : address.terms)
    if (t.atom != block.moved->atom) terms.push_back(t);
  terms.push_back({block.moved->coefficient, block.next});
  const int64_t lines = std::ssize(starts), each = (lines + block.readings - 1) / block.readings;
  const int64_t parts = (lines + each - 1) / each;
  std::vector<Expr> asked;
  if (parts == 1) {
    for (const int64_t start : starts) asked.push_back(b.sum(address.constant + start, terms));
    return asked;
  }
  const std::optional<Rows> rows = rows_of(starts, length);
  if (!rows) return {};
  const Expr part = b.floor_mod(block.reading, b.integer(parts));
  for (int64_t i = 0; i < each; ++i) {
    const Term first[] = {{each, part}};
    const Expr number = b.sum(i, first);
    std::vector<Term> all = terms;
    all.push_back({rows->row, b.floor_div(number, b.integer(rows->per_row))});
    all.push_back({length, b.floor_mod(number, b.integer(rows->per_row))});
    asked.push_back(b.sum(address.constant + starts[0], all));
  }
  return asked;
}

}  // namespace

bool is_large_activation(const Buffer& buffer) {
  if (buffer.role != BufferRole::kInput && buffer.role != BufferRole::kTemp) return false;
  int64_t bytes = type_bytes(buffer.type);
  for (const Expr extent : buffer.shape) {
    if (!is_int(extent)) return false;
    bytes *= int_value(extent);
  }
  return bytes >= kFirstLevelBytes;
}

std::optional<NextBlock> next_block(Builder& b, const Kernel& kernel, const Ranges& ranges,
                                    std::span<const Loop* const> around, const Loop& l, int64_t line_bytes,
                                    FunctionRef<bool(Id)> is_meant) {
  if (!is_int(l.extent)) return std::nullopt;
  std::optional<NextBlock> widest;
  size_t most = 0;
  for (const LinesAhead& access : lines_ahead(b, kernel, ranges, l, 0, line_bytes, is_meant)) {
    if (access.write || access.starts.size() <= most) continue;
    const MovingAddress address(access.uniform);
    const int64_t length = std::max<int64_t>(1, line_bytes / type_bytes(access.buffer->type));
    if (address.step(l.id).value_or(0) < length) continue;
    const std::optional<Block> block = find_block(b, address, around, l);
    if (!block) continue;
    std::vector<Expr> lines = asked_lines(b, address, *block, access.starts, length);
    if (lines.empty()) continue;
    most = access.starts.size();
    widest = NextBlock{access.buffer, std::move(lines)};
  }
  return widest;
}

}  // namespace tcc::analysis
