// The type in which contractions of a model in single precision multiply; their sums are f32 in each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::target {

// X(enumerator, name, share of an output's scale that results may be off by the rounding of a whole network)
#define TCC_PRECISIONS(X) \
  X(kF32, "f32", 1e-3)    \
  X(kTf32, "tf32", 2e-3)  \
  X(kF16, "f16", 1e-2)    \
  X(kBF16, "bf16", 5e-2)

enum class Precision : uint8_t {
#define TCC_X(enumerator, name, tolerance) enumerator,
  TCC_PRECISIONS(TCC_X)
#undef TCC_X
};

std::string_view precision_name(Precision precision);
double precision_tolerance(Precision precision);
// In the order of the table.
std::vector<Precision> all_precisions();
// Nothing: no precision has that name.
std::optional<Precision> find_precision(std::string_view name);

}  // namespace tcc::target
