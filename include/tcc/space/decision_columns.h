// Decisions of many candidates of one sketch, column by column: drawn and mutated as schedule::draw_decisions and
// schedule::mutate do, without their cost for each candidate. Perfect tiles of usual extents are rows of a table.
#pragma once

#include <vector>

#include "tcc/schedule/mutation.h"
#include "tcc/space/sketch.h"

namespace tcc::space {

// A column for each decision slot, with room for rows rounded up to whole blocks of array programs.
class DecisionColumns {
 public:
  explicit DecisionColumns(size_t slots) : slots_(slots) {}

  int64_t rows() const { return rows_; }
  void clear() { rows_ = 0; }
  // The index of a new row, whose values are what a row that was there before left.
  int64_t add_row();
  double& at(size_t slot, int64_t row) { return slots_[slot][static_cast<size_t>(row)]; }
  double at(size_t slot, int64_t row) const { return slots_[slot][static_cast<size_t>(row)]; }
  size_t slots() const { return slots_.size(); }
  // Inputs of ColumnProgram::run.
  std::vector<const double*> columns() const;
  std::vector<int64_t> decisions(int64_t row) const;
  void set(int64_t row, std::span<const int64_t> decisions);

 private:
  std::vector<std::vector<double>> slots_;
  int64_t rows_ = 0;
};

class DecisionSampler {
 public:
  DecisionSampler(const Sketch& sketch, const schedule::MutatorWeights& weights);

  // Fresh legal decisions; structural slots keep the sketch's values.
  void draw(DecisionColumns& columns, int64_t row, Rng& rng) const;
  // Changes one decision, as schedule::mutate; false when the sketch has nothing to mutate.
  bool mutate(DecisionColumns& columns, int64_t row, Rng& rng) const;
  // The sketch has tiles that are drawn by schedule::draw_decisions, which takes longer.
  bool has_free_tiles() const { return !free_.empty(); }

 private:
  struct Tile {
    size_t first, parts;  // slots
    double max_innermost;
    std::vector<double> table;  // `parts` factors a row: all tilings of the extent; empty: too many
    int64_t extent;
    std::vector<int64_t> divisors;  // of the extent, ascending
  };
  // Slots that are drawn, and mutated where they are not in tiles_, as a trace of this one instruction.
  struct Free {
    size_t first, parts;
    schedule::Trace trace;
  };
  struct Choice {
    size_t slot;
    std::vector<double> sums;  // of the candidates' weights, cumulative
  };
  // What one mutation may change, with its cumulative weight.
  struct Target {
    double sum;
    enum class Kind : uint8_t { kTile, kChoice, kFree } kind;
    size_t index;
  };
  void draw_tile(const Tile& tile, DecisionColumns& columns, int64_t row, Rng& rng) const;
  bool mutate_free(const Free& free, DecisionColumns& columns, int64_t row, Rng& rng) const;
  bool mutate_tile(const Tile& tile, DecisionColumns& columns, int64_t row, Rng& rng) const;

  const Sketch* sketch_;
  schedule::MutatorWeights weights_;
  std::vector<Tile> tiles_;
  std::vector<Choice> choices_;
  std::vector<Free> free_;
  std::vector<Target> targets_;
};

}  // namespace tcc::space
