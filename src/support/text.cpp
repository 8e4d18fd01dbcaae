#include "tcc/support/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tcc {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> known) {
  if (word.size() > 64) return {};
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string& name : known) {
    size_t distance = edit_distance(word, name);
    bool prefix = !word.empty() && name.starts_with(word);
    if (prefix || distance <= std::max<size_t>(2, name.size() / 3)) scored.emplace_back(prefix ? 0 : distance, name);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < scored.size() && i < 3; ++i) names.push_back(scored[i].second);
  return names;
}

std::string suggest(std::string_view word, std::span<const std::string> known) {
  std::vector<std::string> names = nearest_names(word, known);
  if (names.empty()) return "";
  std::string text = "did you mean ";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += "'" + names[i] + "'";
  }
  return text + "?";
}

std::string sanitize(std::string_view text, size_t max) {
  std::string out;
  for (size_t i = 0; i < text.size() && out.size() < max; ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    int extra = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : -1;
    bool valid = extra >= 0 && i + static_cast<size_t>(extra) < text.size() && c >= 0x20 && c != 0x7f;
    for (int k = 1; valid && k <= extra; ++k)
      valid = (static_cast<unsigned char>(text[i + static_cast<size_t>(k)]) & 0xc0) == 0x80;
    // U+0080 to U+009F are control characters as well: terminals take U+009B for ESC [.
    valid = valid && !(c == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    if (!valid) {
      out += fmt::format("\\x{:02x}", c);
      continue;
    }
    out.append(text.substr(i, static_cast<size_t>(extra) + 1));
    i += static_cast<size_t>(extra);
  }
  if (out.size() >= max && max > 0) out += "...";
  return out;
}

std::string format_duration(double seconds) {
  if (seconds >= 100) return fmt::format("{}m{:02d}s", static_cast<int>(seconds) / 60, static_cast<int>(seconds) % 60);
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds >= 1e-6) return fmt::format("{:.3g} us", seconds * 1e6);
  return fmt::format("{:.3g} ns", seconds * 1e9);
}

std::string format_bytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

}  // namespace tcc
