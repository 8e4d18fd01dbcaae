#include "tcc/target/precision.h"

namespace tcc::target {

namespace {

struct Row {
  Precision precision;
  std::string_view name;
};
constexpr Row kRows[] = {
#define TCC_X(enumerator, name) {Precision::enumerator, name},
    TCC_PRECISIONS(TCC_X)
#undef TCC_X
};

}  // namespace

std::string_view precision_name(Precision precision) {
  return kRows[static_cast<size_t>(precision)].name;
}

std::vector<Precision> all_precisions() {
  std::vector<Precision> all;
  for (const Row& row : kRows) all.push_back(row.precision);
  return all;
}

std::optional<Precision> find_precision(std::string_view name) {
  for (Precision precision : all_precisions())
    if (precision_name(precision) == name) return precision;
  return std::nullopt;
}

}  // namespace tcc::target
