#include "tcc/analysis/memory_hints.h"

#include <algorithm>
#include <map>

#include "tcc/analysis/lanes.h"

namespace tcc::analysis {
namespace {

using namespace ir;

constexpr int64_t kMaxElements = 4096;

struct MemoryAccess {
  Id buffer;
  std::span<const Expr> indices;
  bool write;
};

std::vector<MemoryAccess> accesses_of(Stmt body) {
  std::vector<MemoryAccess> found;
  visit(body, [&](Stmt s) {
    if (const Store* st = as<Store>(s)) found.push_back({st->buffer, st->indices, true});
    return true;
  });
  visit_loads(body, [&](const Load& load) { found.push_back({load.buffer, load.indices, false}); });
  return found;
}

// The elements that a linear address touches while the loops of `inner` run, as offsets from its uniform part;
// empty when there are too many or the address is not linear in them.
std::set<int64_t> touched_offsets(Builder& b, Expr flat, const std::map<Id, int64_t>& inner, Expr& uniform) {
  std::vector<Term> rest;
  int64_t constant = 0;
  std::set<int64_t> offsets{0};
  auto add = [&](const Term& t) {
    bool moves = false;
    for (const auto& [id, extent] : inner) moves |= mentions(t.atom, id);
    if (!moves) {
      rest.push_back(t);
      return true;
    }
    const Var* v = as<Var>(t.atom);
    if (v == nullptr || static_cast<int64_t>(offsets.size()) * inner.at(v->id) > kMaxElements) return false;
    std::set<int64_t> next;
    for (int64_t o : offsets)
      for (int64_t i = 0; i < inner.at(v->id); ++i) next.insert(o + i * t.coefficient);
    offsets = std::move(next);
    return true;
  };
  if (const Sum* s = as<Sum>(flat)) {
    constant = s->constant;
    for (const Term& t : s->terms)
      if (!add(t)) return {};
  } else if (!add({1, flat})) {
    return {};
  }
  uniform = b.sum(constant, rest);
  return offsets;
}

}  // namespace

std::set<Id> streamed_buffers(Stmt s, FunctionRef<bool(Id)> in_memory) {
  std::set<Id> written, read;
  for (const MemoryAccess& a : accesses_of(s)) (a.write ? written : read).insert(a.buffer);
  visit(s, [&](Stmt part) {
    if (const InstrCall* call = as<InstrCall>(part))
      for (const Operand& o : call->operands) read.insert(o.buffer);
    return true;
  });
  std::erase_if(written, [&](Id id) { return read.contains(id) || !in_memory(id); });
  return written;
}

std::vector<LinesAhead> lines_ahead(Builder& b, const Kernel& kernel, const Ranges& ranges, const Loop& l,
                                    int64_t distance, int64_t line_bytes, FunctionRef<bool(Id)> in_memory) {
  std::map<Id, int64_t> inner;
  bool constant = true;
  visit(l.body, [&](Stmt s) {
    const Loop* c = as<Loop>(s);
    if (c == nullptr) return true;
    constant &= is_int(c->extent);
    inner[c->id] = constant ? int_value(c->extent) : 0;
    return constant;
  });
  if (!constant) return {};
  Substitution ahead;
  ahead.set(l.id, b.offset(b.var(l.id), distance));
  std::vector<LinesAhead> out;
  for (const MemoryAccess& a : accesses_of(l.body)) {
    if (!in_memory(a.buffer)) continue;
    const Buffer& buffer = *kernel.buffer(a.buffer);
    if (buffer.layout != nullptr && !buffer.layout->xors.empty()) continue;
    const Expr flat = flatten(b, buffer, row_major_strides(buffer), a.indices, ranges);
    if (!mentions(flat, l.id)) continue;
    LinesAhead lines{&buffer, a.write, nullptr, {}};
    const int64_t length = std::max<int64_t>(1, line_bytes / type_bytes(buffer.type));
    for (int64_t o : touched_offsets(b, substitute(b, flat, ahead), inner, lines.uniform))
      if (lines.starts.empty() || o >= lines.starts.back() + length) lines.starts.push_back(o);
    if (!lines.starts.empty()) out.push_back(std::move(lines));
  }
  return out;
}

}  // namespace tcc::analysis
