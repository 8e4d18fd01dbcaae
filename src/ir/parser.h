// The recursive-descent parser of the text form. parse_expr.cpp has expressions, parse.cpp statements and declarations.
// A failed function returns a null or false value and has set the error; the first error wins.
#pragma once

#include <optional>
#include <unordered_map>

#include "ir/lexer.h"
#include "tcc/ir/build.h"
#include "tcc/ir/text.h"

namespace tcc::ir {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file)
      : text_(text), file_(file), tokens_(tokenize(text)), arena_(std::make_shared<Arena>()), builder_(*arena_) {}

  Result<Kernel> run();

 private:
  // An expression with the height of its tree, which is limited so that later recursive walks are safe.
  struct Value {
    Expr e = nullptr;
    int height = 0;
    explicit operator bool() const { return e != nullptr; }
  };
  struct Name {
    Id id;
    Type type;             // of variables
    const Buffer* buffer;  // nullptr for variables and blocks
  };
  // Counts nesting of the text; over the limit it sets the error.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser), ok_(++parser.nesting_ <= kMaxNesting) {
      if (!ok_) parser.fail(fmt::format("at most {} nested levels", kMaxNesting));
    }
    ~Nesting() { --parser_.nesting_; }
    explicit operator bool() const { return ok_; }

   private:
    Parser& parser_;
    bool ok_;
  };
  static constexpr int kMaxNesting = 200;
  static constexpr int kMaxHeight = 1000;

  // --- tokens and errors (parse_expr.cpp)
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(std::string_view text, size_t ahead = 0) const {
    const Token& t = peek(ahead);
    return (t.kind == TokenKind::kWord || t.kind == TokenKind::kSymbol) && t.text == text;
  }
  bool is_word(size_t ahead = 0) const { return peek(ahead).kind == TokenKind::kWord; }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  bool expect(std::string_view text);
  // Sets the error "<file>:line:col: expected <what>, found ..."; always false.
  bool fail(std::string_view expected);
  bool fail_word(std::string_view expected, std::span<const std::string> known);  // adds "did you mean"
  bool problem(size_t offset, std::string message);
  bool failed() const { return error_.has_value(); }

  // --- expressions (parse_expr.cpp)
  Value expression();
  Value binary(int precedence);
  Value unary();
  Value primary();
  Value number(bool negative);
  Value parenthesised();
  Value load(const Name& name, bool in_parentheses);
  Value call(std::string_view word);
  Value combine(ExprKind kind, Value a, Value b, size_t offset);
  bool arguments(std::vector<Value>& args);
  bool indices(const Buffer& buffer, std::vector<Expr>& out, int& height);
  Value typed_expression(Type type, const char* what);
  Expr index_expression(const char* what) { return typed_expression(Type::kI64, what).e; }
  bool integer(int64_t& value, int64_t low, int64_t high, const char* what);
  const Name* lookup(std::string_view word) const;

  // --- statements and declarations (parse.cpp)
  bool declaration(bool& found);
  bool declare_scalar(ScalarRole role);
  bool declare_product();
  bool declare_buffer(BufferRole role);
  bool statements(Stmt& out);  // until '}'; out may become nullptr when all fold away
  bool braced(Stmt& out);
  bool statement(Stmt& out);
  bool loop(Stmt& out);
  bool block(Stmt& out);
  bool iterators(std::vector<Iter>& iters, std::vector<std::string_view>& names);
  bool store(Stmt& out);
  bool conditional(Stmt& out);
  bool alloc(Stmt& out);
  bool instruction_call(Stmt& out);
  bool operand(Operand& out);
  bool roles(Stmt& out);
  bool annotations(std::vector<Annotation>& out);
  template <class E>
  bool enumerator(E& out, std::string_view what, E first = E{});
  bool where(Expr& out);
  // Binds a new name, which must not be visible already; kNoId on failure.
  // A new id with a name for people.
  Id fresh_id(std::string_view hint);
  Id bind(Type type, const Buffer* buffer = nullptr);
  Id bind_word(std::string_view word, size_t offset, Type type, const Buffer* buffer);
  void unbind(std::string_view word) { names_.erase(std::string(word)); }

  std::string_view text_, file_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  ArenaPtr arena_;
  Builder builder_;
  std::unordered_map<std::string, Name> names_;
  const NameHint* hints_ = nullptr;
  Id next_id_ = 0;
  int nesting_ = 0;
  Value pending_;  // the first operand of the expression that is about to be parsed, already read
  std::vector<Scalar> scalars_;
  std::vector<ProductFact> products_;
  std::vector<const Buffer*> buffers_;
  std::optional<Error> error_;
};

}  // namespace tcc::ir
