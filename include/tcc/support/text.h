// Small text helpers shared by messages: nearest names for misspelt words, escapes for untrusted strings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

// Up to three of `known` closest to `word` by edit distance, best first; empty when nothing is near.
std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> known);
// "did you mean a, b or c?" or "" when nothing is near.
std::string suggest(std::string_view word, std::span<const std::string> known);
// Control characters and invalid UTF-8 become \xNN, and the text is cut at max characters: safe to print.
std::string sanitize(std::string_view text, size_t max = 200);
// "1.23 ms", "4.5 us": three significant digits.
std::string format_duration(double seconds);
std::string format_bytes(double bytes);

}  // namespace tcc
