// Statements -> code: labels, branches, operands; the families of instructions have files of their own.
#include "emulation/ptx_select.h"

#include <algorithm>

#include "emulation/ptx_machine.h"

namespace tcc::emulation {

Opcode::Opcode(std::string_view text) {
  size_t at = 0;
  while (at <= text.size() && parts_.size() < 16) {
    const size_t end = std::min(text.find('.', at), text.size());
    parts_.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (at <= text.size()) parts_.push_back(text.substr(at));
}
bool Opcode::take(std::string_view modifier) {
  const auto found = std::find(parts_.begin() + 1, parts_.end(), modifier);
  if (found == parts_.end()) return false;
  parts_.erase(found);
  return true;
}
int Opcode::take_one(std::initializer_list<std::string_view> modifiers) {
  int n = 0;
  for (std::string_view m : modifiers) {
    if (take(m)) return n;
    ++n;
  }
  return -1;
}
std::optional<Type> Opcode::take_type() {
  for (size_t i = 1; i < parts_.size(); ++i) {
    if (const auto type = find_type(parts_[i])) {
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
      return type;
    }
  }
  return std::nullopt;
}
bool Opcode::done() const {
  return parts_.size() == 1;
}

void Selector::fail(std::string text) {
  if (error_.empty()) error_ = std::move(text);
}
void Selector::need(size_t least, size_t most) {
  if (operands() < least || operands() > most) fail(fmt::format("{} has {} operands", s.opcode, operands()));
}
void Selector::set_operands(int result_bytes, std::initializer_list<int> bytes) {
  ins.d = result(0, result_bytes);
  for (size_t n = 0; n < bytes.size(); ++n) ins.*kPlaces[n] = value(n + 1, bytes.begin()[n]);
}
const Operand& Selector::at(size_t n) {
  if (n < operands()) return s.operands[n];
  fail(fmt::format("operand {} of {} is missing", n + 1, s.opcode));
  return sink_;
}
int32_t Selector::any_register(const Operand& o, int& bytes) {
  if (o.kind != Operand::Kind::kRegister || o.reg.type == Type::kPred || o.negated) {
    fail(fmt::format("expected a register as operand of {}", s.opcode));
    bytes = 4;
    return scratch(4);
  }
  bytes = type_bytes(o.reg.type);
  return o.reg.place;
}
int32_t Selector::any_result(const Operand& o, int& bytes) {
  const int32_t place = any_register(o, bytes);
  writes.push_back(place);
  return place;
}
int32_t Selector::result_of(const Operand& o, int bytes) {
  if (o.kind == Operand::Kind::kSink) return scratch(bytes);
  int width = 0;
  const int32_t place = any_result(o, width);
  if (width != bytes)
    fail(fmt::format("the result of {} has {} bits, its register {}", s.opcode, 8 * bytes, 8 * width));
  for (const auto& [special, row] : code.specials)
    if (row == place) fail(fmt::format("{} writes a special register", s.opcode));
  return place;
}
int32_t Selector::result(size_t n, int bytes) {
  return result_of(at(n), bytes);
}
std::optional<uint64_t> Selector::symbol_address(std::string_view name) const {
  for (const Variable& v : code.shared)
    if (v.name == name) return static_cast<uint64_t>(v.offset);
  for (const Variable& v : body_.local)
    if (v.name == name) return static_cast<uint64_t>(v.offset);
  for (size_t i = 0; i < module_.data.size(); ++i)
    if (module_.data[i].name == name) return buffer_address(code.pointers + i);
  for (size_t i = code.pointers; i < code.params.size(); ++i)
    if (code.params[i] == name) return map_address(i - code.pointers);
  return std::nullopt;
}
int32_t Selector::value(const Operand& o, int bytes) {
  switch (o.kind) {
    case Operand::Kind::kRegister: {
      int width = 0;
      const int32_t place = any_register(o, width);
      if (width != bytes)
        fail(fmt::format("an operand of {} has {} bits, its register {}", s.opcode, 8 * bytes, 8 * width));
      return place;
    }
    case Operand::Kind::kInteger:
      return constant(o.value, bytes);
    case Operand::Kind::kFloat:
      if (bytes == 8)
        return constant(
            std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(o.value)))), 8);
      if (bytes != 4) fail(fmt::format("{} takes no 32-bit real", s.opcode));
      return constant(o.value, 4);
    case Operand::Kind::kDouble:
      if (bytes == 4) return constant(std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(o.value))), 4);
      if (bytes != 8) fail(fmt::format("{} takes no 64-bit real", s.opcode));
      return constant(o.value, 8);
    case Operand::Kind::kSymbol:
      if (const auto address = symbol_address(o.name)) return constant(*address + o.value, bytes);
      fail(fmt::format("unknown name '{}'", o.name));
      return constant(0, bytes);
    case Operand::Kind::kVector:
    case Operand::Kind::kAddress:
    case Operand::Kind::kSink:
      break;
  }
  fail(fmt::format("an operand of {} has no value", s.opcode));
  return constant(0, bytes);
}
int32_t Selector::predicate_result(size_t n) {
  const Operand& o = at(n);
  if (o.kind == Operand::Kind::kSink) return code.predicates++;
  if (o.kind == Operand::Kind::kRegister && o.reg.type == Type::kPred && !o.negated) {
    writes.push_back(predicate_value(o.reg.place));
    return o.reg.place;
  }
  fail(fmt::format("operand {} of {}: expected a predicate", n + 1, s.opcode));
  return 0;
}
int32_t Selector::predicate(size_t n, bool& negated) {
  const Operand& o = at(n);
  negated = o.negated;
  if (o.kind == Operand::Kind::kRegister && o.reg.type == Type::kPred) return o.reg.place;
  fail(fmt::format("operand {} of {}: expected a predicate", n + 1, s.opcode));
  return 0;
}
int32_t Selector::second_predicate(size_t n) {
  const std::vector<Operand>& second = at(n).second;
  if (second.empty() || second[0].kind == Operand::Kind::kSink) return -1;
  if (second[0].kind == Operand::Kind::kRegister && second[0].reg.type == Type::kPred) {
    writes.push_back(predicate_value(second[0].reg.place));
    return second[0].reg.place;
  }
  fail(fmt::format("the second result of {}: expected a predicate", s.opcode));
  return -1;
}
std::optional<int64_t> Selector::literal(size_t n) {
  const Operand& o = at(n);
  if (o.kind == Operand::Kind::kInteger) return static_cast<int64_t>(o.value);
  fail(fmt::format("operand {} of {}: expected a number", n + 1, s.opcode));
  return std::nullopt;
}
void Selector::address(size_t n, Field base) {
  const Operand& o = at(n);
  ins.*base = constant(0, 8);
  if (o.kind != Operand::Kind::kAddress)
    return fail(fmt::format("operand {} of {}: expected an address", n + 1, s.opcode));
  ins.imm = static_cast<int64_t>(o.value);
  if (o.based) {
    int bytes = 8;
    ins.*base = any_register(Operand{.kind = Operand::Kind::kRegister, .reg = o.reg, .parts = {}, .second = {}}, bytes);
    if (bytes < 4) fail(fmt::format("{} takes addresses of 32 or 64 bits", s.opcode));
    ins.wide = bytes == 8;
  } else if (!o.name.empty()) {
    const auto symbol = symbol_address(o.name);
    if (!symbol) return fail(fmt::format("unknown name '{}'", o.name));
    ins.imm = static_cast<int64_t>(*symbol + o.value);
  }
}

namespace {

// The accumulators that products write asynchronously, by number; and who names them beside the products.
class Accumulators {
 public:
  explicit Accumulators(KernelCode& code) : code_(code) {
    for (ProductCode& p : code.products)
      for (int n = 0; n < p.columns / 2; ++n) {
        const int32_t place = code.extra[static_cast<size_t>(p.d + n)];
        p.accumulators.push_back(numbers_.try_emplace(place, static_cast<int32_t>(numbers_.size())).first->second);
      }
    code.accumulators = static_cast<int32_t>(numbers_.size());
    code.uses.assign(1, {});
  }
  void note(const Statement& s, Ins& ins) {
    found_.clear();
    for (const Operand& o : s.operands) look(o);
    if (found_.empty()) return;
    ins.uses = static_cast<int32_t>(code_.uses.size());
    code_.uses.push_back(found_);
  }

 private:
  void look(const Operand& o) {
    if (o.kind == Operand::Kind::kRegister || (o.kind == Operand::Kind::kAddress && o.based)) {
      const auto number = numbers_.find(o.reg.place);
      if (number != numbers_.end() && o.reg.type != Type::kPred) found_.push_back(number->second);
    }
    for (const Operand& part : o.parts) look(part);
    for (const Operand& part : o.second) look(part);
  }

  KernelCode& code_;
  std::map<int32_t, int32_t> numbers_;  // by place
  std::vector<int32_t> found_;
};

// `uses`: an undefined operand is a finding (Flow::Rule::kUses); other instructions compute values.
struct FamilyRow {
  std::string_view base;
  void (*select)(Selector&);
  bool uses = false;
};
constexpr FamilyRow kFamilies[] = {
    {"and", select_logic},
    {"or", select_logic},
    {"xor", select_logic},
    {"not", select_logic},
    {"mov", select_logic},
    {"setp", select_logic},
    {"selp", select_logic},
    {"rcp", select_real},
    {"sqrt", select_real},
    {"rsqrt", select_real},
    {"ex2", select_real},
    {"lg2", select_real},
    {"sin", select_real},
    {"cos", select_real},
    {"tanh", select_real},
    {"copysign", select_real},
    {"cvt", select_convert},
    {"cvta", select_convert},
    {"ld", select_memory, true},
    {"st", select_memory, true},
    {"atom", select_memory, true},
    {"red", select_memory, true},
    {"fence", select_memory, true},
    {"membar", select_memory, true},
    {"prefetch", select_memory, true},
    {"cp", select_copy, true},
    {"mbarrier", select_mbarrier, true},
    {"mapa", select_mbarrier, true},
    {"elect", select_mbarrier, true},
    {"setmaxnreg", select_mbarrier, true},
    {"wgmma", select_wgmma, true},
    {"shfl", select_warp, true},
    {"vote", select_warp, true},
    {"match", select_warp, true},
    {"activemask", select_warp, true},
    {"redux", select_warp, true},
    {"bar", select_warp, true},
    {"barrier", select_warp, true},
    {"mma", select_matrix, true},
    {"ldmatrix", select_matrix, true},
    {"wmma", select_wmma, true},
};

// Of other families the type that an opcode ends with decides between integers and reals.
bool ends_in_real(std::string_view opcode) {
  for (std::string_view type : {".f16", ".bf16", ".f16x2", ".bf16x2", ".f32", ".f64"})
    if (opcode.ends_with(type)) return true;
  return false;
}

using Labels = std::map<std::pair<int32_t, std::string_view>, int32_t>;  // (scope, name) -> instruction

// bra, ret, exit, trap. False: none of them.
Result<bool> select_jump(const Statement& s, const Body& body, const Labels& labels, Ins& ins) {
  if (s.opcode == "ret" || s.opcode == "exit") {
    ins.kind = Kind::kExit;
    return true;
  }
  if (s.opcode != "bra" && s.opcode != "bra.uni") return false;
  ins.kind = Kind::kBranch;
  if (s.operands.size() != 1 || s.operands[0].kind != Operand::Kind::kSymbol)
    return ptx_error(s.line, "a branch goes to a label");
  for (int32_t scope = s.scope; scope >= 0; scope = body.outer_scope[static_cast<size_t>(scope)]) {
    const auto label = labels.find({scope, s.operands[0].name});
    if (label == labels.end()) continue;
    ins.target = label->second;
    return true;
  }
  return ptx_error(s.line, fmt::format("unknown label '{}'", s.operands[0].name));
}

Result<Ins> select_one(const Statement& s, const Body& body, const PtxModule::Impl& module, Places& places,
                       KernelCode& code, Flow& flow) {
  Selector x(s, body, module, places, code);
  const std::string_view base = x.op.base();
  const auto row =
      std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const FamilyRow& r) { return r.base == base; });
  (row != std::end(kFamilies) ? row->select : ends_in_real(s.opcode) ? select_real : select_integer)(x);
  if (x.ins.run == nullptr && x.ins.poll == nullptr && x.ins.kind == Kind::kPlain)
    return ptx_error(s.line, fmt::format("unknown instruction '{}'", s.opcode));
  if (x.failed()) return ptx_error(s.line, x.error());
  flow = flow_of(s, std::move(x.writes), row != std::end(kFamilies) && row->uses);
  return x.ins;
}

}  // namespace

Result<void> select_code(const Body& body, const PtxModule::Impl& module, Places& places, KernelCode& code) {
  Labels labels;
  for (size_t i = 0; i < body.statements.size(); ++i) {
    const Statement& s = body.statements[i];
    if (s.opcode.empty() && !labels.emplace(std::pair(s.scope, s.name), static_cast<int32_t>(i)).second)
      return ptx_error(s.line, fmt::format("the label '{}' is defined twice", s.name));
  }
  for (const Statement& s : body.statements) {
    Ins ins;
    Flow flow;
    if (s.opcode.empty()) {
      ins.kind = Kind::kLabel;
    } else {
      TCC_TRY(const bool jump, select_jump(s, body, labels, ins));
      if (!jump) {
        TCC_TRY(ins, select_one(s, body, module, places, code, flow));
      }
    }
    ins.guard = s.guard;
    ins.guard_negated = s.guard_negated;
    ins.line = s.line;
    code.code.push_back(ins);
    code.flows.push_back(std::move(flow));
  }
  if (!code.products.empty()) {
    Accumulators accumulators(code);
    for (size_t i = 0; i < body.statements.size(); ++i)
      if (!body.statements[i].opcode.starts_with("wgmma")) accumulators.note(body.statements[i], code.code[i]);
  }
  Ins end;
  end.kind = Kind::kExit;
  end.line = body.statements.empty() ? 0 : body.statements.back().line;
  code.code.push_back(end);
  code.flows.emplace_back();
  return {};
}

}  // namespace tcc::emulation
