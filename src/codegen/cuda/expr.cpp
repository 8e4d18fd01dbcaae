// Expressions of a launch as CUDA C++ text.
#include <bit>
#include <cmath>
#include <utility>

#include "codegen/cuda/address.h"
#include "codegen/cuda/emitter.h"
#include "tcc/analysis/gelu.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/integer_range.h"
#include "tcc/ir/kinds.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"

namespace tcc::codegen::cuda {

using namespace ir;

std::string memory_type(Type type) {
  switch (type) {
    case Type::kBool:
    case Type::kU8:
      return "unsigned char";
    case Type::kI8:
      return "signed char";
    case Type::kI16:
      return "short";
    case Type::kU16:
      return "unsigned short";
    case Type::kI32:
      return "int";
    case Type::kI64:
      return "long long";
    case Type::kF16:
    case Type::kBF16:
      return "unsigned short";
    case Type::kF32:
      return "float";
    case Type::kF64:
      return "double";
    case Type::kBarrier:
      return "unsigned long long";
    case Type::kTensorMap:
      return "unsigned char";
  }
  return "";
}

std::string value_type(Type type) {
  if (type == Type::kBool) return "bool";
  if (type == Type::kF16 || type == Type::kBF16) return "float";
  return memory_type(type);
}

std::string Emitter::from_memory(Type type, std::string value) const {
  if (type == Type::kF16) return "tcc_from_f16(" + value + ")";
  if (type == Type::kBF16) return "tcc_from_bf16(" + value + ")";
  if (type == Type::kBool) return "(" + value + " != 0)";
  return value;
}

namespace {

const char* from_function(Type type) {
  return type == Type::kF16 ? "tcc_from_f16" : "tcc_from_bf16";
}

// x of "<function>(x)"; "" for another text.
std::string argument_of(const std::string& text, const std::string& function) {
  if (text.size() < function.size() + 2 || text.compare(0, function.size() + 1, function + "(") != 0) return "";
  int depth = 0;
  for (size_t i = function.size(); i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0)
      return i + 1 == text.size() ? text.substr(function.size() + 1, i - function.size() - 1) : "";
  }
  return "";
}

}  // namespace

// A value that was only moved keeps its bits; one that was rounded is not rounded twice.
std::string Emitter::to_memory(Type type, std::string value) const {
  const char* from = type == Type::kF16 ? "tcc_from_f16" : type == Type::kBF16 ? "tcc_from_bf16" : "";
  if (std::string bits = argument_of(value, from); *from != 0 && !bits.empty()) return bits;
  const char* round = type == Type::kF16 ? "tcc_round_f16" : type == Type::kBF16 ? "tcc_round_bf16" : "";
  if (std::string exact = argument_of(value, round); *round != 0 && !exact.empty()) value = std::move(exact);
  if (type == Type::kF16) return "tcc_to_f16(" + value + ")";
  if (type == Type::kBF16) return "tcc_to_bf16(" + value + ")";
  if (type == Type::kBool) return "(" + value + " ? 1 : 0)";
  return value;
}

// The bits of a value of 16 bits that is only moved: loads and constants, and choices between them; "": it is computed.
std::string Emitter::moved_bits(Expr e) {
  if (e->type != Type::kF16 && e->type != Type::kBF16) return "";
  if (const FloatConst* c = as<FloatConst>(e)) return c->value == 0 && !std::signbit(c->value) ? "0" : "";
  if (const Unary* widened = e->kind == ExprKind::kCast ? as<Unary>(as<Unary>(e)->a) : nullptr)
    return widened->kind == ExprKind::kCast && widened->type == Type::kF32 && widened->a->type == e->type
               ? moved_bits(widened->a)
               : "";
  if (const Select* s = as<Select>(e)) {
    const std::string a = moved_bits(s->a), b = moved_bits(s->b);
    return a.empty() || b.empty() ? "" : fmt::format("({} ? {} : {})", expr(s->condition), a, b);
  }
  const Load* l = as<Load>(e);
  if (l == nullptr) return "";
  if (vector_loads_.contains(l) || scalars_.contains(l->buffer) || l->predicate == nullptr)
    return argument_of(load(*l), from_function(e->type));
  const std::string bits = fmt::format("{}[{}]", name(l->buffer), address(buffer(l->buffer), l->indices));
  Expr predicate = analysis::simplify(b_, l->predicate, ranges_);
  if (is_int(predicate, 1)) return bits;
  const std::string other = moved_bits(l->other);
  return other.empty() ? "" : fmt::format("({} ? {} : {})", expr(predicate), bits, other);
}

// A value as a buffer of the type holds it.
std::string Emitter::stored(Type type, Expr value) {
  if (value->type == type)
    if (std::string bits = moved_bits(value); !bits.empty()) return bits;
  return to_memory(type, expr(value));
}

std::string Emitter::rounded(Type type, std::string value) const {
  if (type == Type::kF16) return "tcc_round_f16(" + value + ")";
  if (type == Type::kBF16) return "tcc_round_bf16(" + value + ")";
  if (is_integer(type) && type_bytes(type) < 4) return "((" + memory_type(type) + ")" + value + ")";
  return value;
}

std::string Emitter::integer(int64_t value, Type type) const {
  if (type == Type::kBool) return value != 0 ? "true" : "false";
  if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";
  if (type == Type::kI32 && value == INT32_MIN) return "(-2147483647 - 1)";
  std::string text = std::to_string(value);
  if (type == Type::kI64 && (value > INT32_MAX || value < -INT32_MAX)) text += "LL";
  return value < 0 ? "(" + text + ")" : text;
}

// An index value is an int where the sum of the magnitudes of its parts provably fits, else a long long; so each of its
// parts is an int as far as that fits.
bool Emitter::is_wide(Expr e) {
  if (e->type != Type::kI64) return false;
  auto magnitude = [&](Expr x) -> double {
    const Interval r = ranges_.bounds(x);
    return std::max(std::fabs(static_cast<double>(r.low)), std::fabs(static_cast<double>(r.high)));
  };
  double total = 0;
  if (const Sum* s = as<Sum>(e)) {
    total = std::fabs(static_cast<double>(s->constant));
    for (const Term& t : s->terms) total += std::fabs(static_cast<double>(t.coefficient)) * magnitude(t.atom);
  } else if (const Prod* p = as<Prod>(e)) {
    total = 1;
    for (Expr f : p->factors) total *= std::max(1.0, magnitude(f));
  } else {
    total = magnitude(e);
  }
  return !(total <= INT32_MAX);
}

std::string Emitter::index_type(Expr a, Expr b) {
  return is_wide(a) || is_wide(b) ? "long long" : "int";
}

std::string Emitter::expr(Expr e) {
  switch (e->kind) {
    case ExprKind::kIntConst:
      return integer(int_value(e), e->type);
    case ExprKind::kFloatConst: {
      const double v = as<FloatConst>(e)->value;
      if (e->type == Type::kF64) return fmt::format("tcc_f64_bits(0x{:x}LL) /* {} */", std::bit_cast<uint64_t>(v), v);
      if (!std::isfinite(v))
        return fmt::format("tcc_f32_bits(0x{:x}u)", std::bit_cast<uint32_t>(static_cast<float>(v)));
      std::string text = fmt::format("{:.9g}", v);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return v < 0 || std::signbit(v) ? "(" + text + "f)" : text + "f";
    }
    case ExprKind::kVar: {
      auto found = variables_.find(as<Var>(e)->id);
      if (found == variables_.end()) {
        fail(fmt::format("the run-time scalar '{}' has no value in CUDA code", name_hint(kernel_, as<Var>(e)->id)));
        return "0";
      }
      return found->second;
    }
    case ExprKind::kSum:
      return sum(*as<Sum>(e));
    case ExprKind::kProd:
      return product(*as<Prod>(e));
    case TCC_BINARY_KINDS:
      return binary(*as<Binary>(e));
    case ExprKind::kNot:
      return "!" + expr(as<Unary>(e)->a);
    case ExprKind::kCast:
      return cast(*as<Unary>(e));
    case ExprKind::kSelect:
      return select(*as<Select>(e));
    case ExprKind::kLoad:
      return load(*as<Load>(e));
    case ExprKind::kCall:
      return call(*as<Call>(e));
  }
  return "";
}

// In front of each term of a sum that may wrap around: C++ does not define what signed numbers do then. Sums that are
// addresses do not, because they are inside of a tensor.
constexpr const char* kUnsigned = "(unsigned long long)";

std::string Emitter::sum(const Sum& e) {
  const bool wide = is_wide(&e), wraps = wide && !in_address_ && reads_tensor(&e);
  std::string text;
  for (const Term& t : e.terms) {
    const bool minus = t.coefficient < 0;
    const int64_t magnitude = std::abs(t.coefficient);
    // The first term makes the additions wide, and each product by itself.
    const char* widened = wraps                                                          ? kUnsigned
                          : wide && (text.empty() || magnitude != 1) && !is_wide(t.atom) ? "(long long)"
                                                                                         : "";
    text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
    if (magnitude != 1) text += integer(magnitude, Type::kI64) + " * ";
    text += widened + expr(t.atom);
  }
  if (e.constant > 0) text += (text.empty() ? "" : " + ") + integer(e.constant, Type::kI64);
  if (e.constant < 0) text += (text.empty() ? "-" : " - ") + integer(-e.constant, Type::kI64);
  return (wraps ? "(long long)(" : "(") + text + ")";
}

std::string Emitter::product(const Prod& e) {
  const bool wide = is_wide(&e), wraps = wide && !in_address_ && reads_tensor(&e);
  std::string text;
  for (Expr f : e.factors) {
    if (!text.empty()) text += " * ";
    text += (wraps ? kUnsigned : text.empty() && wide && !is_wide(f) ? "(long long)" : "") + expr(f);
  }
  return (wraps ? "(long long)(" : "(") + text + ")";
}

std::string Emitter::quotient(const Binary& e) {
  const bool plain = ranges_.bounds(e.a).low >= 0 && ranges_.bounds(e.b).low > 0;
  const std::string x = expr(e.a), y = expr(e.b), computed = index_type(e.a, e.b);
  // A quotient or rest that fits in an int goes on as one.
  const std::string type = is_wide(&e) ? "long long" : "int";
  if (!plain) {
    const char* function = e.kind == ExprKind::kFloorDiv ? "tcc_floor_div" : "tcc_floor_mod";
    return fmt::format("{}{}<{}>({}, {})", type == computed ? "" : "(" + type + ")", function, computed, x, y);
  }
  const char op = e.kind == ExprKind::kFloorDiv ? '/' : '%';
  const char* as_unsigned = computed == "int" ? "(unsigned)" : "(unsigned long long)";
  return fmt::format("({})({}{} {} {}{})", type, as_unsigned, x, op, as_unsigned, y);
}

std::string Emitter::arithmetic(const Binary& e, char op) {
  if (const std::optional<analysis::Gelu> gelu = coarse_ && op == '*' ? analysis::match_gelu(&e) : std::nullopt) {
    std::string text = "tcc_gelu_near(" + expr(gelu->x) + ")";
    if (gelu->scale != 1) text += fmt::format(" * (float){:.17g}", gelu->scale);
    for (Expr factor : gelu->rest) text += " * " + expr(factor);
    return "(" + text + ")";
  }
  const std::string x = expr(e.a), y = expr(e.b);
  if (e.type == Type::kI64) return fmt::format("((long long){} {} {})", x, op, y);
  if (e.type == Type::kI32 && op != '/') return fmt::format("((int)((unsigned){} {} (unsigned){}))", x, op, y);
  return rounded(e.type, fmt::format("({} {} {})", x, op, y));
}

std::string Emitter::binary(const Binary& e) {
  switch (e.kind) {
    case ExprKind::kFloorDiv:
    case ExprKind::kFloorMod:
      return quotient(e);
    case ExprKind::kMin:
    case ExprKind::kMax:
      return min_max(e);
    case ExprKind::kAdd:
      return arithmetic(e, '+');
    case ExprKind::kSub:
      return arithmetic(e, '-');
    case ExprKind::kMul:
      return arithmetic(e, '*');
    case ExprKind::kDiv:
      return arithmetic(e, '/');
    case ExprKind::kLt:
      return fmt::format("({} < {})", expr(e.a), expr(e.b));
    case ExprKind::kLe:
      return fmt::format("({} <= {})", expr(e.a), expr(e.b));
    case ExprKind::kEq:
      return fmt::format("({} == {})", expr(e.a), expr(e.b));
    case ExprKind::kNe:
      return fmt::format("({} != {})", expr(e.a), expr(e.b));
    case ExprKind::kAnd:
      return fmt::format("({} && {})", expr(e.a), expr(e.b));
    case ExprKind::kOr:
      return fmt::format("({} || {})", expr(e.a), expr(e.b));
    case TCC_OTHER_KINDS:
      break;
  }
  TCC_UNREACHABLE("not a binary kind");
}

std::string Emitter::min_max(const Binary& e) {
  const bool smaller = e.kind == ExprKind::kMin;
  const std::string x = expr(e.a), y = expr(e.b);
  if (is_float(e.type)) return fmt::format("{}({}, {})", smaller ? "tcc_fmin" : "tcc_fmax", x, y);
  const std::string type = e.type == Type::kI64 ? index_type(e.a, e.b) : value_type(e.type);
  return fmt::format("{}<{}>({}, {})", smaller ? "tcc_min" : "tcc_max", type, x, y);
}

std::string Emitter::cast(const Unary& e) {
  const Type from = e.a->type, to = e.type;
  const bool coarse = coarse_;
  coarse_ = coarse || (from == Type::kF32 && (to == Type::kF16 || to == Type::kBF16));
  const std::string x = expr(e.a);
  coarse_ = coarse;
  if (to == Type::kBool) return fmt::format("({} != 0)", x);
  if (is_float(to)) return rounded(to, fmt::format("(({}){})", value_type(to), x));
  if (!is_float(from)) return fmt::format("(({}){})", value_type(to), x);
  // The conversion instructions saturate to 32 and 64 bits by themselves and turn NaN into 0.
  if (to == Type::kI64) return fmt::format("tcc_to_i64({})", x);
  if (to == Type::kI32) return fmt::format("tcc_to_i32({})", x);
  const auto [low, high] = integer_range(to);
  return fmt::format("(({})tcc_max(tcc_min(tcc_to_i32({}), {}), {}))", memory_type(to), x, high, low);
}

std::string Emitter::select(const Select& e) {
  return fmt::format("({} ? {} : {})", expr(e.condition), expr(e.a), expr(e.b));
}

std::string Emitter::load(const Load& e) {
  if (auto found = vector_loads_.find(&e); found != vector_loads_.end()) {
    const VectorLoad& v = found->second;
    return from_memory(e.type, fmt::format("{}_{}.v[{}]", v.name, lane_ / v.width, lane_ % v.width));
  }
  const Buffer& source = buffer(e.buffer);
  std::string value = from_memory(e.type, scalars_.contains(e.buffer)
                                              ? name(e.buffer) + "_value"
                                              : fmt::format("{}[{}]", name(e.buffer), address(source, e.indices)));
  if (e.predicate == nullptr) return value;
  Expr predicate = analysis::simplify(b_, e.predicate, ranges_);
  if (is_int(predicate, 1)) return value;
  return fmt::format("({} ? {} : {})", expr(predicate), value, expr(e.other));
}

namespace {
const char* operator_of_bits(Intrinsic fn) {
  switch (fn) {
    case Intrinsic::kBitAnd:
      return "&";
    case Intrinsic::kBitOr:
      return "|";
    case Intrinsic::kBitXor:
      return "^";
    case Intrinsic::kShiftLeft:
      return "<<";
    default:
      return ">>";
  }
}
}  // namespace

std::string Emitter::call(const Call& e) {
  std::string args;
  for (Expr a : e.args) args += (args.empty() ? "" : ", ") + expr(a);
  if (takes_bits(e.fn)) {
    // Through the widest type: the text of an i64 that is small may be an int.
    return rounded(e.type, fmt::format("((long long)({}) {} (long long)({}))", expr(e.args[0]), operator_of_bits(e.fn),
                                       expr(e.args[1])));
  }
  if (!is_float(e.type)) {
    if (e.fn != Intrinsic::kAbs)
      fail(fmt::format("{} of {} has no CUDA form", intrinsic_name(e.fn), type_name(e.type)));
    return rounded(e.type, fmt::format("({0} < 0 ? -{0} : {0})", args));
  }
  const char* near = e.fn == Intrinsic::kErf && e.type == Type::kF32 && coarse_ ? "_near" : "";
  return rounded(e.type, fmt::format("tcc_{}{}({})", intrinsic_name(e.fn), near, args));
}

std::string Emitter::address(const Buffer& source, std::span<const Expr> indices) {
  Expr flat = flat_address(b_, source, indices);
  const bool inside = std::exchange(in_address_, true);
  std::string text = expr(flat);
  in_address_ = inside;
  if (source.layout != nullptr)
    for (const XorField& x : source.layout->xors)
      text = fmt::format("tcc_xor<{}>({}, {}, {}, {})", is_wide(flat) ? "long long" : "int", text, x.from_shift, x.mask,
                         x.to_shift);
  return text;
}

}  // namespace tcc::codegen::cuda
