#include "tcc/analysis/next_block.h"

#include "analysis/moving_address.h"
#include "tcc/analysis/memory_hints.h"

namespace tcc::analysis {
namespace {

using namespace ir;

constexpr int64_t kFirstLevelBytes = 32 << 10;
// Iterations of the innermost loop before what they ask for is read: the way from the other core's cache is long.
constexpr int64_t kLeastIterations = 32;
// Of a fused loop, which threads share: with fewer, the next block is another thread's.
constexpr int64_t kLeastBlocks = 8;

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

// The atom of a term that a loop moves, as it will be after `blocks` changes.
Expr advance(Builder& b, Expr atom, int64_t blocks, const Loop& loop) {
  if (as<Var>(atom) != nullptr) return b.min(b.offset(atom, blocks), b.integer(int_value(loop.extent) - 1));
  const Binary* rest = atom->kind == ExprKind::kFloorMod ? as<Binary>(atom) : nullptr;
  return rest == nullptr ? b.offset(atom, blocks) : b.floor_mod(b.offset(rest->a, blocks), rest->b);
}

// The largest block of at most `most_lines` lines, of which an iteration of `l` reads `lines`; if all are larger, the
// smallest.
std::optional<Block> find_block(Builder& b, const MovingAddress& address, std::span<const Loop* const> around,
                                const Loop& l, int64_t lines, int64_t most_lines) {
  std::optional<Block> found;
  std::vector<Term> reading;
  int64_t readings = 1, inside = int_value(l.extent);  // iterations of `l` in one reading
  const auto add_readings = [&](Expr index, int64_t count) {
    reading.push_back({readings, index});
    readings *= count;
  };
  for (size_t left = around.size(); left > 0; --left) {
    const Loop& x = *around[left - 1];
    if (!is_int(x.extent)) break;
    if (int_value(x.extent) == 1) continue;
    const bool serial = x.loop_kind == LoopKind::kSerial;
    if (!address.moves_with(x.id)) {
      if (!serial) break;
      add_readings(b.var(x.id), int_value(x.extent));
      continue;
    }
    if (found && lines * inside > most_lines) break;
    const auto [t, repeats] = most_often(address, x.id);
    if (t == nullptr || t->coefficient < 0) break;
    const bool fused = repeats > 0;
    if (fused ? int_value(x.extent) / repeats < kLeastBlocks : !serial || as<Var>(t->atom) == nullptr) break;
    if (repeats > 1) add_readings(b.floor_mod(b.var(x.id), b.integer(repeats)), repeats);
    const int64_t iterations = inside * readings;
    const Expr next = advance(b, t->atom, (kLeastIterations + iterations - 1) / iterations, x);
    found = Block{t, next, b.sum(0, reading), readings};
    if (fused) break;
    inside *= int_value(x.extent);
  }
  return found;
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
                                    int64_t most_bytes, FunctionRef<bool(Id)> is_meant) {
  if (!is_int(l.extent)) return std::nullopt;
  std::optional<NextBlock> widest;
  size_t most = 0;
  for (const LinesAhead& access : lines_ahead(b, kernel, ranges, l, 0, line_bytes, is_meant)) {
    if (access.write || access.starts.size() <= most) continue;
    const MovingAddress address(access.uniform);
    const int64_t length = std::max<int64_t>(1, line_bytes / type_bytes(access.buffer->type));
    if (address.step(l.id).value_or(0) < length) continue;
    const std::optional<Block> block =
        find_block(b, address, around, l, std::ssize(access.starts), most_bytes / line_bytes);
    if (!block) continue;
    std::vector<Expr> lines = asked_lines(b, address, *block, access.starts, length);
    if (lines.empty()) continue;
    most = access.starts.size();
    widest = NextBlock{access.buffer, std::move(lines)};
  }
  return widest;
}

}  // namespace tcc::analysis
