#include "driver/student.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace tcc::driver {
namespace {

using Student = boost::math::students_t;

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
  return 2 * boost::math::cdf(boost::math::complement(Student(freedom), std::fabs(t)));
}

double student_quantile(double p, double freedom) {
  return boost::math::quantile(boost::math::complement(Student(freedom), p / 2));
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
