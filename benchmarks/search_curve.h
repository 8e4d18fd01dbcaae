// How fast searches come to good programs, as their records tell: what the search-quality and metaschedule-ops suites
// share.
#pragma once

#include <array>
#include <span>
#include <string>
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

}  // namespace tcc::benchmarks
