// Shared by the CUDA tests.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "gpu/kernels.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/build.h"

namespace tcc::codegen::testing {

inline target::Target gpu(const char* name) {
  return target::find_target(name).value();
}

// The emitted text after the prelude.
inline std::string kernel_text(const ir::Kernel& kernel, const char* target = "h200") {
  auto source = emit_cuda_source(kernel, gpu(target));
  if (!source) FAIL(source.error().message);
  return source->text.substr(source->text.find("extern \"C\""));
}
inline size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// A kernel under construction at Stage::Lowered with 16-byte aligned buffers.
struct Draft {
  ir::KernelBuilder kb;
  ir::Builder& b = kb.b();
  const ir::Buffer* buffer(const char* name, ir::Type type, std::vector<int64_t> shape, ir::BufferRole role,
                           ir::Scope scope = ir::Scope::kGlobal) {
    return kb.add_buffer(name, type, shape, role, scope);
  }
  ir::Expr num(int64_t v) { return b.integer(v); }
  ir::Expr load(const ir::Buffer* from, std::vector<ir::Expr> at) { return b.load(*from, at); }
  ir::Stmt store(const ir::Buffer* to, std::vector<ir::Expr> at, ir::Expr value, ir::Expr predicate = nullptr) {
    return b.store(to->id, at, value, predicate);
  }
  ir::Kernel finish(ir::Stmt root, int32_t alignment = 16) {
    ir::Kernel k = kb.finish(root);
    std::vector<const ir::Buffer*> buffers;
    for (const ir::Buffer* old : k.buffers) {
      ir::Buffer copy = *old;
      copy.alignment = std::max(copy.alignment, alignment);
      buffers.push_back(b.buffer(copy));
    }
    k.buffers = b.arena().copy(buffers);
    k.stage = ir::Stage::kLowered;
    return k;
  }
};

}  // namespace tcc::codegen::testing
