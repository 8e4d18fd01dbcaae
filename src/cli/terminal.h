// Text that fits a terminal: its width, its colors, lines that are cut or folded. Private to the room.
//
// Results go to standard output and everything else to standard error; either may be a terminal or not. Elsewhere,
// lines are as long as they are and have no colors. Widths are columns: a wide character (CJK) takes two, a
// combining mark and an escape sequence of color take none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tcc::cli {

// Columns of the terminal behind a file descriptor, asked anew at each call, for it may have been resized. 0: it is not
// a terminal. A terminal that does not know its width has 80.
size_t terminal_width(int fd);
// Does it obey escape sequences? A terminal of another type than "dumb".
bool terminal_moves(int fd);
// May text have colors? As terminal_moves(), where NO_COLOR is unset or empty (https://no-color.org).
bool terminal_colors(int fd);

enum class Style { kBold, kError, kWarning, kNote, kGood };
// The text in the style, where the file descriptor's terminal takes colors.
std::string styled(int fd, Style style, const std::string& text);

size_t text_width(std::string_view text);
// At most `width` columns; a text that is longer ends with "..".
std::string cut_text(std::string_view text, size_t width);
// Each line that is wider is broken at blanks, or inside a word that does not fit a line. Its rest is indented by four
// more than the line itself. `width` 0: the text as it is.
std::string fold_text(std::string_view text, size_t width);

}  // namespace tcc::cli
