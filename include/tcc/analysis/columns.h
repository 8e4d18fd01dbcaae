// Array programs over columns: one value for each candidate and instruction. What a sketch's kernel says of a candidate
// is a function of its decisions. A ColumnBuilder collects such functions as values; ColumnProgram computes them for
// blocks of candidates, which stay in the first-level cache, with vectors of the machine.
//
//   ColumnBuilder b;
//   Column d = b.input(1, 64), bytes = b.mul(d, b.constant(4));
//   ColumnProgram p = b.finish({bytes});
//
// Values are doubles. Integers below 2^51 and their quotients are exact, so extents, footprints and bytes are those of
// instantiated kernels. All levels of x86-64 compute the same bits: no operation is contracted or reassociated.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

namespace tcc::analysis {

// A value of the program that a builder collects.
using Column = int32_t;
inline constexpr Column kNoColumn = -1;

// X(Op): results of comparisons are 0 or 1.
//   FloorDiv, FloorMod  of integers, towards negative infinity; the divisor is positive
//   Div                 0 where a is the constant 0
//   Select              b where a is not 0, else c
//   BitCeil             the smallest power of two that is at least a, for a >= 1
//   Lookup              entry a of a table; a is cut to its range
//   Mix                 a hash of a (bits) and b
// clang-format off
#define TCC_COLUMN_OPS(X) \
  X(Add) X(Sub) X(Mul) X(Div) X(FloorDiv) X(FloorMod) X(Min) X(Max) \
  X(Less) X(LessEqual) X(Equal) X(Select) X(BitCeil) X(Lookup) X(Mix)
// clang-format on
enum class ColumnOp : uint8_t {
#define TCC_X(name) k##name,
  TCC_COLUMN_OPS(TCC_X)
#undef TCC_X
};

// One instruction of a block: places[to] = op(...). An operand whose bit of `constants` is set (1: a, 2: b, 4: c) is
// the number beside it.
struct ColumnStep {
  ColumnOp op;
  uint8_t constants;
  int32_t to, a, b, c;
  double x, y, z;  // constants in the places of a, b and c
  const double* table;
  int64_t entries;
};

// Instruction sets that the loops are compiled for.
enum class ColumnLevel { kPlain, kAvx2, kAvx512 };
// The best one of this machine; chosen once.
ColumnLevel column_level();

class ColumnProgram {
 public:
  static constexpr int64_t kBlock = 128;  // candidates

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return static_cast<int64_t>(outputs_.size()); }
  int64_t steps() const { return static_cast<int64_t>(steps_.size()); }
  int64_t registers() const { return registers_; }

  // inputs[i], outputs[i]: `rows` numbers, with room for rows rounded up to whole blocks; what is in the room beyond
  // `rows` may be any number. `scratch` keeps its memory from call to call; calls with scratch of their own may run at
  // the same time.
  void run(std::span<const double* const> inputs, std::span<double* const> outputs, int64_t rows,
           std::vector<double>& scratch, ColumnLevel level = column_level()) const;

 private:
  friend class ColumnBuilder;
  std::vector<ColumnStep> steps_;
  std::shared_ptr<const std::vector<std::vector<double>>> tables_;  // steps point into them
  std::vector<int32_t> outputs_;                                    // places
  std::vector<double> known_;                                       // where the place is -1: the output's value
  int32_t inputs_ = 0, registers_ = 0;
};

// Values are numbered: equal ones exist once. Bounds of every value are known from those of the inputs, and fold what
// they decide.
class ColumnBuilder {
 public:
  // Inputs are numbered in the order of the calls. Each value of the column is in [least, most].
  Column input(double least, double most);
  Column constant(double value);  // finite

  Column add(Column a, Column b);
  Column sub(Column a, Column b);
  Column mul(Column a, Column b);
  Column div(Column a, Column b);
  Column floor_div(Column a, Column b);
  Column floor_mod(Column a, Column b);
  Column ceil_div(Column a, Column b);
  Column min(Column a, Column b);
  Column max(Column a, Column b);
  Column less(Column a, Column b);
  Column less_equal(Column a, Column b);
  Column equal(Column a, Column b);
  Column select(Column condition, Column a, Column b);
  Column bit_ceil(Column a);
  Column lookup(std::span<const int64_t> table, Column index);
  Column mix(Column hash, Column a);
  // Of conditions.
  Column both(Column a, Column b) { return mul(a, b); }
  Column either(Column a, Column b) { return max(a, b); }
  Column negate(Column a) { return sub(constant(1), a); }

  double least(Column a) const { return nodes_[static_cast<size_t>(a)].least; }
  double most(Column a) const { return nodes_[static_cast<size_t>(a)].most; }
  // The value, where it is the same for all candidates.
  std::optional<double> known(Column a) const;
  bool is(Column a, double value) const { return known(a) == value; }

  // What the outputs need, in the order in which it was built.
  ColumnProgram finish(std::span<const Column> outputs) const;
  ColumnProgram finish(std::initializer_list<Column> outputs) const {
    return finish(std::span<const Column>(outputs.begin(), outputs.size()));
  }

 private:
  enum class Source : uint8_t { kConstant, kInput, kStep };
  struct Node {
    Source source;
    ColumnOp op;
    Column a, b, c;  // kInput: its number in a
    double value;    // of a constant
    double least, most;
    int32_t table;
  };
  Column make(ColumnOp op, Column a, Column b, Column c, double least, double most, int32_t table = -1);

  std::vector<Node> nodes_;
  std::map<double, Column> constants_;
  std::map<std::tuple<ColumnOp, Column, Column, Column, int32_t>, Column> known_;
  std::vector<std::vector<double>> tables_;
  int32_t inputs_ = 0;
};

}  // namespace tcc::analysis
