// Splits the text form into tokens. Hostile input: sizes are limited, nothing here recurses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::ir {

enum class TokenKind : uint8_t { kEnd, kWord, kInteger, kReal, kSymbol, kBad };

struct Token {
  TokenKind kind;
  std::string_view text;    // for numbers: digits without the suffix
  std::string_view suffix;  // type name that follows a number directly
  size_t offset;            // of the first byte in the text
};

// The last token is kEnd, or kBad where a character fits nowhere. Comments run from '#' to the end of the line. Words
// may contain dots ("thread.x").
std::vector<Token> tokenize(std::string_view text);

// 1-based line and column of a byte offset.
struct LineColumn {
  int64_t line, column;
};
LineColumn line_column(std::string_view text, size_t offset);

}  // namespace tcc::ir
