// Small Lowered kernels for the tests of codegen, and a way to run them in this process.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "skip.h"
#include "tcc/codegen/llvm.h"
#include "tcc/ir/build.h"
#include "tcc/lower/pass.h"
#include "tcc/target/target.h"

namespace tcc::codegen {

// Storage with the alignment that code may assume of weights and workspace.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{64}); }
  bool operator==(const AlignedAllocator&) const { return true; }
};
template <class T>
using Aligned = std::vector<T, AlignedAllocator<T>>;

class Nest {
 public:
  ir::Builder& b() { return kernel_.b(); }
  const ir::Buffer* buffer(const char* name, ir::Type type, std::vector<int64_t> shape, ir::BufferRole role) {
    auto scope = role == ir::BufferRole::kTemp ? ir::Scope::kLocal : ir::Scope::kGlobal;
    return kernel_.add_buffer(name, type, shape, role, scope);
  }
  const ir::Buffer* workspace(const char* name, ir::Type type, std::vector<int64_t> shape) {
    return kernel_.add_buffer(name, type, shape, ir::BufferRole::kTemp, ir::Scope::kWorkspace);
  }
  const ir::Buffer* input(const char* name, ir::Type type, std::vector<int64_t> shape) {
    return buffer(name, type, std::move(shape), ir::BufferRole::kInput);
  }
  const ir::Buffer* output(const char* name, ir::Type type, std::vector<int64_t> shape) {
    return buffer(name, type, std::move(shape), ir::BufferRole::kOutput);
  }
  ir::Stmt loop(int64_t extent, ir::LoopKind kind, const std::function<ir::Stmt(ir::Expr)>& body) {
    return loop(b().integer(extent), kind, body);
  }
  ir::Stmt loop(ir::Expr extent, ir::LoopKind kind, const std::function<ir::Stmt(ir::Expr)>& body) {
    ir::Id id = kernel_.new_id("i");
    return b().loop(id, extent, body(b().var(id)), kind);
  }
  ir::Expr load(const ir::Buffer* buffer, std::vector<ir::Expr> indices) { return b().load(*buffer, indices); }
  ir::Stmt store(const ir::Buffer* buffer, std::vector<ir::Expr> indices, ir::Expr value,
                 ir::Expr predicate = nullptr) {
    return b().store(buffer->id, indices, value, predicate);
  }
  ir::Stmt seq(std::vector<ir::Stmt> stmts) { return b().seq(stmts); }
  ir::Stmt alloc(std::vector<const ir::Buffer*> buffers, ir::Stmt body) {
    std::vector<ir::Id> ids;
    for (const ir::Buffer* buffer : buffers) ids.push_back(buffer->id);
    return b().alloc(ids, body);
  }
  ir::Expr call(ir::Intrinsic fn, std::vector<ir::Expr> args) { return b().call(fn, args); }
  ir::Expr i(int64_t value) { return b().integer(value); }
  // index = outer * factor + inner
  ir::Expr at(ir::Expr outer, int64_t factor, ir::Expr inner) { return b().add(b().scale(outer, factor), inner); }
  ir::Kernel lowered(ir::Stmt root) {
    ir::Kernel k = kernel_.finish(root);
    k.stage = ir::Stage::kLowered;
    return k;
  }

 private:
  ir::KernelBuilder kernel_;
};

// The kernel after one pass of the lowering.
inline ir::Kernel after_pass(const ir::Kernel& kernel, const target::Target& target, const char* name) {
  const lower::Pass* pass = lower::find_pass(lower::pipeline_of(target), name);
  REQUIRE(pass != nullptr);
  auto result = lower::run_pass(*pass, kernel, target, std::make_shared<Arena>());
  if (!result) FAIL(result.error().text);
  return *result;
}

inline const target::Target& host() {
  static const target::Target target = target::host_target();
  return target;
}

// The host's instruction sets below AVX-512, so that the narrower paths run here too.
inline std::vector<target::Target> runnable_targets() {
  std::vector<target::Target> targets{host()};
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    auto t = target::find_target(name);
    if (t && target::isa_level(*t) <= target::isa_level(host())) targets.push_back(*t);
  }
  return targets;
}

struct Compiled {
  Artifact artifact;
  std::shared_ptr<LoadedObject> object;
  std::vector<HostFunction> functions;

  void run(std::vector<void*> buffers, int64_t chunks = 1) const {
    for (size_t l = 0; l < functions.size(); ++l) {
      int64_t extent = artifact.launches[l].extent;
      for (int64_t c = 0; c < chunks; ++c) {
        int64_t begin = extent * c / chunks, end = extent * (c + 1) / chunks;
        if (begin < end) functions[l](buffers.data(), begin, end);
      }
    }
  }
};

inline Compiled compile(const ir::Kernel& kernel, const target::Target& target = host(), HostOptions options = {}) {
  Compiled c;
  auto artifact = compile_host(kernel, target, options);
  if (!artifact) FAIL(artifact.error().message);
  c.artifact = std::move(*artifact);
  auto object = load_host(c.artifact);
  if (!object) FAIL(object.error().message);
  c.object = *object;
  for (const Launch& l : c.artifact.launches) {
    c.functions.push_back(c.object->function(l.symbol));
    REQUIRE(c.functions.back() != nullptr);
  }
  return c;
}

}  // namespace tcc::codegen
