// A Lowered kernel as CUDA source: launches, parameters, prelude.
#include "codegen/cuda/address.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/prelude.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::codegen {

using namespace ir;

namespace {

bool is_workspace(const Buffer& b) {
  return b.role == BufferRole::kTemp && (b.scope == Scope::kWorkspace || b.scope == Scope::kGlobal);
}

// The statements below root Allocs that hold nothing but workspace.
std::vector<Stmt> split_launches(const Kernel& kernel) {
  Stmt root = kernel.root;
  while (const Alloc* a = as<Alloc>(root)) {
    bool all = true;
    for (Id id : a->buffers) all = all && is_workspace(*kernel.buffer(id));
    if (!all) break;
    root = a->body;
  }
  if (const Seq* s = as<Seq>(root)) return {s->stmts.begin(), s->stmts.end()};
  return {root};
}

Result<std::vector<const Buffer*>> launch_parameters(const Kernel& kernel) {
  std::vector<const Buffer*> params;
  for (const Buffer* b : kernel.buffers)
    if (b->role != BufferRole::kTemp) params.push_back(b);
  for (const Buffer* b : kernel.buffers)
    if (is_workspace(*b)) params.push_back(b);
  for (const Buffer* b : params)
    if (!cuda::physical_elements(*b))
      return input_error(
          "no CUDA code for this kernel: buffer '{}' has a symbolic shape; fix the sizes before lowering",
          name_hint(kernel, b->id));
  return params;
}

BufferInfo describe(const Buffer& b) {
  BufferInfo info{b.role, b.type, {}, b.layout != nullptr ? print_layout(*b.layout) : "", 0, b.alignment};
  if (b.layout != nullptr)
    info.shape.assign(b.layout->shape.begin(), b.layout->shape.end());
  else
    for (Expr e : b.shape) info.shape.push_back(int_value(e));
  info.bytes = *cuda::physical_elements(b) * type_bytes(b.type);
  return info;
}

bool is_identifier(const std::string& text) {
  for (char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return !text.empty();
}

}  // namespace

const std::string& cuda_prelude() {
  return cuda::prelude();
}

Result<CudaSource> emit_cuda_source(const Kernel& lowered, const target::Target& target, const CudaOptions& options) {
  TCC_CHECK(lowered.stage == Stage::kLowered, "code is printed from Stage::Lowered, not {}", stage_name(lowered.stage));
  TCC_CHECK(is_identifier(options.prefix), "prefix '{}'", options.prefix);
  if (target.cuda.sm_arch == 0)
    return input_error("target '{}' is not a CUDA device; CUDA code needs one such as a100 or h200", target.name);
  TCC_TRY(std::vector<const Buffer*> params, launch_parameters(lowered));
  CudaSource source;
  source.text = cuda::prelude();
  for (const Buffer* b : params) source.buffers.push_back(describe(*b));
  int number = 0;
  for (Stmt body : split_launches(lowered)) {
    const std::string symbol = fmt::format("tcc_{}_{}", options.prefix, number++);
    Launch launch;
    cuda::Emitter emitter(lowered, target, params);
    TCC_TRY(std::string text, emitter.emit(body, symbol, launch));
    source.text += text;
    source.launches.push_back(launch);
  }
  return source;
}

Artifact as_artifact(CudaSource source) {
  Artifact artifact;
  artifact.launches = std::move(source.launches);
  artifact.buffers = std::move(source.buffers);
  artifact.source = std::move(source.text);
  artifact.source_ending = ".cu";
  return artifact;
}

}  // namespace tcc::codegen
