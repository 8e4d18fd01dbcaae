// The printer. The grammar is described in parse.cpp.
//
// Canonical index expressions are ordered by ids, which parsing renumbers. The printer therefore orders sums, products,
// and the sides of symmetric comparisons by their text, so that printing a parsed kernel gives the same bytes.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "ir/text_words.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/kinds.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::ir {
namespace {

std::string float_text(double value, Type type) {
  std::string suffix = type == Type::kF32 ? "" : std::string(type_name(type));
  if (std::isnan(value)) return suffix.empty() ? "nan" : "nan_" + suffix;
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (suffix.empty() ? "inf" : "inf_" + suffix);
  bool narrow = static_cast<double>(static_cast<float>(value)) == value;
  std::string digits = narrow ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits + suffix;
}

std::string int_text(int64_t value, Type type) {
  if (type == Type::kBool) return value != 0 ? "true" : "false";
  return fmt::format("{}{}", value, type == Type::kI64 ? std::string_view() : type_name(type));
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) { name_all(); }

  std::string expr(Expr e, int at_least = 0) {
    int precedence = kPrimary;
    std::string text = bare(e, precedence);
    return precedence < at_least ? "(" + text + ")" : text;
  }

  void stmt(Stmt s, int depth);
  void kernel();
  std::string take() { return std::move(out_); }

 private:
  struct TextTerm {
    int64_t coefficient;
    std::string text;
    std::string tight;  // under a factor or a sign: "-(i // 4)" is not "-i // 4"
  };
  TextTerm term(Expr atom, int64_t coefficient) {
    int precedence = kPrimary;
    std::string text = bare(atom, precedence);
    bool loose = precedence < kUnary && atom->kind != ExprKind::kProd;
    return {coefficient, text, loose ? "(" + text + ")" : text};
  }

  void name_all() {
    for (const Scalar& s : kernel_.scalars) name(s.id);
    for (const Buffer* b : kernel_.buffers) name(b->id);
    if (kernel_.root == nullptr) return;
    visit(kernel_.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) name(l->id);
      if (const Block* b = as<Block>(s)) {
        name(b->id, labels_);
        for (const Iter& it : b->iters) name(it.id);
      }
      return true;
    });
  }

  const std::string& name(Id id) { return name(id, taken_); }
  // `taken`: the names that this one must differ from. Labels of blocks differ from each other only.
  const std::string& name(Id id, std::unordered_set<std::string>& taken) {
    auto found = names_.find(id);
    if (found != names_.end()) return found->second;
    std::string hint;
    for (char c : name_hint(kernel_, id)) hint += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    // A suffix makes no name of these: nan_1 is a number, too.
    const bool is_number = hint == "inf" || hint == "nan" || hint.starts_with("inf_") || hint.starts_with("nan_");
    if (hint.empty() || is_number || std::isdigit(static_cast<unsigned char>(hint[0]))) hint = "v" + hint;
    std::string unique = hint;
    const bool label = &taken == &labels_;
    for (int n = 1; (!label && is_reserved(unique)) || !taken.insert(unique).second; ++n)
      unique = fmt::format("{}_{}", hint, n);
    return names_.emplace(id, unique).first->second;
  }

  void collect(Expr e, int64_t sign, std::vector<TextTerm>& terms, int64_t& constant) {
    if (const IntConst* c = as<IntConst>(e)) {
      constant += sign * c->value;
    } else if (const Sum* s = as<Sum>(e)) {
      constant += sign * s->constant;
      for (const Term& t : s->terms) terms.push_back(term(t.atom, sign * t.coefficient));
    } else {
      terms.push_back(term(e, sign));
    }
  }
  static void sort_terms(std::vector<TextTerm>& terms) {
    std::sort(terms.begin(), terms.end(), [](const TextTerm& a, const TextTerm& b) {
      uint64_t x = magnitude(a.coefficient), y = magnitude(b.coefficient);
      return x != y ? x > y : a.text < b.text;
    });
  }
  static uint64_t magnitude(int64_t v) {
    return v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  }

  // terms + constant, positive ones first, and how tightly the text binds.
  static std::string join_terms(std::vector<TextTerm> terms, int64_t constant, int& precedence) {
    std::stable_partition(terms.begin(), terms.end(), [](const TextTerm& t) { return t.coefficient > 0; });
    std::string text;
    bool leading = constant > 0 && !terms.empty() && terms.front().coefficient < 0;  // "63 - t"
    if (leading) text = fmt::format("{}", constant);
    for (const TextTerm& t : terms) {
      if (!text.empty())
        text += t.coefficient < 0 ? " - " : " + ";
      else if (t.coefficient < 0)
        text += "-";
      if (t.coefficient == 1)
        text += t.text;
      else if (t.coefficient == -1)
        text += t.tight;
      else
        text += fmt::format("{}*{}", t.tight, magnitude(t.coefficient));
    }
    if (text.empty()) {
      precedence = constant < 0 ? kUnary : kPrimary;
      return fmt::format("{}", constant);
    }
    if (constant != 0 && !leading) text += fmt::format(" {} {}", constant < 0 ? '-' : '+', magnitude(constant));
    precedence = terms.size() > 1 || constant != 0 ? kAdditive : kMultiplicative;
    return text;
  }

  std::string symmetric_comparison(const Binary* e);
  std::string list(std::span<const Expr> items) {
    std::string text;
    for (Expr i : items) text += (text.empty() ? "" : ", ") + expr(i);
    return text;
  }
  std::string bare(Expr e, int& precedence);
  std::string binary(const Binary* e, int& precedence);
  std::string load(const Load* l) {
    std::string text = fmt::format("{}[{}]", name(l->buffer), list(l->indices));
    if (l->predicate == nullptr) return text;
    return fmt::format("({} where {} else {})", text, expr(l->predicate), expr(l->other));
  }

  void line(int depth, std::string_view text) { out_ += fmt::format("{:{}}{}\n", "", depth * 2, text); }
  std::string annotations(std::span<const Annotation> list) {
    std::string text;
    for (const Annotation& a : list) text += fmt::format(" @{}({})", annotation_name(a.key), expr(a.value));
    return text;
  }
  void block(const Block* b, int depth);
  void declare(const Buffer* b);
  void declare(const Scalar& s);

  const Kernel& kernel_;
  std::unordered_map<Id, std::string> names_;
  std::unordered_set<std::string> taken_, labels_;  // labels_: of blocks
  std::string out_;
};

// Both orientations of an i64 equation are the same polynomial; the first term in text order goes left.
std::string Printer::symmetric_comparison(const Binary* e) {
  std::vector<TextTerm> terms, left, right;
  int64_t constant = 0;
  collect(e->a, 1, terms, constant);
  collect(e->b, -1, terms, constant);
  sort_terms(terms);
  bool flip = !terms.empty() && terms.front().coefficient < 0;
  for (TextTerm& t : terms) {
    if (flip) t.coefficient = -t.coefficient;
    if (t.coefficient > 0) {
      left.push_back(t);
    } else {
      right.push_back({-t.coefficient, t.text, t.tight});
    }
  }
  int precedence = 0;
  std::string a = join_terms(left, 0, precedence), b = join_terms(right, flip ? constant : -constant, precedence);
  return fmt::format("{} {} {}", a, operator_of(e->kind)->text, b);
}

std::string Printer::binary(const Binary* e, int& precedence) {
  bool index = e->a->type == Type::kI64;
  const Operator* op = operator_of(e->kind);
  if (op == nullptr) {
    std::string a = expr(e->a), b = expr(e->b);
    if (index && b < a) std::swap(a, b);
    return fmt::format("{}({}, {})", e->kind == ExprKind::kMin ? "min" : "max", a, b);
  }
  precedence = op->precedence;
  if (index && (e->kind == ExprKind::kEq || e->kind == ExprKind::kNe)) return symmetric_comparison(e);
  int left = precedence == kCompare ? kAdditive : precedence;
  return fmt::format("{} {} {}", expr(e->a, left), op->text, expr(e->b, precedence + 1));
}

std::string Printer::bare(Expr e, int& precedence) {
  switch (e->kind) {
    case ExprKind::kIntConst: {
      if (int_value(e) < 0) precedence = kUnary;
      return int_text(int_value(e), e->type);
    }
    case ExprKind::kFloatConst: {
      std::string text = float_text(as<FloatConst>(e)->value, e->type);
      if (text[0] == '-') precedence = kUnary;
      return text;
    }
    case ExprKind::kVar:
      return name(as<Var>(e)->id);
    case ExprKind::kSum: {
      std::vector<TextTerm> terms;
      int64_t constant = 0;
      collect(e, 1, terms, constant);
      sort_terms(terms);
      return join_terms(terms, constant, precedence);
    }
    case ExprKind::kProd: {
      std::vector<std::string> factors;
      for (Expr f : as<Prod>(e)->factors) factors.push_back(expr(f, kUnary));
      std::sort(factors.begin(), factors.end());
      precedence = kMultiplicative;
      std::string text;
      for (const std::string& f : factors) text += (text.empty() ? "" : "*") + f;
      return text;
    }
    case ExprKind::kNot:
      precedence = kUnary;
      return "!" + expr(as<Unary>(e)->a, kUnary);
    case ExprKind::kCast:
      return fmt::format("{}({})", type_name(e->type), expr(as<Unary>(e)->a));
    case ExprKind::kSelect: {
      const Select* s = as<Select>(e);
      return fmt::format("select({}, {}, {})", expr(s->condition), expr(s->a), expr(s->b));
    }
    case ExprKind::kLoad:
      return load(as<Load>(e));
    case ExprKind::kCall:
      return fmt::format("{}({})", intrinsic_name(as<Call>(e)->fn), list(as<Call>(e)->args));
    case TCC_BINARY_KINDS:
      return binary(as<Binary>(e), precedence);
  }
  return "";
}

void Printer::block(const Block* b, int depth) {
  std::string iters;
  for (const Iter& it : b->iters) {
    iters += fmt::format("{}{}: {} {} = {}", iters.empty() ? "" : ", ", name(it.id), iter_kind_name(it.kind),
                         expr(it.extent), expr(it.binding));
  }
  std::string head = fmt::format("block {}({})", name(b->id), iters);
  if (b->reducer != ReducerKind::kNone) head += fmt::format(" reduce({})", reducer_name(b->reducer));
  if (b->predicate != nullptr) head += " where " + expr(b->predicate);
  line(depth, head + annotations(b->annotations) + " {");
  if (b->init != nullptr) {
    line(depth + 1, "init {");
    stmt(b->init, depth + 2);
    line(depth + 1, "}");
  }
  stmt(b->body, depth + 1);
  line(depth, "}");
}

void Printer::stmt(Stmt s, int depth) {
  auto where = [&](Expr predicate) { return predicate == nullptr ? std::string() : " where " + expr(predicate); };
  switch (s->kind) {
    case StmtKind::kSeq:
      for (Stmt t : as<Seq>(s)->stmts) stmt(t, depth);
      return;
    case StmtKind::kLoop: {
      const Loop* l = as<Loop>(s);
      std::string kind;
      if (l->loop_kind == LoopKind::kBound)
        kind = fmt::format(" bound({})", axis_name(l->axis));
      else if (l->loop_kind != LoopKind::kSerial)
        kind = fmt::format(" {}", loop_kind_name(l->loop_kind));
      line(depth, fmt::format("for {} in {}{}{} {{", name(l->id), expr(l->extent), kind, annotations(l->annotations)));
      stmt(l->body, depth + 1);
      line(depth, "}");
      return;
    }
    case StmtKind::kBlock:
      return block(as<Block>(s), depth);
    case StmtKind::kStore: {
      const Store* st = as<Store>(s);
      line(depth,
           fmt::format("{}[{}] = {}{}", name(st->buffer), list(st->indices), expr(st->value), where(st->predicate)));
      return;
    }
    case StmtKind::kIf: {
      const If* i = as<If>(s);
      line(depth, fmt::format("if {} {{", expr(i->condition)));
      stmt(i->then_case, depth + 1);
      if (i->else_case != nullptr) {
        line(depth, "} else {");
        stmt(i->else_case, depth + 1);
      }
      line(depth, "}");
      return;
    }
    case StmtKind::kAlloc: {
      std::string buffers;
      for (Id id : as<Alloc>(s)->buffers) buffers += (buffers.empty() ? "" : ", ") + name(id);
      line(depth, fmt::format("alloc {} {{", buffers));
      stmt(as<Alloc>(s)->body, depth + 1);
      line(depth, "}");
      return;
    }
    case StmtKind::kInstrCall: {
      const InstrCall* c = as<InstrCall>(s);
      std::string operands;
      for (const Operand& o : c->operands)
        operands += fmt::format("{}{}[{}]", operands.empty() ? "" : ", ", name(o.buffer), list(o.indices));
      std::string args = c->args.empty() ? "" : "; " + list(c->args);
      line(depth, fmt::format("instr {}({}{}){}", instruction(c->instr).name, operands, args, where(c->predicate)));
      return;
    }
    case StmtKind::kRoles:
      line(depth, "roles {");
      for (const Role& r : as<Roles>(s)->roles) {
        std::string registers = r.registers == 0 ? "" : fmt::format(" registers {}", r.registers);
        line(depth + 1, fmt::format("role warps {} from {}{} {{", r.warps, r.first_warp, registers));
        stmt(r.body, depth + 2);
        line(depth + 1, "}");
      }
      line(depth, "}");
      return;
  }
}

void Printer::declare(const Scalar& s) {
  std::string_view word = s.role == ScalarRole::kParameter ? "param" : "decision";
  std::string divisor = s.divisor == 1 ? "" : fmt::format(" div {}", s.divisor);
  line(1, fmt::format("{} {} in {}..{}{}", word, name(s.id), s.low, s.high, divisor));
}

void Printer::declare(const Buffer* b) {
  std::string text =
      fmt::format("{} {}: {}[{}]", buffer_role_name(b->role), name(b->id), type_name(b->type), list(b->shape));
  if (b->scope != Scope::kGlobal) text += fmt::format(" {}", scope_name(b->scope));
  if (b->alignment != default_alignment(b->role, b->type)) text += fmt::format(" align {}", b->alignment);
  if (const StridePadding& p = b->padding; p.dim >= 0)
    text += fmt::format(" stride({}, {}, {})", p.dim, p.factor, p.offset);
  if (b->layout != nullptr) text += " " + print_layout(*b->layout);
  line(1, text);
}

void Printer::kernel() {
  out_ += fmt::format("kernel {}{} {{\n", stage_name(kernel_.stage), kernel_.tf32 ? " tf32" : "");
  for (const Scalar& s : kernel_.scalars) declare(s);
  for (const ProductFact& p : kernel_.products) {
    std::string factors;
    for (Expr f : p.factors) factors += (factors.empty() ? "" : " * ") + expr(f, kUnary);
    line(1, fmt::format("product {} = {}", factors, p.product));
  }
  for (const Buffer* b : kernel_.buffers) declare(b);
  if (kernel_.root != nullptr) stmt(kernel_.root, 1);
  out_ += "}\n";
}

}  // namespace

std::string print(const Kernel& kernel) {
  Printer printer(kernel);
  printer.kernel();
  return printer.take();
}

std::string print(const Kernel& kernel, Expr e) {
  return Printer(kernel).expr(e);
}

std::string print(const Kernel& kernel, Stmt s) {
  Printer printer(kernel);
  printer.stmt(s, 0);
  return printer.take();
}

}  // namespace tcc::ir
