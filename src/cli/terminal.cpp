#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace tcc::cli {
namespace {

constexpr size_t kUnknownWidth = 80, kLeastWidth = 10;
constexpr char kEscape = '\x1b';

// The first and last code points of characters that take two columns (Unicode's East Asian wide ones) and none.
constexpr std::pair<uint32_t, uint32_t> kWide[] = {
    {0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
    {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
constexpr std::pair<uint32_t, uint32_t> kZero[] = {{0x0300, 0x036f}, {0x200b, 0x200f}, {0x202a, 0x202e},
                                                   {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}};

template <size_t N>
bool within(const std::pair<uint32_t, uint32_t> (&ranges)[N], uint32_t c) {
  return std::any_of(std::begin(ranges), std::end(ranges), [c](auto r) { return c >= r.first && c <= r.second; });
}

struct Glyph {
  size_t bytes = 1, columns = 1;
};
// The character at the start of a text that is not empty. Bytes that are not UTF-8 count as one column each.
Glyph first_glyph(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead == static_cast<unsigned char>(kEscape) && text.size() > 1 && text[1] == '[') {
    const size_t end = text.find('m');
    return {end == std::string_view::npos ? text.size() : end + 1, 0};
  }
  const size_t bytes = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (bytes == 1 || bytes > text.size()) return {};
  uint32_t code = lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return {bytes, within(kWide, code) ? 2u : within(kZero, code) ? 0u : 1u};
}

// The bytes of the longest start that takes at most `width` columns.
size_t fitting(std::string_view text, size_t width) {
  size_t at = 0, columns = 0;
  while (at < text.size()) {
    const Glyph glyph = first_glyph(text.substr(at));
    if (columns + glyph.columns > width) break;
    columns += glyph.columns;
    at += glyph.bytes;
  }
  return at;
}

void fold_line(std::string_view line, size_t width, std::string& out) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string hanging(std::min(indent + 4, width / 2), ' ');
  std::string start;
  while (text_width(line) > width - start.size()) {
    size_t end = fitting(line, width - start.size());
    // A blank right behind the part that fits ends it, too.
    const size_t blank = line.rfind(' ', end);
    const bool at_blank = blank != std::string_view::npos && line.find_first_not_of(' ') < blank;
    if (at_blank) end = blank;
    if (end == 0) end = first_glyph(line).bytes;
    out += start;
    out += line.substr(0, end);
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
    line.remove_prefix(end);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    start = hanging;
  }
  if (line.empty() && !start.empty()) {
    out.pop_back();
    return;
  }
  out += start;
  out += line;
}

}  // namespace

size_t terminal_width(int fd) {
  if (isatty(fd) != 1) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
  return std::max<size_t>(size.ws_col, kLeastWidth);
}

bool terminal_moves(int fd) {
  const char* type = std::getenv("TERM");
  return isatty(fd) == 1 && type != nullptr && std::string_view(type) != "dumb" && type[0] != '\0';
}

bool terminal_colors(int fd) {
  const char* refused = std::getenv("NO_COLOR");
  return terminal_moves(fd) && (refused == nullptr || refused[0] == '\0');
}

std::string styled(int fd, Style style, const std::string& text) {
  if (text.empty() || !terminal_colors(fd)) return text;
  const char* codes[] = {"1", "1;31", "33", "36", "32"};
  return std::string("\x1b[") + codes[static_cast<size_t>(style)] + "m" + text + "\x1b[0m";
}

size_t text_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    columns += glyph.columns;
    text.remove_prefix(glyph.bytes);
  }
  return columns;
}

std::string cut_text(std::string_view text, size_t width) {
  if (text_width(text) <= width) return std::string(text);
  if (width <= 2) return std::string(text.substr(0, fitting(text, width)));
  return std::string(text.substr(0, fitting(text, width - 2))) + "..";
}

std::string fold_text(std::string_view text, size_t width) {
  if (width == 0) return std::string(text);
  std::string out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out += '\n';
    fold_line(text.substr(at, end - at), width, out);
    at = end + 1;
  }
  return out;
}

}  // namespace tcc::cli
