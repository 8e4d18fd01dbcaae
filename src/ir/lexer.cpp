#include "ir/lexer.h"

#include <algorithm>
#include <cctype>

namespace tcc::ir {
namespace {

bool is_word_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (true) {
      skip_blank();
      if (at_ == text_.size()) {
        push(TokenKind::kEnd, 0);
        return std::move(tokens_);
      }
      char c = text_[at_];
      if (is_word_start(c))
        word();
      else if (is_digit(c))
        number();
      else if (!symbol())
        return std::move(tokens_);
    }
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void push(TokenKind kind, size_t length) {
    tokens_.push_back({kind, text_.substr(at_, length), {}, at_});
    at_ += length;
  }
  void skip_blank() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
        ++at_;
      else
        return;
    }
  }
  void word() {
    size_t n = 1;
    while (is_word(peek(n)) || (peek(n) == '.' && is_word(peek(n + 1)))) ++n;
    push(TokenKind::kWord, n);
  }
  void number() {
    size_t n = 0;
    bool real = false;
    while (is_digit(peek(n))) ++n;
    if (peek(n) == '.' && is_digit(peek(n + 1))) {
      real = true;
      ++n;
      while (is_digit(peek(n))) ++n;
    }
    size_t sign = peek(n + 1) == '+' || peek(n + 1) == '-' ? 1 : 0;
    if (peek(n) == 'e' && is_digit(peek(n + 1 + sign))) {
      real = true;
      n += 1 + sign;
      while (is_digit(peek(n))) ++n;
    }
    push(real ? TokenKind::kReal : TokenKind::kInteger, n);
    n = 0;
    while (is_word(peek(n))) ++n;
    tokens_.back().suffix = text_.substr(at_, n);
    at_ += n;
  }
  bool symbol() {
    static constexpr std::string_view kLong[] = {"->", "//", "<=", ">=", "==", "!=", "&&", "||", ".."};
    std::string_view rest = text_.substr(at_);
    for (std::string_view s : kLong) {
      if (rest.starts_with(s)) {
        push(TokenKind::kSymbol, 2);
        return true;
      }
    }
    if (std::string_view("()[]{}<>=!+-*/%,;:@&").find(rest[0]) == std::string_view::npos) {
      push(TokenKind::kBad, 1);
      return false;
    }
    push(TokenKind::kSymbol, 1);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) {
  return Lexer(text).run();
}

LineColumn line_column(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, std::min(offset, text.size()));
  size_t newline = before.rfind('\n');
  size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  return {1 + std::count(before.begin(), before.end(), '\n'), static_cast<int64_t>(before.size() - start) + 1};
}

}  // namespace tcc::ir
