// PTX text as tokens, and as statements whose names are resolved.
#pragma once

#include <map>
#include <unordered_map>

#include "emulation/ptx_code.h"
#include "tcc/support/result.h"

namespace tcc::emulation {

struct Token {
  enum class Kind : uint8_t { kWord, kInteger, kFloat, kDouble, kString, kPunctuation, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;
  uint64_t value = 0;
  int32_t line = 0;
};
Result<std::vector<Token>> split_ptx(std::string_view text);

inline tl::unexpected<Error> ptx_error(int32_t line, std::string message) {
  return make_error(ErrorClass::kInput, fmt::format("PTX line {}: {}", line, message));
}

struct RegisterName {
  Type type = Type::kB32;  // as declared
  int32_t place = 0;       // row, or number of a predicate
};

struct Operand {
  enum class Kind : uint8_t { kRegister, kInteger, kFloat, kDouble, kSymbol, kVector, kAddress, kSink };
  Kind kind = Kind::kSink;
  RegisterName reg;             // kRegister, and the base of kAddress when `based`
  bool based = false;           // kAddress: reg is the base
  bool negated = false;         // a predicate
  uint64_t value = 0;           // literals; what is added to an address or symbol
  std::string_view name;        // kSymbol, and the base of kAddress
  std::vector<Operand> parts;   // kVector; kAddress: coordinates
  std::vector<Operand> second;  // a|b: b
};

struct Statement {
  std::string_view opcode;  // empty: the label `name`
  std::string_view name;
  int32_t guard = -1;
  bool guard_negated = false;
  std::vector<Operand> operands;
  int32_t line = 0;
  int32_t scope = 0;  // labels are known in their scope and those inside it
};

// A kernel as parsed: its statements, its registers laid out.
struct Body {
  std::vector<Statement> statements;
  std::vector<Variable> shared, local;
  std::vector<int32_t> outer_scope;  // by scope; -1: none
};

// Rows of registers and constants of one kernel, made as they are first used.
class Places {
 public:
  explicit Places(KernelCode& code) : code_(code) {}
  int32_t new_row(int bytes);  // of an element
  int32_t new_predicate() { return code_.predicates++; }
  int32_t constant(uint64_t value, int bytes);
  int32_t special(Special which);
  void mention(int32_t row) { ++mentions_[row]; }
  // A register that the text names once is written and never read.
  bool is_unused(int32_t row) const { return mentions_.contains(row) && mentions_.at(row) == 1; }

 private:
  KernelCode& code_;
  std::unordered_map<int32_t, int32_t> mentions_;
  std::map<std::pair<uint64_t, int>, int32_t> constants_;
};

// Statements -> code.
Result<void> select_code(const Body& body, const PtxModule::Impl& module, Places& places, KernelCode& code);

}  // namespace tcc::emulation
