#include "driver/student.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tcc::driver {
namespace {

// The regularized incomplete beta function I_x(a, b) by its continued fraction (Lentz; Numerical Recipes, 6.4).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  constexpr double kTiny = 1e-300;
  constexpr int kMaxSteps = 300;
  double c = 1, d = 1 / std::max(1 - (a + b) * x / (a + 1), kTiny), fraction = d;
  for (int m = 1; m < kMaxSteps; ++m) {
    for (const double term : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      d = 1 + term * d;
      c = 1 + term / c;
      d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
      if (std::fabs(c) < kTiny) c = kTiny;
      fraction *= c * d;
    }
    if (std::fabs(c * d - 1) < 1e-14) break;
  }
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return front * fraction / a;
}

struct Moments {
  double mean = 0, variance_of_mean = 0, freedom = 0;
};
Moments moments(std::span<const double> values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (double v : values) m.mean += v / n;
  double squares = 0;
  for (double v : values) squares += (v - m.mean) * (v - m.mean);
  m.freedom = n - 1;
  m.variance_of_mean = n > 1 ? squares / (n - 1) / n : std::numeric_limits<double>::infinity();
  return m;
}

MeanTest test(double mean, double variance, double freedom, double confidence) {
  MeanTest t{mean, mean, mean, mean == 0 ? 1.0 : 0.0};
  if (variance == 0) return t;
  const double error = std::sqrt(variance), reach = error * student_quantile(1 - confidence, std::max(freedom, 1.0));
  t.low = mean - reach;
  t.high = mean + reach;
  t.p = std::isfinite(error) ? student_p(mean / error, freedom) : 1;
  return t;
}

}  // namespace

double student_p(double t, double freedom) {
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double student_quantile(double p, double freedom) {
  double low = 0, high = 1;
  while (student_p(high, freedom) > p) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_p(middle, freedom) > p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

MeanTest test_mean(std::span<const double> values, double confidence) {
  const Moments m = moments(values);
  return test(m.mean, m.variance_of_mean, m.freedom, confidence);
}

MeanTest test_difference(std::span<const double> a, std::span<const double> b, double confidence) {
  const Moments x = moments(a), y = moments(b);
  const double variance = x.variance_of_mean + y.variance_of_mean;
  double freedom = 1;
  if (std::isfinite(variance) && variance > 0)
    freedom =
        variance * variance /
        (x.variance_of_mean * x.variance_of_mean / x.freedom + y.variance_of_mean * y.variance_of_mean / y.freedom);
  return test(y.mean - x.mean, variance, freedom, confidence);
}

}  // namespace tcc::driver
