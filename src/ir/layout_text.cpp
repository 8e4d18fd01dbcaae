// Text form of layouts: "layout[512,512]{1/32%0@addr*16384, 0/1%0@addr*32, 1/1%32@addr*1} xor(3->0&7) size 262144".
#include <charconv>

#include "ir/layout_parser.h"

namespace tcc::ir {
namespace {

constexpr std::string_view kPlaces[] = {"addr", "warp", "lane", "reg"};
constexpr int64_t kMaxLayoutSize = int64_t{1} << 48;

class LayoutParser {
 public:
  LayoutParser(Arena& arena, std::span<const Token> tokens, size_t first)
      : arena_(arena), tokens_(tokens), at_(first) {}

  LayoutParse run() {
    LayoutParse result;
    if (parse()) result.layout = arena_.make<Layout>(layout_);
    result.next = at_;
    result.expected = expected_;
    return result;
  }

 private:
  bool fail(std::string expected) {
    expected_ = std::move(expected);
    return false;
  }
  bool take(std::string_view text) {
    if (tokens_[at_].kind == TokenKind::kEnd || tokens_[at_].text != text) return fail("'" + std::string(text) + "'");
    ++at_;
    return true;
  }
  bool number(int64_t& value, const char* what, int64_t low, int64_t high) {
    const Token& t = tokens_[at_];
    bool ok = t.kind == TokenKind::kInteger && t.suffix.empty() &&
              std::from_chars(t.text.data(), t.text.data() + t.text.size(), value).ec == std::errc();
    if (!ok || value < low || value > high) return fail(fmt::format("{} in {}..{}", what, low, high));
    ++at_;
    return true;
  }
  bool digit(Digit& d, int64_t rank) {
    int64_t dim = 0;
    if (!number(dim, "a dimension", 0, rank - 1) || !take("/")) return false;
    d.dim = static_cast<int32_t>(dim);
    if (!number(d.divisor, "a divisor", 1, kMaxLayoutSize) || !take("%")) return false;
    if (!number(d.extent, "an extent (0 for none)", 0, kMaxLayoutSize) || !take("@")) return false;
    int place = 0;
    while (place < 4 && tokens_[at_].text != kPlaces[place]) ++place;
    if (place == 4) return fail("addr, warp, lane or reg");
    ++at_;
    d.place = static_cast<Place>(place);
    return take("*") && number(d.stride, "a stride", 0, kMaxLayoutSize);
  }
  bool parse() {
    std::vector<int64_t> shape;
    std::vector<Digit> digits;
    std::vector<XorField> xors;
    if (!take("layout") || !take("[")) return false;
    for (bool more = tokens_[at_].text != "]"; more; more = tokens_[at_].text == "," && take(",")) {
      if (!number(shape.emplace_back(), "an extent", 1, kMaxLayoutSize)) return false;
    }
    if (!take("]") || !take("{")) return false;
    for (bool more = tokens_[at_].text != "}"; more; more = tokens_[at_].text == "," && take(",")) {
      if (!digit(digits.emplace_back(), static_cast<int64_t>(shape.size()))) return false;
    }
    if (!take("}")) return false;
    while (tokens_[at_].text == "xor") {
      int64_t from = 0, to = 0;
      XorField x{};
      if (!take("xor") || !take("(") || !number(from, "a bit position", 0, 40) || !take("->") ||
          !number(to, "a bit position", 0, 40) || !take("&") || !number(x.mask, "a mask", 1, 0xffff) || !take(")"))
        return false;
      x.from_shift = static_cast<int32_t>(from);
      x.to_shift = static_cast<int32_t>(to);
      xors.push_back(x);
    }
    if (!take("size") || !number(layout_.size, "a size", 1, kMaxLayoutSize)) return false;
    layout_.shape = arena_.copy(shape);
    layout_.digits = arena_.copy(digits);
    layout_.xors = arena_.copy(xors);
    std::string problem = layout_problem(layout_);
    return problem.empty() || fail("a layout whose places exist: " + problem);
  }

  Arena& arena_;
  std::span<const Token> tokens_;
  size_t at_;
  Layout layout_{};
  std::string expected_;
};

}  // namespace

LayoutParse parse_layout_tokens(Arena& arena, std::span<const Token> tokens, size_t first) {
  return LayoutParser(arena, tokens, first).run();
}

std::string print_layout(const Layout& layout) {
  std::string shape, digits, xors;
  for (int64_t e : layout.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", e);
  for (const Digit& d : layout.digits)
    digits += fmt::format("{}{}/{}%{}@{}*{}", digits.empty() ? "" : ", ", d.dim, d.divisor, d.extent,
                          kPlaces[static_cast<int>(d.place)], d.stride);
  for (const XorField& x : layout.xors) xors += fmt::format(" xor({}->{}&{})", x.from_shift, x.to_shift, x.mask);
  return fmt::format("layout[{}]{{{}}}{} size {}", shape, digits, xors, layout.size);
}

Result<const Layout*> parse_layout(Arena& arena, std::string_view text) {
  std::vector<Token> tokens = tokenize(text);
  LayoutParse parsed = parse_layout_tokens(arena, tokens, 0);
  if (parsed.layout == nullptr)
    return input_error("layout:{}: expected {}", tokens[parsed.next].offset + 1, parsed.expected);
  if (tokens[parsed.next].kind != TokenKind::kEnd)
    return input_error("layout:{}: expected the end of the layout", tokens[parsed.next].offset + 1);
  return parsed.layout;
}

}  // namespace tcc::ir
