#include "bench.h"
#include "tcc/interp/rate.h"

namespace tcc::benchmarks {

std::vector<Row> run_interp_suite(double) {
  std::vector<Row> rows;
  for (bool race : {false, true}) {
    double best = 0;
    for (int i = 0; i < 3; ++i) best = std::max(best, interp::measure_rate(race));
    rows.push_back({race ? "interp.race" : "interp.plain", best, "ops/s/core", "", 0, 0});
  }
  return rows;
}

}  // namespace tcc::benchmarks
