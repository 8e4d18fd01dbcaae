// The product by bulk copies, clusters, roles and wgmma of the expressibility suite, in several shapes, and with text
// of it replaced: what is wrong with a kernel must be found by whatever runs it.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tcc/ir/text.h"
#include "tcc/support/files.h"

namespace tcc::emulation::testing {

using Edits = std::vector<std::pair<std::string, std::string>>;

inline std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  size_t count = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()), ++count)
    text.replace(at, from.size(), to);
  INFO(from);
  REQUIRE(count > 0);
  return text;
}

// tests/ir/hard/gemm_wgmma.tir with some of its text replaced.
inline ir::Kernel product(const Edits& edits = {}) {
  auto text = read_file(std::string(TCC_SOURCE_DIR) + "/tests/ir/hard/gemm_wgmma.tir");
  REQUIRE(text.has_value());
  for (const auto& [from, to] : edits) *text = replace_all(*text, from, to);
  auto kernel = ir::parse(*text);
  if (!kernel) FAIL(kernel.error().message << "\n" << *text);
  return *kernel;
}

inline const Edits kBrain = {{"f16", "bf16"}};
// Tiles, rows and depth that end beyond the tensors.
inline const Edits kOdd = {{"A: f16[256, 96]", "A: f16[250, 88]"},
                           {"B: f16[16, 96]", "B: f16[12, 88]"},
                           {"C: f32[256, 16]", "C: f32[250, 12]"}};
// Rows of 128 bytes.
inline const Edits kLongRows = {{"[256, 96]", "[256, 192]"},
                                {"[16, 96]", "[16, 192]"},
                                {"64, 32] cluster", "64, 64] cluster"},
                                {"8, 32] cluster", "8, 64] cluster"},
                                {"kt*32]; 64, 32", "kt*64]; 64, 64"},
                                {"kt*32]; 4, 32, 3", "kt*64]; 4, 64, 3"},
                                {"4608", "9216"},
                                {"for kk in 2", "for kk in 4"}};
// Rows of 32 bytes.
inline const Edits kShortRows = {{"[256, 96]", "[256, 48]"},
                                 {"[16, 96]", "[16, 48]"},
                                 {"64, 32] cluster", "64, 16] cluster"},
                                 {"8, 32] cluster", "8, 16] cluster"},
                                 {"kt*32]; 64, 32", "kt*16]; 64, 16"},
                                 {"kt*32]; 4, 32, 3", "kt*16]; 4, 16, 3"},
                                 {"4608", "2304"},
                                 {"for kk in 2", "for kk in 1"}};

}  // namespace tcc::emulation::testing
