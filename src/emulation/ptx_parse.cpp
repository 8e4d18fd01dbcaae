// Tokens -> variables and the statements of kernels, names resolved by scope.
#include <algorithm>

#include "emulation/ptx_text.h"

namespace tcc::emulation {
namespace {

constexpr int64_t kMaxRegisters = 1 << 20;          // of one declaration
constexpr int64_t kMaxVariable = int64_t{1} << 24;  // bytes
constexpr int kMaxDepth = 64;
constexpr size_t kMaxText = size_t{1} << 23;

// %f<12> declares %f0 to %f11; rows are made for the ones that appear.
struct Family {
  Type type;
  int64_t count;
};
struct Scope {
  std::unordered_map<std::string_view, Family> families;
  std::unordered_map<std::string_view, Type> singles;
  std::unordered_map<std::string, RegisterName> known;
};

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

class Parser {
 public:
  Parser(std::vector<Token> tokens, PtxModule::Impl& module) : tokens_(std::move(tokens)), module_(module) {}

  Result<void> run() {
    while (now().kind != Token::Kind::kEnd) TCC_TRY_VOID(directive());
    return {};
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  const Token& next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool is(std::string_view text) const { return now().kind != Token::Kind::kString && now().text == text; }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    next();
    return true;
  }
  tl::unexpected<Error> wrong(std::string_view wanted) const {
    return ptx_error(now().line, fmt::format("expected {} and found '{}'", wanted,
                                             now().kind == Token::Kind::kEnd ? "the end" : now().text));
  }
  Result<void> expect(std::string_view text) {
    if (!take(text)) return wrong(fmt::format("'{}'", text));
    return {};
  }
  Result<std::string_view> word(std::string_view what) {
    if (now().kind != Token::Kind::kWord) return wrong(what);
    return next().text;
  }
  Result<int64_t> integer(int64_t most) {
    if (now().kind != Token::Kind::kInteger || now().value > static_cast<uint64_t>(most))
      return wrong(fmt::format("a number up to {}", most));
    return static_cast<int64_t>(next().value);
  }
  void skip_line() {
    const int32_t line = now().line;
    while (now().kind != Token::Kind::kEnd && now().line == line) next();
  }

  // --- the module ----------------------------------------------------------------------------------------------------

  Result<void> directive() {
    if (is(".version") || is(".target") || is(".file") || is(".loc")) {
      skip_line();
      return {};
    }
    if (take(".address_size")) {
      TCC_TRY(const int64_t bits, integer(64));
      if (bits != 64) return ptx_error(now().line, "addresses of 32 bits are not supported");
      return {};
    }
    bool external = false;
    while (is(".visible") || is(".extern") || is(".weak")) external |= next().text == ".extern";
    if (take(".entry")) return entry();
    if (is(".shared") || is(".global") || is(".const")) {
      const bool shared = next().text == ".shared";
      TCC_TRY(Variable variable, this->variable(shared && external));
      (shared ? module_shared_ : module_.data).push_back(std::move(variable));
      return expect(";");
    }
    if (is(".func")) return ptx_error(now().line, "functions other than kernels are not supported");
    return wrong("a directive of the module");
  }

  // After the state space: [.align n] .type name[n] [= {...}].
  Result<Variable> variable(bool dynamic) {
    Variable v;
    while (is(".align") || is(".visible")) {
      if (!take(".align")) {
        next();
        continue;
      }
      TCC_TRY(v.alignment, integer(1 << 16));
      if (v.alignment < 1 || (v.alignment & (v.alignment - 1)) != 0)
        return ptx_error(now().line, "an alignment is a power of two");
    }
    TCC_TRY(const Type type, this->type());
    TCC_TRY(const std::string_view name, word("a name"));
    v.name = name;
    v.bytes = type_bytes(type);
    v.alignment = std::max<int64_t>(v.alignment, v.bytes);
    while (take("[")) {
      if (take("]")) {
        if (!dynamic) return ptx_error(now().line, fmt::format("the size of {} is missing", name));
        v.bytes = 0;
        v.dynamic = true;
        break;
      }
      TCC_TRY(const int64_t n, integer(kMaxVariable));
      v.bytes *= n;
      if (v.bytes > kMaxVariable)
        return ptx_error(now().line, fmt::format("{} is larger than {} bytes", name, kMaxVariable));
      TCC_TRY_VOID(expect("]"));
    }
    if (take("=")) TCC_TRY_VOID(initial_values(v, type_bytes(type)));
    return v;
  }

  Result<void> initial_values(Variable& v, int bytes) {
    v.initial.assign(static_cast<size_t>(v.bytes), std::byte{0});
    const bool list = take("{");
    for (int64_t at = 0; !is("}") && !is(";"); at += bytes) {
      const bool negative = take("-");
      if (now().kind != Token::Kind::kInteger && now().kind != Token::Kind::kFloat &&
          now().kind != Token::Kind::kDouble)
        return wrong("a number");
      if (at + bytes > v.bytes) return ptx_error(now().line, fmt::format("more values than {} holds", v.name));
      uint64_t value = next().value;
      if (negative) value = 0 - value;
      for (int i = 0; i < bytes && i < 8; ++i)
        v.initial[static_cast<size_t>(at + i)] = static_cast<std::byte>(value >> (8 * i));
      if (!take(",")) break;
    }
    if (list) TCC_TRY_VOID(expect("}"));
    return {};
  }

  Result<Type> type() {
    if (now().kind == Token::Kind::kWord && now().text.starts_with('.')) {
      if (const auto found = find_type(now().text.substr(1))) {
        next();
        return *found;
      }
    }
    return wrong("a type");
  }

  // --- kernels -------------------------------------------------------------------------------------------------------

  Result<void> entry() {
    KernelCode code;
    TCC_TRY(const std::string_view name, word("the kernel's name"));
    code.name = name;
    if (take("(")) {
      while (!is(")")) {
        TCC_TRY_VOID(param(code));
        if (!take(",")) break;
      }
      TCC_TRY_VOID(expect(")"));
    }
    while (!is("{")) TCC_TRY_VOID(kernel_directive(code));
    Places places(code);
    places_ = &places;
    body_ = {};
    scopes_.clear();
    TCC_TRY_VOID(block(0));
    TCC_TRY_VOID(lay_out(code));
    TCC_TRY_VOID(select_code(body_, module_, places, code));
    module_.kernels.push_back(std::move(code));
    return {};
  }

  Result<void> param(KernelCode& code) {
    TCC_TRY_VOID(expect(".param"));
    const int32_t line = now().line;
    if (take(".align")) TCC_TRY_VOID(integer(1 << 16));
    TCC_TRY(const Type type, this->type());
    while (is(".ptr") || is(".global") || is(".align")) {
      if (next().text != ".align") continue;
      TCC_TRY_VOID(integer(1 << 16));
    }
    TCC_TRY(const std::string_view name, word("the parameter's name"));
    code.params.emplace_back(name);
    if (take("[")) {
      TCC_TRY(const int64_t bytes, integer(1 << 16));
      if (type != Type::kB8 || bytes != kMapBytes)
        return ptx_error(line, fmt::format("parameter {}: expected a tensor map of {} bytes", name, kMapBytes));
      return expect("]");
    }
    if (type_bytes(type) != 8) return ptx_error(line, fmt::format("parameter {}: expected a pointer", name));
    if (code.pointers + 1 != code.params.size())
      return ptx_error(line, fmt::format("parameter {} is a pointer behind a tensor map", name));
    ++code.pointers;
    return {};
  }

  Result<void> kernel_directive(KernelCode& code) {
    TCC_TRY(const std::string_view name, word("'{'"));
    std::vector<int64_t> numbers;
    while (now().kind == Token::Kind::kInteger) {
      TCC_TRY(const int64_t n, integer(INT32_MAX));
      numbers.push_back(n);
      if (!take(",")) break;
    }
    numbers.resize(3, 1);
    if (name == ".maxntid")
      code.max_threads =
          std::max<int64_t>(1, std::min<int64_t>(numbers[0], 1024) * std::min<int64_t>(numbers[1], 1024) *
                                   std::min<int64_t>(numbers[2], 1024));
    if (name == ".reqntid") code.required = {numbers[0], numbers[1], numbers[2]};
    if (name == ".minnctapersm") code.min_blocks = std::clamp<int64_t>(numbers[0], 1, 64);
    if (name == ".reqnctapercluster") {
      code.cluster = {numbers[0], numbers[1], numbers[2]};
      for (int64_t n : numbers)
        if (n < 1 || n > 16) return ptx_error(now().line, "a cluster has 1 to 16 blocks");
      if (numbers[0] * numbers[1] * numbers[2] > 16) return ptx_error(now().line, "a cluster has 1 to 16 blocks");
      return {};
    }
    const bool harmless = name == ".explicitcluster" || name == ".maxntid" || name == ".reqntid" ||
                          name == ".minnctapersm" || name == ".maxnreg";
    if (!harmless) return ptx_error(now().line, fmt::format("unknown directive '{}'", name));
    return {};
  }

  // Shared memory: gaps between arrays, so that running over one's end is seen.
  Result<void> lay_out(KernelCode& code) {
    code.shared = module_shared_;
    code.shared.insert(code.shared.end(), body_.shared.begin(), body_.shared.end());
    int64_t at = 0;
    for (Variable& v : code.shared) {
      if (v.dynamic) continue;
      at = round_up(at, std::max<int64_t>(v.alignment, 16));
      v.offset = at;
      at += v.bytes + 256;
    }
    code.dynamic_offset = round_up(at, 1024);
    for (Variable& v : code.shared)
      if (v.dynamic) v.offset = code.dynamic_offset;
    at = 0;
    for (Variable& v : body_.local) {
      at = round_up(at, v.alignment);
      v.offset = at;
      at += v.bytes;
    }
    code.local_bytes = round_up(at, 16);
    return {};
  }

  // --- statements ----------------------------------------------------------------------------------------------------

  Result<void> block(int depth) {
    if (depth > kMaxDepth) return ptx_error(now().line, "blocks are nested too deeply");
    TCC_TRY_VOID(expect("{"));
    const int32_t outer = scope_;
    scope_ = static_cast<int32_t>(body_.outer_scope.size());
    body_.outer_scope.push_back(outer);
    scopes_.emplace_back();
    while (!is("}")) {
      if (now().kind == Token::Kind::kEnd) return wrong("'}'");
      if (is("{")) {
        TCC_TRY_VOID(block(depth + 1));
      } else {
        TCC_TRY_VOID(statement());
      }
    }
    next();
    scopes_.pop_back();
    scope_ = outer;
    return {};
  }

  Result<void> statement() {
    if (is(".reg")) return registers();
    if (is(".shared") || is(".local")) {
      const bool shared = next().text == ".shared";
      TCC_TRY(Variable variable, this->variable(false));
      (shared ? body_.shared : body_.local).push_back(std::move(variable));
      return expect(";");
    }
    if (take(".pragma")) {
      if (now().kind != Token::Kind::kString) return wrong("a string");
      next();
      return expect(";");
    }
    if (is(".loc") || is(".file")) {
      skip_line();
      return {};
    }
    Statement s;
    s.line = now().line;
    s.scope = scope_;
    if (take("@")) {
      s.guard_negated = take("!");
      TCC_TRY(const Operand guard, operand());
      if (guard.kind != Operand::Kind::kRegister || guard.reg.type != Type::kPred)
        return ptx_error(s.line, "expected a predicate as guard");
      s.guard = guard.reg.place;
    }
    TCC_TRY(s.opcode, word("an instruction"));
    if (take(":")) {
      s.name = s.opcode;
      s.opcode = {};
      body_.statements.push_back(std::move(s));
      return {};
    }
    while (!is(";")) {
      TCC_TRY(Operand o, operand());
      s.operands.push_back(std::move(o));
      if (!take(",")) break;
    }
    TCC_TRY_VOID(expect(";"));
    body_.statements.push_back(std::move(s));
    return {};
  }

  // .reg .f32 %f<12>; or .reg .b32 remote, other;
  Result<void> registers() {
    next();
    TCC_TRY(const Type type, this->type());
    if (type != Type::kPred && (type_bytes(type) < 2 || type_bytes(type) > 8))
      return ptx_error(now().line, "registers hold 16, 32 or 64 bits");
    do {
      TCC_TRY(const std::string_view name, word("a register's name"));
      if (take("<")) {
        TCC_TRY(const int64_t count, integer(kMaxRegisters));
        TCC_TRY_VOID(expect(">"));
        scopes_.back().families[name] = {type, count};
      } else {
        scopes_.back().singles[name] = type;
      }
    } while (take(","));
    return expect(";");
  }

  std::optional<RegisterName> find_register(std::string_view name) {
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    for (size_t s = scopes_.size(); s-- > 0;) {
      Scope& scope = scopes_[s];
      if (const auto known = scope.known.find(std::string(name)); known != scope.known.end()) return known->second;
      std::optional<Type> type;
      if (const auto single = scope.singles.find(name); single != scope.singles.end()) type = single->second;
      if (const auto family = scope.families.find(name.substr(0, digits));
          !type && family != scope.families.end() && digits < name.size() && name.size() - digits < 8) {
        int64_t n = 0;
        for (char c : name.substr(digits)) n = n * 10 + (c - '0');
        if (n < family->second.count) type = family->second.type;
      }
      if (!type) continue;
      const int32_t place = *type == Type::kPred ? places_->new_predicate() : places_->new_row(type_bytes(*type));
      return scope.known[std::string(name)] = {*type, place};
    }
    if (const auto special = find_special(name)) return RegisterName{Type::kU32, places_->special(*special)};
    return std::nullopt;
  }

  Result<Operand> operand() {
    Operand o;
    if (take("{")) {
      o.kind = Operand::Kind::kVector;
      while (!is("}")) {
        if (o.parts.size() >= 256) return ptx_error(now().line, "a vector of more than 256 elements");
        TCC_TRY(Operand part, simple_operand());
        o.parts.push_back(std::move(part));
        if (!take(",")) break;
      }
      TCC_TRY_VOID(expect("}"));
      return o;
    }
    if (take("[")) return address();
    TCC_TRY(o, simple_operand());
    if (take("|")) {
      TCC_TRY(Operand second, simple_operand());
      o.second.push_back(std::move(second));
    }
    return o;
  }

  Result<Operand> simple_operand() {
    Operand o;
    if (take("!")) {
      TCC_TRY(o, simple_operand_after_sign());
      o.negated = true;
      return o;
    }
    return simple_operand_after_sign();
  }

  Result<Operand> simple_operand_after_sign() {
    Operand o;
    const bool minus = take("-");
    switch (now().kind) {
      case Token::Kind::kInteger:
        o.kind = Operand::Kind::kInteger;
        o.value = minus ? 0 - now().value : now().value;
        next();
        return o;
      case Token::Kind::kFloat:
      case Token::Kind::kDouble:
        if (minus) break;
        o.kind = now().kind == Token::Kind::kFloat ? Operand::Kind::kFloat : Operand::Kind::kDouble;
        o.value = next().value;
        return o;
      case Token::Kind::kWord: {
        if (minus) break;
        const std::string_view name = next().text;
        if (name == "_") return o;
        if (const auto reg = find_register(name)) {
          if (reg->type != Type::kPred) places_->mention(reg->place);
          o.kind = Operand::Kind::kRegister;
          o.reg = *reg;
          return o;
        }
        if (name.starts_with('%')) return ptx_error(now().line, fmt::format("unknown register {}", name));
        o.kind = Operand::Kind::kSymbol;
        o.name = name;
        TCC_TRY(o.value, offset());
        return o;
      }
      case Token::Kind::kString:
      case Token::Kind::kPunctuation:
      case Token::Kind::kEnd:
        break;
    }
    return wrong("an operand");
  }

  // Nothing, +n or -n.
  Result<uint64_t> offset() {
    const bool plus = take("+");
    const bool minus = take("-");
    if (!plus && !minus) return uint64_t{0};
    TCC_TRY(const int64_t n, integer(INT64_MAX));
    return minus ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  }

  Result<Operand> address() {
    TCC_TRY(Operand base, simple_operand());
    Operand o;
    o.kind = Operand::Kind::kAddress;
    switch (base.kind) {
      case Operand::Kind::kRegister: {
        o.based = true;
        o.reg = base.reg;
        TCC_TRY(o.value, offset());
        break;
      }
      case Operand::Kind::kSymbol:
        o.name = base.name;
        o.value = base.value;
        break;
      case Operand::Kind::kInteger:
        o.value = base.value;
        break;
      case Operand::Kind::kFloat:
      case Operand::Kind::kDouble:
      case Operand::Kind::kVector:
      case Operand::Kind::kAddress:
      case Operand::Kind::kSink:
        return wrong("an address");
    }
    // A tensor map's coordinates.
    if (take(",")) {
      TCC_TRY_VOID(expect("{"));
      do {
        if (o.parts.size() >= 8) return ptx_error(now().line, "more coordinates than a tensor has");
        TCC_TRY(Operand part, simple_operand());
        o.parts.push_back(std::move(part));
      } while (take(","));
      TCC_TRY_VOID(expect("}"));
    }
    TCC_TRY_VOID(expect("]"));
    return o;
  }

  std::vector<Token> tokens_;
  PtxModule::Impl& module_;
  size_t at_ = 0;
  std::vector<Variable> module_shared_;
  Body body_;
  std::vector<Scope> scopes_;
  int32_t scope_ = -1;
  Places* places_ = nullptr;
};

}  // namespace

std::optional<Type> find_type(std::string_view text) {
#define TCC_X(name, spelling, bytes) \
  if (text == spelling) return Type::k##name;
  TCC_PTX_TYPES(TCC_X)
#undef TCC_X
  return std::nullopt;
}
int type_bytes(Type type) {
  switch (type) {
#define TCC_X(name, spelling, bytes) \
  case Type::k##name:                \
    return bytes;
    TCC_PTX_TYPES(TCC_X)
#undef TCC_X
  }
  return 0;
}
bool is_signed(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}
bool is_real(Type type) {
  return type == Type::kF16 || type == Type::kBF16 || type == Type::kF32 || type == Type::kF64;
}
std::optional<Special> find_special(std::string_view text) {
#define TCC_X(name, spelling) \
  if (text == spelling) return Special::k##name;
  TCC_PTX_SPECIALS(TCC_X)
#undef TCC_X
  return std::nullopt;
}

int32_t Places::new_row(int bytes) {
  const int32_t place = code_.register_bytes;
  code_.register_bytes += std::max(bytes, 2) * kLanes;
  return place;
}
int32_t Places::constant(uint64_t value, int bytes) {
  if (bytes < 8) value &= (uint64_t{1} << (8 * bytes)) - 1;
  const auto known = constants_.find({value, bytes});
  if (known != constants_.end()) return known->second;
  // Rows start at a multiple of their element's size because all sizes divide 64.
  const int32_t at = static_cast<int32_t>(code_.constants.size());
  for (int l = 0; l < kLanes; ++l)
    for (int i = 0; i < bytes; ++i) code_.constants.push_back(static_cast<std::byte>(value >> (8 * i)));
  return constants_[{value, bytes}] = -1 - at;
}
int32_t Places::special(Special which) {
  for (const auto& [special, place] : code_.specials)
    if (special == which) return place;
  const int32_t place = new_row(4);
  code_.specials.emplace_back(which, place);
  return place;
}

Result<PtxModule> parse_ptx(std::string_view text) {
  if (text.size() > kMaxText) return input_error("the PTX text has {} bytes, more than {}", text.size(), kMaxText);
  TCC_TRY(std::vector<Token> tokens, split_ptx(text));
  auto module = std::make_shared<PtxModule::Impl>();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    module->lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  Parser parser(std::move(tokens), *module);
  TCC_TRY_VOID(parser.run());
  if (module->kernels.empty()) return make_error(ErrorClass::kInput, "the PTX text holds no kernel");
  return PtxModule(std::shared_ptr<const PtxModule::Impl>(std::move(module)));
}

std::vector<std::string> PtxModule::kernels() const {
  std::vector<std::string> names;
  for (const KernelCode& k : impl_->kernels) names.push_back(k.name);
  return names;
}

}  // namespace tcc::emulation
