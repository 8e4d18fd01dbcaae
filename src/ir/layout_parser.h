// Layout text over a token stream, for parse_layout and for layouts inside kernels.
#pragma once

#include <span>

#include "ir/lexer.h"
#include "tcc/ir/layout.h"

namespace tcc::ir {

struct LayoutParse {
  const Layout* layout = nullptr;  // nullptr: failed
  size_t next = 0;                 // index of the token after the layout, or of the offending one
  std::string expected;            // when failed
};
// Parses from tokens[first], which should be the word "layout".
LayoutParse parse_layout_tokens(Arena& arena, std::span<const Token> tokens, size_t first);

// Why a layout cannot be used; empty when it can.
std::string layout_problem(const Layout& layout);

}  // namespace tcc::ir
