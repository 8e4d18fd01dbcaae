// The type in which contractions of a model in single precision multiply; their sums are f32 in each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::target {

// X(enumerator, name)
#define TCC_PRECISIONS(X) \
  X(kF32, "f32")          \
  X(kTf32, "tf32")        \
  X(kF16, "f16")          \
  X(kBF16, "bf16")

enum class Precision : uint8_t {
#define TCC_X(enumerator, name) enumerator,
  TCC_PRECISIONS(TCC_X)
#undef TCC_X
};

std::string_view precision_name(Precision precision);
// In the order of the table.
std::vector<Precision> all_precisions();
// Nothing: no precision has that name.
std::optional<Precision> find_precision(std::string_view name);

}  // namespace tcc::target
