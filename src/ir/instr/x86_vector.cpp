// AVX-512 vectors of 16 floats. The argument is the number of active lanes; the backend makes the mask from it.
#include "ir/instr/rows.h"

namespace tcc::ir {
namespace {

constexpr OperandSpec kLoad[] = {{"D", Type::kF32, Scope::kLocal, Access::kWrite, 1, {16}},
                                 {"S", Type::kF32, Scope::kGlobal, Access::kRead, 1, {16}}};
constexpr OperandSpec kStore[] = {{"D", Type::kF32, Scope::kGlobal, Access::kWrite, 1, {16}},
                                  {"S", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}}};
constexpr OperandSpec kFma[] = {{"D", Type::kF32, Scope::kLocal, Access::kReadWrite, 1, {16}},
                                {"A", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}},
                                {"B", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}}};
constexpr OperandSpec kFmaScalar[] = {{"D", Type::kF32, Scope::kLocal, Access::kReadWrite, 1, {16}},
                                      {"A", Type::kF32, Scope::kGlobal, Access::kRead, 1, {1}},
                                      {"B", Type::kF32, Scope::kLocal, Access::kRead, 1, {16}}};

constexpr Instruction kRows[] = {
    {.name = "zmm.load.f32",
     .feature = "avx512f",
     .participants = Participants::kThread,
     .operands = kLoad,
     .num_args = 1,
     .completion = Completion::kImmediate,
     .proxy = Proxy::kGeneric,
     .behaviour = Behaviour::kCompute,
     .semantics = "for i in 16 { D[i] = (S[i] where i < $0 else 0.0) }",
     .flops = 0,
     .bytes = 64,
     .llvm = "llvm.masked.load.v16f32.p0"},
    {.name = "zmm.store.f32",
     .feature = "avx512f",
     .participants = Participants::kThread,
     .operands = kStore,
     .num_args = 1,
     .completion = Completion::kImmediate,
     .proxy = Proxy::kGeneric,
     .behaviour = Behaviour::kCompute,
     .semantics = "for i in 16 { if i < $0 { D[i] = S[i] } }",
     .flops = 0,
     .bytes = 64,
     .llvm = "llvm.masked.store.v16f32.p0"},
    {.name = "zmm.fma.f32",
     .feature = "avx512f",
     .participants = Participants::kThread,
     .operands = kFma,
     .num_args = 1,
     .completion = Completion::kImmediate,
     .proxy = Proxy::kGeneric,
     .behaviour = Behaviour::kCompute,
     .semantics = "for i in 16 { if i < $0 { D[i] = fma(A[i], B[i], D[i]) } }",
     .flops = 32,
     .bytes = 0,
     .llvm = "llvm.fma.v16f32"},
    {.name = "zmm.fma.broadcast.f32",
     .feature = "avx512f",
     .participants = Participants::kThread,
     .operands = kFmaScalar,
     .num_args = 1,
     .completion = Completion::kImmediate,
     .proxy = Proxy::kGeneric,
     .behaviour = Behaviour::kCompute,
     .semantics = "for i in 16 { if i < $0 { D[i] = fma(A[0], B[i], D[i]) } }",
     .flops = 32,
     .bytes = 4,
     .llvm = "llvm.fma.v16f32"},
};

}  // namespace

std::span<const Instruction> x86_vector_rows() {
  return kRows;
}

}  // namespace tcc::ir
