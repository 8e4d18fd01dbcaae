// Values that nothing has defined: loads of bytes that nothing has written, and what is computed of them.
//
// A read of such bytes is a finding only if its value is used, as in Memcheck (Seward and Nethercote, USENIX 2005). The
// compiler may load from shared memory above the condition that guards the load, because the address is valid, and
// drop the value where the condition fails:
//
//   x = inside ? s[0] : 0; if (inside) use(x)    ->    x = s[0]; if (inside) use(x)
//
// Arithmetic passes an undefined value on. It is used as an address, by a store, by a branch or guard, by a barrier,
// and by instructions in which other lanes see it.
#include <algorithm>

#include "emulation/ptx_machine.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

using Rule = Flow::Rule;

Rule rule_of(std::string_view opcode, bool uses) {
  if (uses) return Rule::kUses;
  if (opcode.starts_with("selp")) return Rule::kChooses;
  if (opcode == "and.pred") return Rule::kAnd;
  if (opcode == "or.pred") return Rule::kOr;
  return Rule::kPasses;
}

void collect(const Operand& o, std::vector<int32_t>& values) {
  if (o.kind == Operand::Kind::kRegister || (o.kind == Operand::Kind::kAddress && o.based))
    values.push_back(o.reg.type == Type::kPred ? predicate_value(o.reg.place) : o.reg.place);
  for (const Operand& part : o.parts) collect(part, values);
  for (const Operand& part : o.second) collect(part, values);
}

uint32_t undefined_lanes(const Warp& w, int32_t value) {
  const auto at = w.undefined.find(value);
  return at == w.undefined.end() ? 0 : at->second.lanes;
}

// Lanes in which an operand that is undefined matters to the result.
uint32_t lanes_that_matter(const Warp& w, const Ins& ins, Rule rule, int32_t value) {
  if (rule == Rule::kChooses) {
    if (value == predicate_value(ins.c)) return kAllLanes;
    const uint32_t first = ins.mode != 0 ? ~w.preds[ins.c] : w.preds[ins.c];
    return (value == ins.a ? first : 0) | (value == ins.b ? ~first : 0);
  }
  if (rule == Rule::kAnd || rule == Rule::kOr) {
    const bool is_first = value == predicate_value(ins.a);
    const int32_t other = is_first ? ins.b : ins.a;
    const uint32_t held = (ins.mode & (is_first ? 2 : 1)) != 0 ? ~w.preds[other] : w.preds[other];
    return undefined_lanes(w, predicate_value(other)) | (rule == Rule::kAnd ? held : ~held);
  }
  return kAllLanes;
}

// A finding at the load, and no second one.
void use(Machine& m, Warp& w, const Ins& ins, int32_t value, uint32_t lanes) {
  const auto at = w.undefined.find(value);
  if (at == w.undefined.end()) return;
  const uint32_t used = at->second.lanes & lanes;
  if (used == 0) return;
  const UndefinedLoad& load = *at->second.load;
  m.report(FindingKind::kUninitialised, w, std::countr_zero(used), *load.ins,
           fmt::format("{}, and PTX line {} uses it", load.what, ins.line));
  if ((at->second.lanes &= ~used) == 0) w.undefined.erase(at);
}

}  // namespace

Flow flow_of(const Statement& s, std::vector<int32_t> writes, bool uses) {
  Flow flow;
  flow.rule = rule_of(s.opcode, uses);
  flow.writes = std::move(writes);
  for (size_t n = 0; n < s.operands.size(); ++n) {
    std::vector<int32_t> values;
    collect(s.operands[n], values);
    for (const int32_t value : values)
      if (n > 0 || std::find(flow.writes.begin(), flow.writes.end(), value) == flow.writes.end())
        flow.reads.push_back(value);
  }
  return flow;
}

void Machine::follow_undefined(Warp& w, const Ins& ins, uint32_t lanes, uint32_t active) {
  if (ins.guard >= 0) use(*this, w, ins, predicate_value(ins.guard), lanes);
  if (active == 0) return;
  const Flow& flow = kernel->flows[static_cast<size_t>(&ins - kernel->code.data())];
  UndefinedValue result;
  for (const int32_t value : flow.reads) {
    if (flow.rule == Rule::kUses) {
      use(*this, w, ins, value, active);
      continue;
    }
    const uint32_t here = undefined_lanes(w, value) & active & lanes_that_matter(w, ins, flow.rule, value);
    if (here == 0) continue;
    result.lanes |= here;
    result.load = w.undefined.at(value).load;
  }
  for (const int32_t value : flow.writes) {
    const auto at = w.undefined.find(value);
    if (at == w.undefined.end()) {
      if (result.lanes != 0) w.undefined.emplace(value, result);
      continue;
    }
    at->second.lanes = (at->second.lanes & ~active) | result.lanes;
    if (result.lanes != 0) at->second.load = result.load;
    if (at->second.lanes == 0) w.undefined.erase(at);
  }
}

}  // namespace tcc::emulation
