#include "lower/gpu/place_gpu_storage.h"

#include "lower/gpu/edit.h"
#include "tcc/ir/gpu_sizes.h"

namespace tcc::lower {

using namespace ir;

namespace {

struct Around {
  bool launch = false, thread = false;
  int64_t vthreads = 1;
};

template <class F>
void visit_allocs(Stmt s, Around around, const F& f) {
  if (s == nullptr) return;
  if (const Alloc* a = as<Alloc>(s)) f(*a, around);
  if (const Loop* l = as<Loop>(s)) {
    around.launch = true;
    around.thread |= is_thread(l->axis);
    if (l->axis == Axis::kVthread && is_int(l->extent)) around.vthreads *= int_value(l->extent);
  }
  if (s->kind == StmtKind::kIf) around.launch = true;
  if (const Seq* q = as<Seq>(s)) {
    for (Stmt c : q->stmts) visit_allocs(c, around, f);
  } else if (const Loop* l = as<Loop>(s)) {
    visit_allocs(l->body, around, f);
  } else if (const Alloc* a = as<Alloc>(s)) {
    visit_allocs(a->body, around, f);
  } else if (const If* i = as<If>(s)) {
    visit_allocs(i->then_case, around, f);
    visit_allocs(i->else_case, around, f);
  }
}

bool has_threads(Stmt launch) {
  bool found = false;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    found |= l != nullptr && (is_grid(l->axis) || is_thread(l->axis));
    return !found;
  });
  return found;
}

}  // namespace

std::map<Id, Scope> gpu_scopes(const Kernel& nest) {
  std::map<Id, Scope> scopes;
  for (const Buffer* b : nest.buffers)
    if (b->role == BufferRole::kTemp) scopes[b->id] = b->scope;
  auto in_memory = [](Scope s) { return s == Scope::kGlobal || s == Scope::kWorkspace; };
  Stmt root = nest.root;
  for (; const Alloc* a = as<Alloc>(root); root = a->body)
    for (Id id : a->buffers)
      if (scopes[id] != Scope::kConst) scopes[id] = Scope::kWorkspace;
  for (Stmt launch : launches_of(nest)) {
    const bool threads = has_threads(launch);
    visit_allocs(launch, {}, [&](const Alloc& a, const Around& around) {
      for (Id id : a.buffers)
        if (in_memory(scopes[id])) scopes[id] = around.thread || !threads ? Scope::kLocal : Scope::kShared;
    });
  }
  return scopes;
}

std::map<Id, int64_t> gpu_instances(const Kernel& nest) {
  std::map<Id, int64_t> instances;
  visit_allocs(nest.root, {}, [&](const Alloc& a, const Around& around) {
    for (Id id : a.buffers) instances[id] = around.vthreads;
  });
  return instances;
}

Kernel place_gpu_storage(const Kernel& nest, const ArenaPtr& arena) {
  Edit edit(nest, arena);
  std::map<Id, Scope> scopes = gpu_scopes(nest);
  edit.map_buffers([&](Buffer& fields) {
    const Buffer before = fields;
    auto scope = scopes.find(fields.id);
    if (scope != scopes.end()) fields.scope = scope->second;
    // Accesses of up to 16 bytes: device memory is given out at multiples of 256 (CUDA C++ Programming Guide, "Device
    // Memory Accesses"), and the kernel declares the alignment that it needs of its parameters.
    if (fields.scope != Scope::kLocal) fields.alignment = std::max<int32_t>(fields.alignment, kMaxAccessBytes);
    return fields.scope != before.scope || fields.alignment != before.alignment;
  });
  return edit.k;
}

}  // namespace tcc::lower
