// Times that other programs of the machine disturbed, and their place among others.
#pragma once

#include <string_view>

#include "tcc/record/record.h"

namespace tcc::record {

// Record::statistic of a time that other programs disturbed.
inline constexpr std::string_view kDisturbedStatistic = "fastest tenth";
inline bool is_disturbed(const Record& record) {
  return record.statistic == kDisturbedStatistic;
}
// The fastest tenth of disturbed samples may be below the median that a quiet machine shows: a disturbed time counts as
// longer by this factor, so it loses to an undisturbed time that is near. It wins over one that is behind: on a busy
// machine the program that was measured first, or the plain loops, may be the only one that nothing disturbed.
inline constexpr double kDisturbedAllowance = 1.25;
// Seconds by which programs are compared, whether or not their times are disturbed.
inline double comparable_seconds(double median, bool disturbed) {
  return disturbed ? kDisturbedAllowance * median : median;
}
inline double comparable_seconds(const Record& record) {
  return comparable_seconds(record.median, is_disturbed(record));
}
// Is the time of `a` to be preferred over that of `b`?
inline bool is_faster(const Record& a, const Record& b) {
  return comparable_seconds(a) < comparable_seconds(b);
}
// Can a comparison confirm this program although the store has `fastest`? Times taken alone do not count against the
// result of a comparison, unless they are far apart; a disturbed time gives way to any other.
inline constexpr double kMaxBehind = 1.25;
inline bool may_be_confirmed(const Record& record, const Record& fastest) {
  return (!is_disturbed(record) || is_disturbed(fastest)) &&
         comparable_seconds(record) <= kMaxBehind * comparable_seconds(fastest);
}

}  // namespace tcc::record
