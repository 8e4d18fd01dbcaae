// Expressions of the text form: everything the Builder would treat as a bug is checked here and reported as an error of
// the text, including overflow of index arithmetic.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/parser.h"
#include "ir/text_words.h"
#include "tcc/support/text.h"

namespace tcc::ir {
namespace {

constexpr double kMaxMagnitude = 4.0e18;  // just under 2^62
constexpr size_t kMaxTerms = 4096;

// An upper bound of coefficients that arithmetic on the expression may meet, with atoms counted as 1.
double magnitude(Expr e) {
  if (is_int(e)) return std::abs(static_cast<double>(int_value(e)));
  const Sum* s = as<Sum>(e);
  if (s == nullptr) return 1;
  double total = std::abs(static_cast<double>(s->constant));
  for (const Term& t : s->terms) total += std::abs(static_cast<double>(t.coefficient));
  return total;
}
size_t term_count(Expr e) {
  const Sum* s = as<Sum>(e);
  return s == nullptr ? 1 : s->terms.size() + 1;
}

bool is_arithmetic(Type t) {
  return is_float(t) || is_integer(t);
}

}  // namespace

bool Parser::problem(size_t offset, std::string message) {
  if (error_) return false;
  LineColumn at = line_column(text_, offset);
  error_ = Error{ErrorClass::kInput, fmt::format("{}:{}:{}: {}", sanitize(file_), at.line, at.column, message), "", {}};
  return false;
}

bool Parser::fail(std::string_view expected) {
  const Token& t = peek();
  std::string found = t.kind == TokenKind::kEnd ? "the end of the text" : "'" + sanitize(t.text, 40) + "'";
  return problem(t.offset, fmt::format("expected {}, found {}", expected, found));
}

bool Parser::fail_word(std::string_view expected, std::span<const std::string> known) {
  const Token& t = peek();
  std::string near = t.kind == TokenKind::kWord ? suggest(t.text, known) : "";
  if (near.empty()) return fail(expected);
  return problem(t.offset, fmt::format("expected {}, found '{}'; {}", expected, sanitize(t.text, 40), near));
}

bool Parser::expect(std::string_view text) {
  return accept(text) || fail(fmt::format("'{}'", text));
}

const Parser::Name* Parser::lookup(std::string_view word) const {
  auto found = names_.find(std::string(word));
  return found == names_.end() ? nullptr : &found->second;
}

bool Parser::integer(int64_t& value, int64_t low, int64_t high, const char* what) {
  bool negative = is("-") && peek(1).kind == TokenKind::kInteger;
  const Token& t = peek(negative ? 1 : 0);
  uint64_t digits = 0;
  bool ok = t.kind == TokenKind::kInteger && t.suffix.empty() &&
            std::from_chars(t.text.data(), t.text.data() + t.text.size(), digits).ec == std::errc() &&
            digits <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (ok) value = negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits);
  if (!ok || value < low || value > high) return fail(fmt::format("{} in {}..{}", what, low, high));
  at_ += negative ? 2 : 1;
  return true;
}

Parser::Value Parser::expression() {
  Nesting nesting(*this);
  if (!nesting) return {};
  return binary(kOr);
}

Parser::Value Parser::typed_expression(Type type, const char* what) {
  size_t offset = peek().offset;
  Value v = expression();
  if (v && v.e->type != type) {
    problem(offset, fmt::format("expected {} of type {}, found an expression of type {}", what, type_name(type),
                                type_name(v.e->type)));
    return {};
  }
  return v;
}

Parser::Value Parser::binary(int precedence) {
  if (precedence > kMultiplicative) return unary();
  Value a = binary(precedence + 1);
  while (a) {
    const auto* op = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [&](const Operator& o) { return o.precedence == precedence && is(o.text); });
    if (op == std::end(kOperators)) break;
    size_t offset = peek().offset;
    ++at_;
    Value b = binary(precedence + 1);
    a = op->swapped && b ? combine(op->kind, b, a, offset) : combine(op->kind, a, b, offset);
    if (precedence == kCompare) break;  // a < b < c has no meaning
  }
  return a;
}

Parser::Value Parser::combine(ExprKind kind, Value a, Value b, size_t offset) {
  if (!a || !b) return {};
  Type type = a.e->type;
  auto refuse = [&](std::string message) {
    problem(offset, std::move(message));
    return Value{};
  };
  if (type != b.e->type)
    return refuse(
        fmt::format("the two sides have types {} and {}: write a cast", type_name(type), type_name(b.e->type)));
  bool logical = kind == ExprKind::kAnd || kind == ExprKind::kOr;
  bool equality = kind == ExprKind::kEq || kind == ExprKind::kNe;
  bool index_only = kind == ExprKind::kFloorDiv || kind == ExprKind::kFloorMod;
  if (logical ? type != Type::kBool : !(is_arithmetic(type) || (equality && type == Type::kBool)))
    return refuse(fmt::format("no such operator on {}", type_name(type)));
  if (index_only && type != Type::kI64) return refuse("// and % are for index arithmetic (i64); use / on data");
  if (index_only && is_int(b.e, 0)) return refuse("division by zero");
  if (type == Type::kI64) {
    double bound = kind == ExprKind::kMul ? magnitude(a.e) * magnitude(b.e) : magnitude(a.e) + magnitude(b.e);
    size_t terms = kind == ExprKind::kMul ? term_count(a.e) * term_count(b.e) : term_count(a.e) + term_count(b.e);
    if (bound > kMaxMagnitude) return refuse("index arithmetic overflows");
    if (terms > kMaxTerms) return refuse("the index expression has too many terms");
  }
  int height = 1 + std::max(a.height, b.height);
  if (height > kMaxHeight) return refuse(fmt::format("an expression of at most {} levels is allowed here", kMaxHeight));
  return {builder_.binary(kind, a.e, b.e), height};
}

Parser::Value Parser::unary() {
  if (pending_) return std::exchange(pending_, Value{});
  size_t offset = peek().offset;
  if (is("-") && (peek(1).kind == TokenKind::kInteger || peek(1).kind == TokenKind::kReal)) {
    ++at_;
    return number(true);
  }
  if (!is("-") && !is("!")) return primary();
  Nesting nesting(*this);
  bool negate = is("-");
  ++at_;
  Value a = nesting ? unary() : Value{};
  if (!a) return a;
  if (!negate) {
    if (a.e->type == Type::kBool) return {builder_.logical_not(a.e), a.height + 1};
    problem(offset, "'!' needs a bool");
    return {};
  }
  if (!is_arithmetic(a.e->type)) {
    problem(offset, "'-' needs a number");
    return {};
  }
  if (const FloatConst* c = as<FloatConst>(a.e)) return {builder_.real(-c->value, c->type), 1};
  return combine(ExprKind::kMul, {builder_.constant(-1, a.e->type), 1}, a, offset);
}

Parser::Value Parser::number(bool negative) {
  const Token& t = peek();
  bool real = t.kind == TokenKind::kReal;
  Type type = real ? Type::kF32 : Type::kI64;
  if (!t.suffix.empty()) {
    auto given = type_from(t.suffix);
    if (!given || !is_arithmetic(*given) || (real && !is_float(*given))) {
      problem(t.offset, fmt::format("expected a number with a type suffix that fits, found '{}{}'", t.text,
                                    sanitize(t.suffix, 40)));
      return {};
    }
    type = *given;
  }
  if (is_float(type)) {
    double value = 0;
    auto end = std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
    if (end.ec != std::errc() && end.ec != std::errc::result_out_of_range) fail("a number");
    if (end.ec == std::errc::result_out_of_range || (type == Type::kF32 && std::abs(value) > 3.4028235677973366e38)) {
      problem(t.offset, fmt::format("the number does not fit {}", type_name(type)));
      return {};
    }
    ++at_;
    return {builder_.real(negative ? -value : value, type), 1};
  }
  uint64_t digits = 0;
  bool ok = std::from_chars(t.text.data(), t.text.data() + t.text.size(), digits).ec == std::errc();
  const int bits = 8 * static_cast<int>(type_bytes(type)) - (is_unsigned(type) ? 0 : 1);
  uint64_t most = is_integer(type) ? (uint64_t{1} << bits) - 1 : std::numeric_limits<int64_t>::max();
  if (negative) most = is_unsigned(type) ? 0 : most + 1;
  if (!ok || digits > most) {
    problem(t.offset, fmt::format("the number does not fit {}", type_name(type)));
    return {};
  }
  ++at_;
  return {builder_.integer(static_cast<int64_t>(negative ? uint64_t{0} - digits : digits), type), 1};
}

Parser::Value Parser::primary() {
  const Token& t = peek();
  if (t.kind == TokenKind::kInteger || t.kind == TokenKind::kReal) return number(false);
  if (is("(")) return parenthesised();
  if (t.kind != TokenKind::kWord) {
    fail("an expression");
    return {};
  }
  if (accept("true")) return {builder_.boolean(true), 1};
  if (accept("false")) return {builder_.boolean(false), 1};
  if (is("(", 1)) return call(t.text);
  for (Type type : {Type::kF32, Type::kF64, Type::kF16, Type::kBF16}) {
    std::string suffix = type == Type::kF32 ? "" : "_" + std::string(type_name(type));
    if (accept("inf" + suffix)) return {builder_.real(std::numeric_limits<double>::infinity(), type), 1};
    if (accept("nan" + suffix)) return {builder_.real(std::numeric_limits<double>::quiet_NaN(), type), 1};
  }
  const Name* name = lookup(t.text);
  if (name == nullptr) {
    std::vector<std::string> known;
    for (const auto& [word, entry] : names_) known.push_back(word);
    std::sort(known.begin(), known.end());
    fail_word("a variable, buffer or function that is known here", known);
    return {};
  }
  ++at_;
  if (name->buffer != nullptr) return load(*name, false);
  return {builder_.var(name->id, name->type), 1};
}

Parser::Value Parser::parenthesised() {
  ++at_;
  const Name* name = is_word() && is("[", 1) ? lookup(peek().text) : nullptr;
  if (name != nullptr && name->buffer != nullptr) {
    // A predicated load, or an expression that starts with a load.
    Nesting nesting(*this);
    ++at_;
    Value first = nesting ? load(*name, true) : Value{};
    if (!first || accept(")")) return first;
    pending_ = first;
    Value whole = binary(kOr);
    if (!whole || !expect(")")) return {};
    return whole;
  }
  Value v = expression();
  if (!v || !expect(")")) return {};
  return v;
}

bool Parser::indices(const Buffer& buffer, std::vector<Expr>& out, int& height) {
  size_t offset = peek().offset;
  if (!expect("[")) return false;
  while (!is("]")) {
    Value v = typed_expression(Type::kI64, "an index");
    if (!v) return false;
    height = std::max(height, v.height);
    out.push_back(v.e);
    if (!accept(",")) break;
  }
  if (!expect("]")) return false;
  if (out.size() == buffer.shape.size()) return true;
  return problem(offset, fmt::format("expected {} indices, found {}", buffer.shape.size(), out.size()));
}

Parser::Value Parser::load(const Name& name, bool in_parentheses) {
  const Buffer& buffer = *name.buffer;
  std::vector<Expr> at;
  int height = 0;
  size_t offset = peek().offset;
  if (!indices(buffer, at, height)) return {};
  if (!is_data(buffer.type)) {
    problem(offset, fmt::format("a buffer of {} cannot be loaded", type_name(buffer.type)));
    return {};
  }
  if (!in_parentheses || !accept("where")) return {builder_.load(buffer, at), height + 1};
  Value predicate = typed_expression(Type::kBool, "a predicate");
  if (!predicate || !expect("else")) return {};
  Value other = typed_expression(buffer.type, "the value where the predicate is false");
  if (!other) return {};
  return {builder_.load(buffer, at, predicate.e, other.e), 1 + std::max({height, predicate.height, other.height})};
}

bool Parser::arguments(std::vector<Value>& args) {
  if (!expect("(")) return false;
  while (!is(")")) {
    Value v = expression();
    if (!v) return false;
    args.push_back(v);
    if (!accept(",")) break;
  }
  return expect(")");
}

Parser::Value Parser::call(std::string_view word) {
  size_t offset = peek().offset;
  auto refuse = [&](std::string message) {
    problem(offset, std::move(message));
    return Value{};
  };
  std::optional<Intrinsic> fn;
#define TCC_X(name, text, arity) \
  if (word == text) fn = Intrinsic::k##name;
  TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
  std::optional<Type> type = type_from(word);
  bool extremum = word == "min" || word == "max";
  if (!fn && !type && !extremum && word != "select") {
    std::vector<std::string> known = {"min", "max", "select"};
    for (Type t : kDataTypes) known.emplace_back(type_name(t));
#define TCC_X(name, text, arity) known.emplace_back(text);
    TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
    fail_word("a function", known);
    return {};
  }
  ++at_;
  std::vector<Value> args;
  if (!arguments(args)) return {};
  size_t arity = fn ? static_cast<size_t>(intrinsic_arity(*fn)) : type ? 1 : extremum ? 2 : 3;
  if (args.size() != arity) return refuse(fmt::format("{} takes {} arguments, found {}", word, arity, args.size()));
  int height = 0;
  for (const Value& v : args) height = std::max(height, v.height + 1);
  if (height > kMaxHeight) return refuse("the expression is too deep");
  if (extremum) return combine(word == "min" ? ExprKind::kMin : ExprKind::kMax, args[0], args[1], offset);
  if (type) {
    if (!is_data(*type)) return refuse(fmt::format("nothing can be cast to {}", word));
    return {builder_.cast(args[0].e, *type), height};
  }
  if (!fn) {
    if (args[0].e->type != Type::kBool) return refuse("select needs a bool first");
    if (args[1].e->type != args[2].e->type) return refuse("the two values of select differ in type");
    return {builder_.select(args[0].e, args[1].e, args[2].e), height};
  }
  std::vector<Expr> values;
  for (const Value& v : args) {
    const bool fits = takes_bits(*fn) ? is_integer(v.e->type) : is_float(v.e->type);
    if (!fits || v.e->type != args[0].e->type)
      return refuse(
          fmt::format("{} needs {} arguments of one type", word, takes_bits(*fn) ? "integer" : "floating point"));
    values.push_back(v.e);
  }
  return {builder_.call(*fn, values), height};
}

}  // namespace tcc::ir
