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
// Is the time of `a` to be preferred over that of `b`? A disturbed time never is over one that is not.
inline bool is_faster(const Record& a, const Record& b) {
  return is_disturbed(a) != is_disturbed(b) ? is_disturbed(b) : a.median < b.median;
}

}  // namespace tcc::record
