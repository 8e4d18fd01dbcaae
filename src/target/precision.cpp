#include "tcc/target/precision.h"

#include "tcc/support/check.h"

namespace tcc::target {

std::string_view precision_name(Precision precision) {
  switch (precision) {
#define TCC_X(enumerator, name, tolerance) \
  case Precision::enumerator:              \
    return name;
    TCC_PRECISIONS(TCC_X)
#undef TCC_X
  }
  TCC_UNREACHABLE();
}

double precision_tolerance(Precision precision) {
  switch (precision) {
#define TCC_X(enumerator, name, tolerance) \
  case Precision::enumerator:              \
    return tolerance;
    TCC_PRECISIONS(TCC_X)
#undef TCC_X
  }
  TCC_UNREACHABLE();
}

std::vector<Precision> all_precisions() {
  return {
#define TCC_X(enumerator, name, tolerance) Precision::enumerator,
      TCC_PRECISIONS(TCC_X)
#undef TCC_X
  };
}

std::optional<Precision> find_precision(std::string_view name) {
  for (Precision precision : all_precisions())
    if (precision_name(precision) == name) return precision;
  return std::nullopt;
}

}  // namespace tcc::target
