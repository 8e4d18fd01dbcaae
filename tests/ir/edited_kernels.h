// Edited kernels for fuzzing: the printed kernels of tests/ir/hard and tests/ir/defects with words or bytes changed.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "tcc/ir/text.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

namespace tcc::testing {

inline std::vector<std::string> kernel_texts() {
  std::vector<std::string> paths, texts;
  for (const char* folder : {"hard", "defects"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(TCC_SOURCE_DIR) + "/tests/ir/" + folder))
      if (entry.path().extension() == ".tir") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    auto text = read_file(path);
    REQUIRE(text.has_value());
    auto kernel = ir::parse(*text, path);
    REQUIRE(kernel.has_value());
    texts.push_back(ir::print(*kernel));
  }
  return texts;
}

inline std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < text.size()) {
    auto is_word = [&](size_t i) {
      return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
    };
    size_t end = at + 1;
    if (is_word(at))
      while (is_word(end)) ++end;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Edits on words keep most of the text well-formed; edits on bytes do not.
inline std::string edited(const std::string& text, Rng& rng) {
  static constexpr std::array<const char*, 14> kNumbers = {"0",
                                                           "1",
                                                           "-1",
                                                           "2",
                                                           "7",
                                                           "64",
                                                           "9223372036854775807",
                                                           "-9223372036854775808",
                                                           "99999999999999999999",
                                                           "1e999",
                                                           "0.5",
                                                           "nan",
                                                           "1073741824",
                                                           "4294967296"};
  std::vector<std::string> words = words_of(text);
  auto any = [&] { return static_cast<size_t>(rng.below(static_cast<int64_t>(words.size()))); };
  for (int64_t edits = 1 + rng.below(3); edits > 0; --edits) {
    switch (rng.below(6)) {
      case 0:
        words[any()] = words[any()];
        break;
      case 1:
        std::swap(words[any()], words[any()]);
        break;
      case 2:
        words[any()].clear();
        break;
      case 3:
        words[any()] += " " + words[any()] + " ";
        break;
      case 4: {
        size_t at = any();
        while (at < words.size() && (words[at].empty() || std::isdigit(static_cast<unsigned char>(words[at][0])) == 0))
          ++at;
        if (at < words.size()) words[at] = kNumbers[static_cast<size_t>(rng.below(kNumbers.size()))];
        break;
      }
      default:
        words[any()] = std::string(1, static_cast<char>(rng.below(256)));
        break;
    }
  }
  std::string out;
  for (const std::string& w : words) out += w;
  if (rng.below(16) == 0) out.resize(static_cast<size_t>(rng.below(static_cast<int64_t>(out.size()) + 1)));
  return out;
}

}  // namespace tcc::testing
