// What targets have: features of CPUs by name, and what graphs are made for.
#pragma once

#include <string_view>

#include "tcc/target/target.h"

namespace tcc::target {

// Has the CPU the feature that a row of the instruction table (tcc/ir/instr.h) names? "" is always there.
inline bool has_feature(const CpuFeatures& have, std::string_view name) {
  if (name.empty()) return true;
#define TCC_TEST_FEATURE(field, llvm) \
  if (name == #field) return have.field;
  TCC_CPU_FEATURES(TCC_TEST_FEATURE)
#undef TCC_TEST_FEATURE
  return false;
}

// Integers of 8 bits that the target's products take on the left side are signed, as those on the right; else unsigned.
// (Tiles of AMX take signed ones, but VNNI serves convolutions, too.)
inline bool multiplies_signed_bytes(const Target& target) {
  return target.cuda.features.dp4a;
}

}  // namespace tcc::target
