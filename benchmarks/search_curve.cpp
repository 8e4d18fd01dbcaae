#include "search_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
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

double value_after(const Curve& curve, double trials) {
  double value = HUGE_VAL;
  for (const Reached& r : curve)
    if (r.trials <= trials) value = r.value;
  return value;
}

std::optional<Reached> first_with(const Curve& curve, double value) {
  for (const Reached& r : curve)
    if (r.value <= value) return r;
  return std::nullopt;
}

Curve curve_of(std::span<const record::Record> records, std::span<const std::pair<double, double>> rounds,
               double trial_seconds) {
  Curve out;
  std::set<uint64_t> codes;
  double best = HUGE_VAL, trials = 0;
  size_t round = 0;
  for (const record::Record& r : records) {
    if (r.status == record::Status::kRejected || (r.code != 0 && !codes.insert(r.code).second)) continue;
    ++trials;
    while (round + 1 < rounds.size() && rounds[round].first < trials) ++round;
    if (r.status == record::Status::kOk && r.median > 0) best = std::min(best, r.median);
    if (best == HUGE_VAL) continue;
    const double seconds = rounds.empty() ? 0 : rounds[round].second;
    out.push_back({trials, seconds + trials * trial_seconds, best});
  }
  return out;
}

namespace {

// The last point of up to this many trials.
const Reached* at(const Curve& curve, double trials) {
  const Reached* found = nullptr;
  for (const Reached& r : curve)
    if (r.trials <= trials) found = &r;
  return found;
}

std::set<double> all_trials(std::span<const Curve> curves) {
  std::set<double> trials;
  for (const Curve& c : curves)
    for (const Reached& r : c) trials.insert(r.trials);
  return trials;
}

// Geometric means of the values and seconds times `scale`, wherever all curves have begun.
Curve merged(std::span<const Curve> curves, double scale) {
  Curve out;
  for (const double trials : all_trials(curves)) {
    Reached sum{trials, 0, 0};
    bool all = true;
    for (const Curve& c : curves) {
      const Reached* r = at(c, trials);
      all &= r != nullptr;
      if (r == nullptr) break;
      sum.seconds += r->seconds * scale;
      sum.value += std::log(r->value) / static_cast<double>(curves.size());
    }
    sum.value = std::exp(sum.value);
    if (all) out.push_back(sum);
  }
  return out;
}

}  // namespace

Curve together(std::span<const Curve> operators) {
  return merged(operators, 1);
}

Curve mean_of_runs(std::span<const Curve> runs) {
  return merged(runs, runs.empty() ? 1 : 1 / static_cast<double>(runs.size()));
}

std::map<std::string, double> to_values(const Curve& curve) {
  std::map<std::string, double> out;
  double last = HUGE_VAL;
  for (size_t i = 0; i < curve.size(); ++i) {
    // Where nothing improves the points between say nothing.
    if (curve[i].value >= last && i + 1 < curve.size()) continue;
    last = curve[i].value;
    const std::string key = fmt::format("{:06.0f}", curve[i].trials);
    out[key + ".seconds"] = curve[i].seconds;
    out[key + ".value"] = curve[i].value;
  }
  return out;
}

Curve from_values(const std::map<std::string, double>& values) {
  Curve out;
  for (const auto& [key, value] : values) {
    const size_t dot = key.find('.');
    if (dot == std::string::npos || key.substr(dot) != ".value") continue;
    const auto seconds = values.find(key.substr(0, dot) + ".seconds");
    if (seconds != values.end()) out.push_back({std::strtod(key.c_str(), nullptr), seconds->second, value});
  }
  return out;
}

}  // namespace tcc::benchmarks
