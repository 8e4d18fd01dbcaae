#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <set>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/optimise.h"
#include "tcc/codegen/llvm.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/memory.h"
#include "tcc/target/limits.h"

namespace tcc::codegen {
namespace {

// One machine for each feature set and thread: making one costs more than compiling a small kernel.
Result<llvm::TargetMachine*> machine_for(const std::string& features) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    // LLVM allocates by malloc, too. Where that fails it would abort; the program's handler says it as for any other
    // allocation.
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) {
      if (const std::new_handler handler = std::get_new_handler()) handler();
    });
  });
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[features];
  if (machine == nullptr) {
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget("x86_64-unknown-linux-gnu", error);
    if (target == nullptr) return environment_error("LLVM has no x86-64 code generator: {}", error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where instructions carry the contract flag
    machine.reset(target->createTargetMachine("x86_64-unknown-linux-gnu", "x86-64", features, options,
                                              llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                              llvm::CodeGenOptLevel::Default));
    if (machine == nullptr) return environment_error("LLVM cannot make a machine for features {}", features);
  }
  return machine.get();
}

struct LaunchParts {
  ir::Stmt body = nullptr;
  const ir::Loop* range = nullptr;  // a root-level Parallel loop
};

// The launches and the workspace buffers of a Lowered kernel.
struct Program {
  std::vector<LaunchParts> launches;
  std::vector<const ir::Buffer*> buffers;  // parameters, then workspace
};

Result<Program> split_program(const ir::Kernel& kernel) {
  Program program;
  for (const ir::Buffer* b : kernel.buffers)
    if (b->role != ir::BufferRole::kTemp) program.buffers.push_back(b);
  ir::Stmt root = kernel.root;
  if (const ir::Alloc* a = ir::as<ir::Alloc>(root)) {
    auto is_shared = [&](ir::Id id) {
      ir::Scope scope = kernel.buffer(id)->scope;
      return scope == ir::Scope::kWorkspace || scope == ir::Scope::kGlobal;
    };
    if (std::all_of(a->buffers.begin(), a->buffers.end(), is_shared)) {
      for (ir::Id id : a->buffers) program.buffers.push_back(kernel.buffer(id));
      root = a->body;
    }
  }
  std::vector<ir::Stmt> stmts{root};
  if (const ir::Seq* s = ir::as<ir::Seq>(root)) stmts.assign(s->stmts.begin(), s->stmts.end());
  for (ir::Stmt s : stmts) {
    const ir::Loop* l = ir::as<ir::Loop>(s);
    bool parallel = l != nullptr && l->loop_kind == ir::LoopKind::kParallel;
    program.launches.push_back({s, parallel ? l : nullptr});
    if (parallel && !ir::is_int(l->extent)) return input_error("a parallel loop's extent is not constant");
  }
  for (const ir::Buffer* b : program.buffers) {
    if (!physical_elements(*b))
      return input_error("buffer {} has a symbolic shape: host code is compiled for fixed shapes",
                         ir::name_hint(kernel, b->id));
  }
  return program;
}

std::set<ir::Id> used_buffers(ir::Stmt s) {
  ir::Touched t = ir::touched_buffers(s);
  t.reads.merge(t.writes);
  return t.reads;
}

void set_attributes(llvm::Function& f, const std::string& features, int64_t vector_bits) {
  f.addFnAttr("target-cpu", "x86-64");
  f.addFnAttr("target-features", features);
  f.addFnAttr("prefer-vector-width", std::to_string(vector_bits));
  f.addFnAttr("no-builtins");
  f.addFnAttr(llvm::Attribute::NoUnwind);
}

// The emitted function takes its buffers as noalias arguments, which says all that alias metadata on each access would.
// They are not marked as read only: what the emitter pins would mean nothing for them.
llvm::Function* make_body(llvm::Module& module, const std::string& symbol, std::span<const ir::Buffer* const> buffers) {
  llvm::LLVMContext& context = module.getContext();
  std::vector<llvm::Type*> types(buffers.size(), llvm::PointerType::get(context, 0));
  types.insert(types.end(), 2, llvm::Type::getInt64Ty(context));
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, symbol + "_body", module);
  f->addFnAttr(llvm::Attribute::NoInline);
  for (unsigned i = 0; i < buffers.size(); ++i) {
    const ir::Buffer& b = *buffers[i];
    f->addParamAttr(i, llvm::Attribute::NoAlias);
    f->addParamAttr(i, llvm::Attribute::NoUndef);
    f->addParamAttr(i, llvm::Attribute::get(context, llvm::Attribute::NoCapture));
    f->addParamAttr(
        i, llvm::Attribute::getWithAlignment(context, llvm::Align(static_cast<uint64_t>(assumed_alignment(b)))));
    uint64_t bytes = static_cast<uint64_t>(physical_elements(b).value_or(0) * ir::type_bytes(b.type));
    if (bytes > 0) f->addParamAttr(i, llvm::Attribute::getWithDereferenceableBytes(context, bytes));
  }
  return f;
}

llvm::Function* make_entry(llvm::Module& module, const std::string& symbol, llvm::Function* body,
                           std::span<const unsigned> positions) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* pointer = llvm::PointerType::get(context, 0);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, b.getInt64Ty(), b.getInt64Ty()}, false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module);
  f->setDSOLocal(true);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  std::vector<llvm::Value*> args;
  for (unsigned position : positions)
    args.push_back(b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, f->getArg(0), position)));
  args.push_back(f->getArg(1));
  args.push_back(f->getArg(2));
  b.CreateCall(body, args)->setTailCall();
  b.CreateRetVoid();
  return f;
}

// What addPassesToEmitFile() adds, without the machine scheduler: instructions stay in the order in which they were
// emitted. It would move loads ahead until register tiles no longer fit; the processor reorders far better.
std::string emit_file(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  auto& target_machine = static_cast<llvm::LLVMTargetMachine&>(machine);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  auto* info = new llvm::MachineModuleInfoWrapperPass(&target_machine);
  llvm::TargetPassConfig* config = target_machine.createPassConfig(passes);
  config->setDisableVerify(true);
  config->disablePass(&llvm::MachineSchedulerID);
  passes.add(config);
  passes.add(info);
  bool refused = config->addISelPasses();
  if (!refused) config->addMachinePasses();
  config->setInitialized();
  refused = refused || target_machine.addAsmPrinter(passes, out, nullptr, type, info->getMMI().getContext());
  TCC_CHECK(!refused, "LLVM cannot emit files for this target");
  passes.add(llvm::createFreeMachineFunctionPass());
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

std::vector<BufferInfo> describe_buffers(const Program& program) {
  std::vector<BufferInfo> infos;
  for (const ir::Buffer* b : program.buffers) {
    BufferInfo info;
    info.role = b->role;
    info.type = b->type;
    if (b->layout != nullptr) {
      // The buffer may be padded to whole tiles, the layout has the shape of the data.
      info.shape.assign(b->layout->shape.begin(), b->layout->shape.end());
      info.layout = ir::print_layout(*b->layout);
    } else {
      for (ir::Expr e : b->shape) info.shape.push_back(ir::is_int(e) ? ir::int_value(e) : -1);
    }
    info.bytes = *physical_elements(*b) * ir::type_bytes(b->type);
    info.alignment = assumed_alignment(*b);
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<void> emit_launch(llvm::Module& module, const LaunchParts& launch, const std::string& symbol,
                         const Program& program, const target::Target& target, const ir::Kernel& kernel,
                         ir::Builder& index_builder, const std::string& features, Artifact& artifact) {
  std::set<ir::Id> used = used_buffers(launch.body);
  std::vector<const ir::Buffer*> buffers;
  std::vector<unsigned> positions;
  for (unsigned i = 0; i < program.buffers.size(); ++i) {
    if (used.count(program.buffers[i]->id) == 0) continue;
    buffers.push_back(program.buffers[i]);
    positions.push_back(i);
  }
  llvm::Function* body = make_body(module, symbol, buffers);
  llvm::Function* entry = make_entry(module, symbol, body, positions);
  set_attributes(*body, features, target.cpu.vector_bits);
  set_attributes(*entry, features, target.cpu.vector_bits);
  Emitter emitter(module, target, kernel, index_builder);
  TCC_TRY_VOID(emitter.emit(body, buffers, launch.body, launch.range));
  if (emitter.local_bytes() > target::kMaxStackBytes)
    return input_error("{} keeps {} bytes of local buffers, more than the {} that worker stacks allow", symbol,
                       emitter.local_bytes(), target::kMaxStackBytes);
  double& bytes = artifact.facts["local_bytes"];
  bytes = std::max(bytes, static_cast<double>(emitter.local_bytes()));
  artifact.facts["scalar_vector_loops"] += static_cast<double>(emitter.scalar_vector_loops());
  return {};
}

}  // namespace

bool has_llvm() {
  return true;
}

Result<Artifact> compile_host(const ir::Kernel& lowered, const target::Target& target, const HostOptions& options) {
  TCC_CHECK(lowered.stage == ir::Stage::kLowered, "compile_host wants a lowered kernel, not {}",
            ir::stage_name(lowered.stage));
  TCC_CHECK(target::isa_level(target) > 0, "{} is not a CPU target", target.name);
  Stopwatch watch;
  TCC_TRY(Program program, split_program(lowered));
  NoExceptions in_llvm;
  std::string features = target::llvm_feature_string(target);
  TCC_TRY(llvm::TargetMachine * machine, machine_for(features));

  llvm::LLVMContext context;
  // Without a handler LLVM ends the process on an error of its back end.
  std::string problem;
  context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* to) {
        if (info->getSeverity() != llvm::DS_Error) return;
        llvm::raw_string_ostream out(*static_cast<std::string*>(to));
        llvm::DiagnosticPrinterRawOStream printer(out);
        info->print(printer);
      },
      &problem);
  llvm::Module module("tcc", context);
  module.setTargetTriple("x86_64-unknown-linux-gnu");
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  Arena scratch;
  ir::Builder index_builder(scratch);
  Artifact artifact;
  artifact.buffers = describe_buffers(program);
  for (size_t i = 0; i < program.launches.size(); ++i) {
    Launch launch;
    launch.symbol = fmt::format("tcc_{}_{}", options.prefix, i);
    const LaunchParts& parts = program.launches[i];
    if (parts.range != nullptr) launch.extent = ir::int_value(parts.range->extent);
    TCC_TRY_VOID(
        emit_launch(module, parts, launch.symbol, program, target, lowered, index_builder, features, artifact));
    artifact.launches.push_back(std::move(launch));
  }
  std::string problems;
  llvm::raw_string_ostream problem_stream(problems);
  TCC_CHECK(!llvm::verifyModule(module, &problem_stream), "invalid LLVM IR: {}", problems);
  artifact.facts["emit_seconds"] = watch.seconds();
  optimise(module, *machine, options.vectorize);
  artifact.facts["optimise_seconds"] = watch.seconds() - artifact.facts["emit_seconds"];
  artifact.facts["instructions"] = module.getInstructionCount();
  if (options.want_ir) {
    artifact.source_ending = ".ll";
    llvm::raw_string_ostream out(artifact.source);
    module.print(out, nullptr);
  } else if (options.want_assembly) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    artifact.source_ending = ".s";
    artifact.source = emit_file(*copy, *machine, llvm::CodeGenFileType::AssemblyFile);
  }
  artifact.code = emit_file(module, *machine, llvm::CodeGenFileType::ObjectFile);
  if (!problem.empty()) return input_error("LLVM cannot compile this kernel: {}", problem);
  artifact.facts["code_bytes"] = static_cast<double>(artifact.code.size());
  artifact.facts["compile_seconds"] = watch.seconds();
  return artifact;
}

Result<std::string> emit_llvm_ir(const ir::Kernel& lowered, const target::Target& target) {
  HostOptions options;
  options.want_ir = true;
  TCC_TRY(Artifact artifact, compile_host(lowered, target, options));
  return artifact.source;
}

}  // namespace tcc::codegen
