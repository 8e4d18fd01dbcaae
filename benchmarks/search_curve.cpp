#include "search_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tcc::benchmarks {

double best_after(std::span<const record::Record> records, size_t n, double best) {
  double fastest = 0;
  size_t trials = 0;
  std::set<uint64_t> codes;
  for (const record::Record& r : records) {
    if (r.status == record::Status::kRejected || (r.code != 0 && !codes.insert(r.code).second)) continue;
    if (trials++ == n) break;
    if (r.status == record::Status::kOk && r.median > 0) fastest = std::max(fastest, best / r.median);
  }
  return std::clamp(fastest, 0.05, 1.0);
}

void Curves::add(const Curves& other, double weight) {
  for (size_t k = 0; k < kAfter.size(); ++k) {
    evolved[k] += weight * other.evolved[k];
    random[k] += weight * other.random[k];
  }
}

void add_curve_rows(const std::string& name, const Curves& curves, int64_t trials, std::vector<Row>& rows) {
  for (size_t k = 0; k < kAfter.size() && static_cast<int64_t>(kAfter[k]) <= trials; ++k) {
    const double evolved = std::exp(curves.evolved[k]), random = std::exp(curves.random[k]);
    rows.push_back({fmt::format("{}.after.{}", name, kAfter[k]), evolved, "of the best", "random search", random,
                    evolved / random});
  }
}

}  // namespace tcc::benchmarks
