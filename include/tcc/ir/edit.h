// A kernel under construction: fresh ids with names, buffers that come and go, and the builder for its nodes.
#pragma once

#include <string_view>

#include "tcc/ir/walk.h"

namespace tcc::ir {

class KernelEditor {
 public:
  // New nodes go into `arena`, which the kernel holds from then on.
  KernelEditor(const Kernel& kernel, const ArenaPtr& arena) : k(kernel), b(*arena) { k.arena = arena; }

  // Named after `from`: "<name of from>_<part>".
  Id fresh(Id from, int32_t part = 1) { return named(from, part, nullptr); }
  Id fresh_named(std::string_view text);

  // Behind the other buffers. Returns what is in the kernel now.
  const Buffer* add_buffer(const Buffer& fields);
  void add_buffers(std::span<const Buffer* const> buffers);
  // A temporary with the elements and the dimensions of `like` where fields do not say otherwise: without a layout, its
  // first element aligned to 64 bytes.
  const Buffer* add_temporary(const Buffer& like, std::string_view name, Scope scope, std::span<const Expr> shape);
  // Applies f to the fields of every buffer; f returns whether it changed them.
  void map_buffers(FunctionRef<bool(Buffer&)> f);
  void replace_buffer(const Buffer& fields);
  void drop_buffer(Id id);

  // A copy of `shape` elements: one serial loop c<d> for each dimension around a block `name` with the iterators vc<d>,
  // whose body is body(iterators). `block` gets its id.
  Stmt copy_nest(std::string_view name, std::span<const Expr> shape, Id& block,
                 FunctionRef<Stmt(std::span<const Expr>)> body);

  Kernel finish(Stmt root) {
    k.root = root;
    return k;
  }

  Kernel k;
  Builder b;

 private:
  Id named(Id from, int32_t part, const char* text);
};

}  // namespace tcc::ir
