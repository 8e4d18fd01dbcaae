#include "tcc/measure/calibration.h"

#include "measure/host/quiet.h"
#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

constexpr double kCalibrationSeconds = 1;

}  // namespace

double calibration_seconds() {
  QuietWatch watch({}, nullptr);
  for (Stopwatch time; time.seconds() < kCalibrationSeconds;) watch.slowdown();
  return watch.best().chain + watch.best().ports;
}

}  // namespace tcc::measure
