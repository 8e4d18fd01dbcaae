// Text -> tokens.
#include <charconv>

#include "emulation/ptx_text.h"

namespace tcc::emulation {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool starts_word(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%' || c == '.';
}
bool continues_word(char c) {
  return starts_word(c) || is_digit(c);
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    while (true) {
      TCC_TRY_VOID(skip_space());
      if (at_ >= text_.size()) break;
      const char c = text_[at_];
      if (is_digit(c)) {
        TCC_TRY_VOID(number());
      } else if (starts_word(c)) {
        word();
      } else if (c == '"') {
        TCC_TRY_VOID(string());
      } else if (std::string_view("{}[]()<>,;:+-!|@=").find(c) != std::string_view::npos) {
        add(Token::Kind::kPunctuation, at_ + 1);
      } else {
        return ptx_error(
            line_, fmt::format("unexpected character of value {}", static_cast<int>(static_cast<unsigned char>(c))));
      }
    }
    tokens_.push_back({Token::Kind::kEnd, {}, 0, line_});
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Result<void> skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '/' && peek(1) == '*') {
        const size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) return ptx_error(line_, "a comment without an end");
        for (; at_ < end + 2; ++at_) line_ += text_[at_] == '\n';
      } else {
        break;
      }
    }
    return {};
  }

  void add(Token::Kind kind, size_t end, uint64_t value = 0) {
    tokens_.push_back({kind, text_.substr(at_, end - at_), value, line_});
    at_ = end;
  }

  void word() {
    size_t end = at_ + 1;
    while (end < text_.size()) {
      if (continues_word(text_[end])) {
        ++end;
      } else if (text_[end] == ':' && end + 2 < text_.size() && text_[end + 1] == ':' &&
                 continues_word(text_[end + 2])) {
        end += 2;
      } else {
        break;
      }
    }
    add(Token::Kind::kWord, end);
  }

  Result<void> string() {
    const size_t end = text_.find_first_of("\"\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] != '"') return ptx_error(line_, "a string without an end");
    add(Token::Kind::kString, end + 1);
    return {};
  }

  // 12, 0x1F, 12U, 0f3F800000, 0d3FF0000000000000; a version like 9.0 is taken as 9.
  Result<void> number() {
    const char second = peek(1);
    const bool hex = text_[at_] == '0' && (second == 'x' || second == 'X');
    const bool single = text_[at_] == '0' && (second == 'f' || second == 'F') && is_hex(peek(2));
    const bool real = text_[at_] == '0' && (second == 'd' || second == 'D') && is_hex(peek(2));
    const size_t begin = hex || single || real ? at_ + 2 : at_;
    size_t end = begin;
    while (end < text_.size() && (hex || single || real ? is_hex(text_[end]) : is_digit(text_[end]))) ++end;
    uint64_t value = 0;
    const auto read = std::from_chars(text_.data() + begin, text_.data() + end, value, begin == at_ ? 10 : 16);
    const size_t digits = end - begin;
    if (read.ec != std::errc() || (single && digits != 8) || (real && digits != 16))
      return ptx_error(line_, fmt::format("expected a number, found '{}'", text_.substr(at_, end - at_)));
    if (begin == at_ && end < text_.size() && text_[end] == '.') {
      ++end;
      while (end < text_.size() && is_digit(text_[end])) ++end;
    }
    if (!single && !real && end < text_.size() && text_[end] == 'U') ++end;
    if (end < text_.size() && continues_word(text_[end]))
      return ptx_error(line_, fmt::format("expected a number, found '{}'", text_.substr(at_, end + 1 - at_)));
    add(single ? Token::Kind::kFloat : real ? Token::Kind::kDouble : Token::Kind::kInteger, end, value);
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  int32_t line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> split_ptx(std::string_view text) {
  return Splitter(text).run();
}

}  // namespace tcc::emulation
