// The text form of kernels. Grammar ('#' starts a comment, ';' between statements is optional):
//
//   kernel      = "kernel" STAGE ["tf32"] "{" declaration* statement* "}"          STAGE: built scheduled nest lowered
//   declaration = ("param" | "decision") NAME "in" INT ".." INT ["div" INT]    both ends included
//               | "product" NAME ("*" NAME)* "=" INT
//               | ROLE NAME ":" TYPE "[" expr, ... "]" [SCOPE] ["align" INT] ["stride" "(" INT "," INT "," INT ")"]
//               [layout]   ROLE: input weight output temp
//   statement   = "for" NAME "in" expr [KIND | "bound" "(" AXIS ")"] annotation* "{" statement* "}"
//               | "block" LABEL "(" [NAME ":" ITER expr "=" expr, ...] ")" ["reduce" "(" REDUCER ")"] ["where" expr]
//                 annotation* "{" ["init" "{" statement* "}"] statement* "}"
//               | NAME "[" expr, ... "]" "=" expr ["where" expr]
//               | "if" expr "{" statement* "}" ["else" (if-statement | "{" statement* "}")]
//               | "alloc" NAME, ... "{" statement* "}"
//               | "instr" NAME "(" [NAME "[" expr, ... "]", ...] [";" expr, ...] ")" ["where" expr]
//               | "roles" "{" ("role" "warps" INT "from" INT ["registers" INT] "{" statement* "}")* "}"
//   annotation  = "@" KEY "(" expr ")"
//   expr: || && (< <= == != > >=) (+ -) (* / // %) unary(- !) and
//         NUMBER[TYPE] true false inf nan inf_TYPE nan_TYPE NAME NAME[...] (NAME[...] "where" expr "else" expr)
//         TYPE(expr) min max select and the intrinsics
//
// A number without a suffix is i64, or f32 when it has a point or an exponent. "//" and "%" round towards minus
// infinity. A name is visible from its declaration to the end of the enclosing braces and cannot be shadowed.
#include <fmt/ranges.h>

#include "ir/layout_parser.h"
#include "ir/parser.h"
#include "ir/text_words.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/names.h"
#include "tcc/support/text.h"

namespace tcc::ir {
namespace {

constexpr size_t kMaxText = size_t{64} << 20;
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

}  // namespace

Id Parser::bind_word(std::string_view word, size_t offset, Type type, const Buffer* buffer) {
  if (is_reserved(word) || word.find('.') != std::string_view::npos) {
    problem(offset, fmt::format("expected a name, found the reserved word '{}'", sanitize(word, 40)));
    return kNoId;
  }
  if (lookup(word) != nullptr) {
    problem(offset, fmt::format("expected a new name, found '{}', which is in use here", sanitize(word, 40)));
    return kNoId;
  }
  const Id id = fresh_id(word);
  names_[std::string(word)] = {id, type, buffer};
  return id;
}

Id Parser::fresh_id(std::string_view hint) {
  const Id id = next_id_++;
  const std::string copy(hint);
  auto stored = arena_->copy(std::span<const char>(copy.c_str(), copy.size() + 1));
  hints_ = arena_->make<NameHint>(hints_, id, kNoId, 0, stored.data());
  return id;
}

// Takes the name of one of the enumerators from `first` on.
template <class E>
bool Parser::enumerator(E& out, std::string_view what, E first) {
  const std::optional<E> found = is_word() ? from_name<E>(peek().text) : std::nullopt;
  if (!found || *found < first) {
    const std::vector<std::string> known(names<E>().begin() + static_cast<std::ptrdiff_t>(first), names<E>().end());
    return fail_word(fmt::format("{} ({})", what, fmt::join(known, ", ")), known);
  }
  out = *found;
  ++at_;
  return true;
}

Id Parser::bind(Type type, const Buffer* buffer) {
  if (!is_word()) {
    fail("a name");
    return kNoId;
  }
  const Token& t = peek();
  ++at_;
  return bind_word(t.text, t.offset, type, buffer);
}

bool Parser::declare_scalar(ScalarRole role) {
  ++at_;
  Scalar s{kNoId, role, 0, 0, 1};
  s.id = bind(Type::kI64);
  if (s.id == kNoId || !expect("in") || !integer(s.low, -kMaxElements, kMaxElements, "the lowest value") ||
      !expect("..") || !integer(s.high, s.low, kMaxElements, "the highest value"))
    return false;
  if (accept("div") && !integer(s.divisor, 1, kMaxElements, "a divisor")) return false;
  scalars_.push_back(s);
  return true;
}

bool Parser::declare_product() {
  ++at_;
  std::vector<Expr> factors;
  ProductFact fact{};
  do {
    Value v = primary();
    if (!v) return false;
    if (v.e->kind != ExprKind::kVar) return fail("scalars multiplied with each other");
    factors.push_back(v.e);
  } while (accept("*"));
  if (!expect("=") || !integer(fact.product, 1, kMaxInt, "a product")) return false;
  fact.factors = arena_->copy(factors);
  products_.push_back(fact);
  return true;
}

bool Parser::declare_buffer(BufferRole role) {
  ++at_;
  const Token& name = peek();
  at_ += 2;  // the name and ':' were seen by declaration()
  Buffer b{};
  b.role = role;
  auto type = is_word() ? type_from(peek().text) : std::nullopt;
  if (!type) {
    std::vector<std::string> known = {"barrier", "tensor_map"};
    for (Type t : kDataTypes) known.emplace_back(type_name(t));
    return fail_word("an element type", known);
  }
  ++at_;
  b.type = *type;
  std::vector<Expr> shape;
  int64_t elements = 1;
  if (!expect("[")) return false;
  while (!is("]")) {
    size_t offset = peek().offset;
    Expr e = index_expression("an extent");
    if (e == nullptr) return false;
    if (is_int(e) &&
        (int_value(e) < 0 || __builtin_mul_overflow(elements, std::max(int_value(e), int64_t{1}), &elements) ||
         elements > kMaxElements))
      return problem(offset, "expected extents from 0 whose product is at most 2^48");
    shape.push_back(e);
    if (!accept(",")) break;
  }
  if (!expect("]")) return false;
  b.shape = shape;
  if (is_word()) {
    if (const auto scope = from_name<Scope>(peek().text)) b.scope = *scope, ++at_;
  }
  int64_t alignment = default_alignment(role, b.type);
  if (accept("align")) {
    size_t offset = peek().offset;
    if (!integer(alignment, 1, 1 << 20, "an alignment")) return false;
    if ((alignment & (alignment - 1)) != 0) return problem(offset, "expected an alignment that is a power of two");
  }
  b.alignment = static_cast<int32_t>(alignment);
  if (accept("stride")) {
    int64_t dim = 0, factor = 1, offset = 0;
    if (!expect("(") || !integer(dim, 0, 1 << 10, "a dimension") || !expect(",") ||
        !integer(factor, 1, 1 << 20, "a factor") || !expect(",") || !integer(offset, 0, 1 << 20, "an offset") ||
        !expect(")"))
      return false;
    b.padding = {static_cast<int32_t>(dim), static_cast<int32_t>(factor), static_cast<int32_t>(offset)};
  }
  if (is("layout")) {
    LayoutParse parsed = parse_layout_tokens(*arena_, tokens_, at_);
    at_ = parsed.next;
    if (parsed.layout == nullptr) return fail(parsed.expected);
    b.layout = parsed.layout;
  }
  const Buffer* stored = nullptr;
  b.id = next_id_;
  stored = builder_.buffer(b);
  if (role != BufferRole::kTemp && !buffers_.empty() && buffers_.back()->role == BufferRole::kTemp)
    return problem(name.offset, "expected parameters before temporaries");
  if (bind_word(name.text, name.offset, b.type, stored) == kNoId) return false;
  buffers_.push_back(stored);
  return true;
}

bool Parser::declaration(bool& found) {
  found = true;
  if (!is_word() || !is_word(1)) return found = false, true;
  if (is("param")) return declare_scalar(ScalarRole::kParameter);
  if (is("decision")) return declare_scalar(ScalarRole::kDecision);
  if (is("product")) return declare_product();
  const auto role = from_name<BufferRole>(peek().text);
  if (role && is(":", 2)) return declare_buffer(*role);
  return found = false, true;
}

bool Parser::statements(Stmt& out) {
  std::vector<Stmt> list;
  while (!is("}")) {
    if (accept(";")) continue;
    Stmt s = nullptr;
    if (!statement(s)) return false;
    list.push_back(s);
  }
  out = builder_.seq(list);
  return true;
}

bool Parser::braced(Stmt& out) {
  Nesting nesting(*this);
  return nesting && expect("{") && statements(out) && expect("}");
}

bool Parser::statement(Stmt& out) {
  if (is("for")) return loop(out);
  if (is("block")) return block(out);
  if (is("if")) return conditional(out);
  if (is("alloc")) return alloc(out);
  if (is("instr")) return instruction_call(out);
  if (is("roles")) return roles(out);
  if (is_word() && is("[", 1)) return store(out);
  static const std::vector<std::string> kKnown = {"for",    "block",  "if",   "alloc", "instr",    "roles",  "input",
                                                  "weight", "output", "temp", "param", "decision", "product"};
  return fail_word("a statement or '}'", kKnown);
}

bool Parser::annotations(std::vector<Annotation>& out) {
  while (accept("@")) {
    Annotation note{};
    if (!enumerator(note.key, "an annotation")) return false;
    if (!expect("(")) return false;
    note.value = index_expression("the annotation's value");
    if (note.value == nullptr || !expect(")")) return false;
    out.push_back(note);
  }
  return true;
}

bool Parser::where(Expr& out) {
  if (!accept("where")) return true;
  out = typed_expression(Type::kBool, "a predicate").e;
  return out != nullptr;
}

bool Parser::loop(Stmt& out) {
  ++at_;
  const Token& name = peek();
  if (!is_word()) return fail("the loop's name");
  ++at_;
  if (!expect("in")) return false;
  Expr extent = index_expression("the loop's extent");
  if (extent == nullptr) return false;
  LoopKind kind = LoopKind::kSerial;
  Axis axis = Axis::kNone;
  if (is_word() && !enumerator(kind, "'{' or a loop kind")) return false;
  if (kind == LoopKind::kBound && (!expect("(") || !enumerator(axis, "an axis", Axis::kGridX) || !expect(")")))
    return false;
  std::vector<Annotation> notes;
  if (!annotations(notes)) return false;
  Id id = bind_word(name.text, name.offset, Type::kI64, nullptr);
  Stmt body = nullptr;
  if (id == kNoId || !braced(body)) return false;
  unbind(name.text);
  out = body == nullptr ? nullptr : builder_.loop(id, extent, body, kind, axis, notes);
  return true;
}

bool Parser::iterators(std::vector<Iter>& iters, std::vector<std::string_view>& names) {
  if (!expect("(")) return false;
  std::vector<size_t> offsets;
  while (!is(")")) {
    Iter it{};
    if (!is_word()) return fail("an iterator's name");
    names.push_back(peek().text);
    offsets.push_back(peek().offset);
    ++at_;
    if (!expect(":")) return false;
    if (!enumerator(it.kind, "an iterator kind")) return false;
    it.extent = index_expression("the iterator's extent");
    if (it.extent == nullptr || !expect("=")) return false;
    it.binding = index_expression("the iterator's binding");
    if (it.binding == nullptr) return false;
    iters.push_back(it);
    if (!accept(",")) break;
  }
  if (!expect(")")) return false;
  for (size_t i = 0; i < iters.size(); ++i) {  // visible in the predicate and the body, not in each other's bindings
    iters[i].id = bind_word(names[i], offsets[i], Type::kI64, nullptr);
    if (iters[i].id == kNoId) return false;
  }
  return true;
}

bool Parser::block(Stmt& out) {
  ++at_;
  // Names of blocks are labels: any word, also one of the language or of a variable. Schedules find blocks by them.
  if (!is_word() || peek().text.find('.') != std::string_view::npos) return fail("a name");
  const Id id = fresh_id(peek().text);
  ++at_;
  std::vector<Iter> iters;
  std::vector<std::string_view> names;
  if (!iterators(iters, names)) return false;
  ReducerKind reducer = ReducerKind::kNone;
  if (accept("reduce") && (!expect("(") || !enumerator(reducer, "a reducer") || !expect(")"))) return false;
  Expr predicate = nullptr;
  std::vector<Annotation> notes;
  if (!where(predicate) || !annotations(notes)) return false;
  Nesting nesting(*this);
  Stmt init = nullptr, body = nullptr;
  if (!nesting || !expect("{")) return false;
  if (accept("init") && !braced(init)) return false;
  size_t offset = peek().offset;
  if (!statements(body) || !expect("}")) return false;
  if (body == nullptr) return problem(offset, "expected a statement in the block");
  for (std::string_view n : names) unbind(n);
  out = builder_.block(id, iters, body, init, predicate, reducer, notes);
  return true;
}

bool Parser::store(Stmt& out) {
  const Name* name = lookup(peek().text);
  if (name == nullptr || name->buffer == nullptr) {
    std::vector<std::string> known;
    for (const Buffer* b : buffers_)
      for (const auto& [word, entry] : names_)
        if (entry.buffer == b) known.push_back(word);
    return fail_word("a buffer", known);
  }
  const Buffer& buffer = *name->buffer;
  ++at_;
  std::vector<Expr> at;
  int height = 0;
  if (!indices(buffer, at, height) || !expect("=")) return false;
  Value value = typed_expression(buffer.type, "a value for the buffer");
  Expr predicate = nullptr;
  if (!value || !where(predicate)) return false;
  out = builder_.store(buffer.id, at, value.e, predicate);
  return true;
}

bool Parser::conditional(Stmt& out) {
  Nesting nesting(*this);
  if (!nesting) return false;
  ++at_;
  Expr condition = typed_expression(Type::kBool, "a condition").e;
  Stmt then_case = nullptr, else_case = nullptr;
  if (condition == nullptr || !braced(then_case)) return false;
  if (accept("else") && !(is("if") ? conditional(else_case) : braced(else_case))) return false;
  out = builder_.if_then(condition, then_case, else_case);
  return true;
}

bool Parser::alloc(Stmt& out) {
  ++at_;
  std::vector<Id> ids;
  do {
    const Name* name = is_word() ? lookup(peek().text) : nullptr;
    if (name == nullptr || name->buffer == nullptr) return fail("a buffer");
    ids.push_back(name->id);
    ++at_;
  } while (accept(","));
  Stmt body = nullptr;
  if (!braced(body)) return false;
  out = builder_.alloc(ids, body);
  return true;
}

bool Parser::operand(Operand& out) {
  const Name* name = is_word() ? lookup(peek().text) : nullptr;
  if (name == nullptr || name->buffer == nullptr) return fail("a buffer");
  ++at_;
  std::vector<Expr> at;
  int height = 0;
  if (!indices(*name->buffer, at, height)) return false;
  out = {name->id, arena_->copy(at)};
  return true;
}

bool Parser::instruction_call(Stmt& out) {
  ++at_;
  int32_t row = is_word() ? find_instruction(peek().text) : -1;
  if (row < 0) {
    std::vector<std::string> known;
    for (const Instruction& i : instruction_table()) known.emplace_back(i.name);
    return fail_word("an instruction", known);
  }
  size_t offset = peek().offset;
  ++at_;
  const Instruction& spec = ir::instruction(row);
  std::vector<Operand> operands;
  std::vector<Expr> args;
  if (!expect("(")) return false;
  while (!is(")") && !is(";")) {
    if (!operand(operands.emplace_back())) return false;
    if (!accept(",")) break;
  }
  for (bool more = accept(";"); more; more = accept(",")) {
    Expr arg = index_expression("an argument");
    if (arg == nullptr) return false;
    args.push_back(arg);
  }
  if (!expect(")")) return false;
  if (operands.size() != spec.operands.size() || args.size() != static_cast<size_t>(spec.num_args))
    return problem(offset, fmt::format("{} takes {} operands and {} arguments, found {} and {}", spec.name,
                                       spec.operands.size(), spec.num_args, operands.size(), args.size()));
  Expr predicate = nullptr;
  if (!where(predicate)) return false;
  out = builder_.instr(row, operands, args, predicate);
  return true;
}

bool Parser::roles(Stmt& out) {
  Nesting nesting(*this);
  ++at_;
  if (!nesting || !expect("{")) return false;
  std::vector<Role> list;
  while (!accept("}")) {
    int64_t warps = 0, from = 0, registers = 0;
    size_t offset = peek().offset;
    if (!expect("role") || !expect("warps") || !integer(warps, 1, 1024, "a number of warps") || !expect("from") ||
        !integer(from, 0, 1024, "the first warp"))
      return false;
    if (accept("registers") && !integer(registers, 1, 1024, "registers of a thread")) return false;
    Role role{static_cast<int32_t>(from), static_cast<int32_t>(warps), static_cast<int32_t>(registers), nullptr};
    if (!braced(role.body)) return false;
    if (role.body == nullptr) return problem(offset, "expected a statement in the role");
    list.push_back(role);
  }
  if (list.empty()) return fail("a role in the roles");
  out = builder_.roles(list);
  return true;
}

Result<Kernel> Parser::run() {
  Kernel k;
  auto parse_all = [&] {
    if (!expect("kernel")) return false;
    if (!enumerator(k.stage, "a stage")) return false;
    k.tf32 = accept("tf32");
    if (!expect("{")) return false;
    for (bool found = true; found;) {
      if (accept(";")) continue;
      if (!declaration(found)) return false;
    }
    Stmt root = nullptr;
    if (!statements(root)) return false;
    if (root == nullptr) return fail("a statement");
    k.root = root;
    if (!expect("}")) return false;
    return peek().kind == TokenKind::kEnd || fail("the end of the text");
  };
  if (!parse_all()) return tl::make_unexpected(*error_);
  k.arena = arena_;
  k.buffers = arena_->copy(buffers_);
  k.scalars = arena_->copy(scalars_);
  k.products = arena_->copy(products_);
  k.names = hints_;
  k.next_id = next_id_;
  return k;
}

Result<Kernel> parse(std::string_view text, std::string_view file) {
  if (text.size() > kMaxText)
    return input_error("{}:1:1: expected a text of at most {}", sanitize(file),
                       format_bytes(static_cast<double>(kMaxText)));
  return Parser(text, file).run();
}

}  // namespace tcc::ir
