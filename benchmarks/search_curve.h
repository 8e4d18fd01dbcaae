// How fast searches come to good programs, as their records tell: what the search-quality, metaschedule-ops,
// model-search and search-strategies suites share.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench.h"
#include "tcc/record/record.h"

namespace tcc::benchmarks {

// Trials after which a search is looked at.
inline constexpr std::array<size_t, 7> kAfter = {1, 2, 4, 8, 16, 32, 64};

// Best speed among the first n trials, as a share of that of `best` seconds; a twentieth where none of them ran. What
// lowering turned down was not a trial, nor was code that had been measured before.
double best_after(std::span<const record::Record> records, size_t n, double best);

// Logarithms of such shares at kAfter, of evolutionary and of random search; sums and means of several are curves, too.
struct Curves {
  std::array<double, kAfter.size()> evolved = {}, random = {};
  void add(const Curves& other, double weight = 1);
};

// "<name>.after.<n>": the shares and their ratio, for each n of kAfter up to `trials`.
void add_curve_rows(const std::string& name, const Curves& curves, int64_t trials, std::vector<Row>& rows);

// After these trials and seconds the search has a program of this time. Trials and seconds ascend, times descend.
struct Reached {
  double trials = 0, seconds = 0, value = 0;
};
using Curve = std::vector<Reached>;

// The value after this many trials; HUGE_VAL: nothing ran yet.
double value_after(const Curve& curve, double trials);
// The first point with this value or a better one; nullopt: it never has it.
std::optional<Reached> first_with(const Curve& curve, double value);

// The best after each trial, in the order of records: what lowering refused was not a trial, nor was code that had been
// measured before. `rounds`: (trials, seconds) at the ends of rounds, ascending; a trial is as late as its round's end.
// `trial_seconds` are added for each trial.
Curve curve_of(std::span<const record::Record> records, std::span<const std::pair<double, double>> rounds,
               double trial_seconds);

// Searches of several operators with equal numbers of trials, as one: geometric means of the values, sums of seconds.
// It begins where every operator has a program. An operator that needs no more trials stays where it is.
Curve together(std::span<const Curve> operators);
// The geometric mean of runs by trials, at all trials of any of them: for drawings, and for final values.
Curve mean_of_runs(std::span<const Curve> runs);

// As values of a unit of recorded_units.h, and back.
std::map<std::string, double> to_values(const Curve& curve);
Curve from_values(const std::map<std::string, double>& values);

}  // namespace tcc::benchmarks
