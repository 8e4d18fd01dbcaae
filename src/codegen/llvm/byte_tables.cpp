// Loads from constants of 256 bytes at places that are bytes themselves: the table stays in registers, and one
// instruction picks from two of them for 64 bytes. A gather would read each lane by itself.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <numeric>

#include "codegen/llvm/emitter.h"

namespace tcc::codegen {

using llvm::Value;

// nullptr: the buffer is not such a table, or the processor has no instruction for it. Lanes that are off are zero.
Value* Emitter::load_from_table(const BufferSlot& slot, const FlatAddress& at, Val mask) {
  constexpr int64_t kTable = 256, kRegister = 64, kRegisters = kTable / kRegister;
  const bool is_table = slot.buffer->role == ir::BufferRole::kWeight && slot.elements == kTable && !slot.local &&
                        ir::type_bytes(slot.buffer->type) == 1 && slot.buffer->layout == nullptr;
  if (!is_table || !target_.cpu.features.avx512_vbmi || target_.cpu.vector_bits < 8 * kRegister) return nullptr;
  auto* whole = llvm::FixedVectorType::get(b_.getInt8Ty(), kRegister);
  std::array<Value*, kRegisters> table{};
  for (int64_t i = 0; i < kRegisters; ++i) {
    llvm::LoadInst* part = b_.CreateAlignedLoad(
        whole, b_.CreateGEP(b_.getInt8Ty(), slot.pointer, b_.getInt64(static_cast<uint64_t>(i * kRegister))),
        llvm::Align(1));
    // Nothing writes a weight while a kernel runs: loops around need not read it again.
    part->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    table[static_cast<size_t>(i)] = part;
  }
  Value* places = lanes_of(eval(at.flat));
  const auto lanes = static_cast<int64_t>(llvm::cast<llvm::FixedVectorType>(places->getType())->getNumElements());
  auto* narrow = llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(lanes));
  // Places of a table are below 256: their lowest bits say all.
  places = b_.CreateTrunc(places, narrow);
  llvm::SmallVector<Value*, 4> parts;
  for (int64_t first = 0; first < lanes; first += kRegister) {
    llvm::SmallVector<int, 64> pick;
    for (int64_t l = first; l < first + kRegister; ++l) pick.push_back(l < lanes ? static_cast<int>(l) : -1);
    Value* index = b_.CreateShuffleVector(places, pick);
    const auto picked = [&](size_t k) {
      return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {}, {table[k], index, table[k + 1]});
    };
    Value* is_high = b_.CreateICmpSLT(index, llvm::Constant::getNullValue(whole));
    parts.push_back(b_.CreateSelect(is_high, picked(2), picked(0)));
  }
  llvm::SmallVector<int, 64> own(static_cast<size_t>(lanes));
  std::iota(own.begin(), own.end(), 0);
  Value* all = b_.CreateShuffleVector(llvm::concatenateVectors(b_, parts), own);
  if (mask.v == nullptr) return all;
  return b_.CreateSelect(lanes_of(mask), all, llvm::Constant::getNullValue(narrow));
}

}  // namespace tcc::codegen
