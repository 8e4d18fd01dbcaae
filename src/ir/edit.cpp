#include "tcc/ir/edit.h"

#include <fmt/format.h>

namespace tcc::ir {

Id KernelEditor::named(Id from, int32_t part, const char* text) {
  const Id id = k.next_id++;
  k.names = b.arena().make<NameHint>(k.names, id, from, part, text);
  return id;
}

Id KernelEditor::fresh_named(std::string_view text) {
  const std::string terminated(text);
  const auto copy = b.arena().copy(std::span<const char>(terminated.c_str(), terminated.size() + 1));
  return named(kNoId, 0, copy.data());
}

const Buffer* KernelEditor::add_buffer(const Buffer& fields) {
  const Buffer* made = b.buffer(fields);
  add_buffers(std::span(&made, 1));
  return made;
}

void KernelEditor::add_buffers(std::span<const Buffer* const> buffers) {
  std::vector<const Buffer*> all(k.buffers.begin(), k.buffers.end());
  all.insert(all.end(), buffers.begin(), buffers.end());
  k.buffers = b.arena().copy(all);
}

const Buffer* KernelEditor::add_temporary(const Buffer& like, std::string_view name, Scope scope,
                                          std::span<const Expr> shape) {
  Buffer fields{fresh_named(name), like.type, scope, BufferRole::kTemp, shape, nullptr, 64, {}};
  return add_buffer(fields);
}

void KernelEditor::map_buffers(FunctionRef<bool(Buffer&)> f) {
  std::vector<const Buffer*> buffers;
  bool any = false;
  for (const Buffer* old : k.buffers) {
    Buffer fields = *old;
    const bool changed = f(fields);
    buffers.push_back(changed ? b.buffer(fields) : old);
    any |= changed;
  }
  if (any) k.buffers = b.arena().copy(buffers);
}

void KernelEditor::replace_buffer(const Buffer& fields) {
  map_buffers([&](Buffer& old) {
    if (old.id == fields.id) old = fields;
    return old.id == fields.id;
  });
}

void KernelEditor::drop_buffer(Id id) {
  std::vector<const Buffer*> rest;
  for (const Buffer* x : k.buffers)
    if (x->id != id) rest.push_back(x);
  k.buffers = b.arena().copy(rest);
}

Stmt KernelEditor::copy_nest(std::string_view name, std::span<const Expr> shape, Id& block,
                             FunctionRef<Stmt(std::span<const Expr>)> body) {
  block = fresh_named(name);
  std::vector<Iter> iters;
  std::vector<Id> loops;
  std::vector<Expr> at;
  for (size_t d = 0; d < shape.size(); ++d) {
    loops.push_back(fresh_named(fmt::format("c{}", d)));
    const Id it = fresh_named(fmt::format("vc{}", d));
    iters.push_back({it, IterKind::kSpatial, shape[d], b.var(loops.back())});
    at.push_back(b.var(it));
  }
  Stmt nest = b.block(block, iters, body(at));
  for (size_t d = loops.size(); d-- > 0;) nest = b.loop(loops[d], shape[d], nest);
  return nest;
}

}  // namespace tcc::ir
