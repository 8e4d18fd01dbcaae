// Medians, and Student's t distribution for means of a few independent blocks. Private to the room.
#pragma once

#include <span>
#include <vector>

namespace tcc::driver {

// P(|T| >= |t|) with `freedom` > 0 degrees.
double student_p(double t, double freedom);
// The t with P(|T| >= t) = p, 0 < p < 1.
double student_quantile(double p, double freedom);

// The upper median of at least one value.
double median_of(std::vector<double> values);

// Mean of the values with its interval, and whether it is 0.
struct MeanTest {
  double mean = 0, low = 0, high = 0, p = 1;
};
// One sample; at least two values, else nothing is known and the interval is the whole line.
MeanTest test_mean(std::span<const double> values, double confidence);
// The mean of `b` minus the mean of `a` (Welch, Biometrika 34, 1947).
MeanTest test_difference(std::span<const double> a, std::span<const double> b, double confidence);

}  // namespace tcc::driver
