// From a statement to an instruction: its opcode taken apart, its operands as places.
#pragma once

#include <algorithm>
#include "emulation/ptx_text.h"

namespace tcc::emulation {

// "ld.global.nc.v4.f32": base "ld", then modifiers that the one who knows them takes.
class Opcode {
 public:
  explicit Opcode(std::string_view text);
  std::string_view base() const { return parts_[0]; }
  bool take(std::string_view modifier);
  std::optional<Type> take_type();  // the first type among what is left
  bool done() const;                // nothing is left
  // Takes the first of the given modifiers that appears; its number, or -1.
  int take_one(std::initializer_list<std::string_view> modifiers);

 private:
  std::vector<std::string_view> parts_;
};

class Selector {
 public:
  Selector(const Statement& statement, const Body& body, const PtxModule::Impl& module, Places& places,
           KernelCode& code)
      : op(statement.opcode), s(statement), code(code), body_(body), module_(module), places_(places) {}

  Opcode op;
  const Statement& s;
  KernelCode& code;
  Ins ins;
  std::vector<int32_t> writes;  // as Flow names values

  size_t operands() const { return s.operands.size(); }
  // Places of operands; the first failure is kept and ends the statement.
  int32_t result(size_t n, int bytes);  // a register; `_` gets a row that nobody reads
  int32_t value(size_t n, int bytes) { return value(at(n), bytes); }
  int32_t value(const Operand& o, int bytes);  // register, literal or the address of a variable
  int32_t predicate_result(size_t n);
  int32_t predicate(size_t n, bool& negated);          // the number of a source predicate
  int32_t any_register(const Operand& o, int& bytes);  // of whatever width
  int32_t any_result(const Operand& o, int& bytes);    // a register that is written
  const Operand& at(size_t n);
  int32_t constant(uint64_t value, int bytes) { return places_.constant(value, bytes); }
  int32_t scratch(int bytes) { return places_.new_row(bytes); }
  int32_t result_of(const Operand& o, int bytes);
  std::optional<int64_t> literal(size_t n);
  bool is_unused(const Operand& o) const {
    return o.kind == Operand::Kind::kSink || (o.kind == Operand::Kind::kRegister && places_.is_unused(o.reg.place));
  }
  // The address operand into ins.a, ins.wide and ins.imm.
  using Field = decltype(&Ins::a);
  void address(size_t n, Field base = &Ins::a);
  static constexpr Field kPlaces[] = {&Ins::a, &Ins::b, &Ins::c};
  void need(size_t least, size_t most);  // number of operands
  void need(size_t count) { need(count, count); }
  // A result into ins.d, then as many values as `bytes` has widths into ins.a, b and c. take_: these are all operands.
  void set_operands(int result_bytes, std::initializer_list<int> bytes);
  void take_operands(int result_bytes, std::initializer_list<int> bytes) {
    need(bytes.size() + 1);
    set_operands(result_bytes, bytes);
  }
  // All operands and the result have one width.
  void take_same_operands(int bytes, size_t count) {
    need(count + 1);
    ins.d = result(0, bytes);
    for (size_t n = 0; n < count; ++n) ins.*kPlaces[n] = value(n + 1, bytes);
  }
  // The predicate b of a result a|b; -1: it has none, or none that is kept.
  int32_t second_predicate(size_t n);
  void begin_extra() { ins.extra = static_cast<int32_t>(code.extra.size()); }  // what follows is the instruction's own
  // The smallest access to shared memory, which its granules follow.
  void note_shared(int granule) { code.shared_granule = std::min(code.shared_granule, granule); }
  void fail(std::string text);
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  std::optional<uint64_t> symbol_address(std::string_view name) const;

  const Body& body_;
  const PtxModule::Impl& module_;
  Places& places_;
  std::string error_;
  Operand sink_;
};

// What the statement reads and writes (ptx_undefined.cpp).
Flow flow_of(const Statement& s, std::vector<int32_t> writes, bool uses);

// Each takes the instructions of its family: sets ins.run (or kind) and operands, and leaves ins.run null when the
// opcode is unknown to it.
void select_integer(Selector& x);
void select_real(Selector& x);
void select_logic(Selector& x);     // setp, selp, predicates, mov
void select_convert(Selector& x);   // cvt, cvta
void select_memory(Selector& x);    // ld, st, atom, red, fences
void select_copy(Selector& x);      // cp.async
void select_warp(Selector& x);      // shfl, vote, match, barriers
void select_matrix(Selector& x);    // mma, ldmatrix
void select_mbarrier(Selector& x);  // mbarrier, mapa, elect, setmaxnreg, barrier.cluster, fences of proxies
void select_tensor(Selector& x);    // cp.async.bulk
void select_wgmma(Selector& x);
void select_wmma(Selector& x);

}  // namespace tcc::emulation
