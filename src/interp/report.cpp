// Findings and their texts.
#include <fmt/format.h>

#include "interp/launch.h"
#include "interp/machine.h"
#include "tcc/ir/text.h"

namespace tcc::interp {

std::string_view finding_name(Finding::Kind kind) {
  switch (kind) {
#define TCC_X(name, text)      \
  case Finding::Kind::k##name: \
    return text;
    TCC_INTERP_FINDINGS(TCC_X)
#undef TCC_X
  }
  return "";
}

bool Report::has(Finding::Kind kind) const {
  for (const Finding& f : findings)
    if (f.kind == kind) return true;
  return false;
}
std::string Report::text() const {
  std::string out;
  for (const Finding& f : findings) {
    out +=
        fmt::format("{}: {}{}\n", finding_name(f.kind), f.text, f.count > 1 ? fmt::format(" ({} times)", f.count) : "");
  }
  return out;
}

bool Findings::wanted(Finding::Kind kind, ir::Stmt stmt, int32_t slot) {
  const auto known = known_.find({static_cast<int>(kind), stmt, slot});
  if (known != known_.end()) {
    ++out_[known->second].count;
    return false;
  }
  return static_cast<int>(out_.size()) < max_;
}
void Findings::add(Finding::Kind kind, ir::Stmt stmt, int32_t slot, std::string text) {
  known_.emplace(std::tuple(static_cast<int>(kind), stmt, slot), out_.size());
  out_.push_back({kind, std::move(text), 1});
}

std::string Machine::element(int32_t slot, int64_t address) const {
  if (slot < 0) return "";
  if (operand_names != nullptr) {
    return fmt::format("operand {}, element {}: ", (*operand_names)[static_cast<size_t>(slot)], address);
  }
  const std::string name = ir::name_hint(info->kernel, info->slots[static_cast<size_t>(slot)]->id);
  if (address < 0) return name + ": ";
  return fmt::format("{}[{}]: ", name, fmt::join(shapes[static_cast<size_t>(slot)].index_of(address), ", "));
}

std::string Machine::where(const Thread& t, const Ins* at) const {
  std::string text;
  if (t.block != nullptr) {
    text =
        fmt::format("block ({}, {}, {}) thread {}, ", t.block->grid[0], t.block->grid[1], t.block->grid[2], t.in_block);
  }
  const ir::Stmt s = region->code.origin[static_cast<size_t>(at - region->code.ins.data())];
  if (s == nullptr) return text + "at entry";
  std::string statement = ir::print(info->kernel, s);
  if (statement.size() > 400) statement = statement.substr(0, 400) + " ...";
  while (!statement.empty() && statement.back() == '\n') statement.pop_back();
  return text + "at: " + statement;
}

void Machine::report(Finding::Kind kind, const Thread& t, const Ins* at, int32_t slot, int64_t address,
                     const std::string& what) {
  const Machine& place = outer != nullptr ? *outer : *this;
  const Thread& thread = outer != nullptr ? *outer_thread : t;
  const Ins* ins = outer != nullptr ? outer_at : at;
  const ir::Stmt s = place.region->code.origin[static_cast<size_t>(ins - place.region->code.ins.data())];
  if (kind == Finding::Kind::kRace && !place.region->simt && place.region->reductions.contains(s)) {
    kind = Finding::Kind::kReductionOrder;
  }
  if (!findings->wanted(kind, s, slot)) return;
  findings->add(kind, s, slot, element(slot, address) + what + ", " + place.where(thread, ins));
}

}  // namespace tcc::interp
