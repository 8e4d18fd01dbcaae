// Hints about memory, as the pass plan_hints left them: non-temporal stores and prefetches. Both leave the meaning of
// the code alone.
//
// `nontemporal` on a loop: whole aligned vectors that it writes to memory go past the caches, where the loop does not
// read the buffer. The caller's buffers are aligned to an element only, so the loop is emitted twice, and which copy
// runs is decided by their addresses. Such stores are weakly ordered: the launch ends with a fence.
//
// `prefetch(d)` with `prefetch_lines(n)` on a loop: iteration i asks for the cache lines that iteration i + d will read
// and write, of each access that takes at most n. `prefetch_weights(d)`: the same of weights alone.
// `prefetch_panel(n)`: each iteration asks for n lines of the next panel of weights, into the second-level cache
// (tcc/analysis/next_panel.h). `prefetch_block(n)`: the same of the next block of activations
// (tcc/analysis/next_block.h).
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "codegen/llvm/emitter.h"
#include "tcc/analysis/memory_hints.h"
#include "tcc/analysis/next_block.h"
#include "tcc/analysis/next_panel.h"
#include "tcc/ir/query.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr int64_t kStreamAlignment = 64;
constexpr int kFirstLevel = 3, kSecondLevel = 2;  // the nearest cache that a line is brought to, as LLVM's locality

}  // namespace

bool Emitter::is_memory(ir::Id id) const {
  auto slot = slots_.find(id);
  return slot != slots_.end() && !slot->second.local && slot->second.tile < 0;
}

void Emitter::with_streaming(const ir::Loop& l, const std::function<void()>& body) {
  if (ir::annotation_or(l, ir::AnnotationKey::kNonTemporal, 0) == 0 || !streamed_.empty()) return body();
  streamed_ = analysis::streamed_buffers(l.body, [this](ir::Id id) { return is_memory(id); });
  if (streamed_.empty()) return body();
  Value* unaligned = nullptr;  // address bits that must be zero
  std::vector<std::pair<ir::Id, int64_t>> raised;
  for (ir::Id id : streamed_) {
    BufferSlot& slot = slots_.at(id);
    if (slot.alignment >= kStreamAlignment) continue;
    raised.push_back({id, slot.alignment});
    Value* bits = b_.CreatePtrToInt(slot.pointer, b_.getInt64Ty());
    unaligned = unaligned == nullptr ? bits : b_.CreateOr(unaligned, bits);
    slot.alignment = kStreamAlignment;
  }
  auto finish = [&] {
    for (const auto& [id, alignment] : raised) slots_.at(id).alignment = alignment;
    streamed_.clear();
  };
  if (unaligned == nullptr) {
    body();
    return finish();
  }
  auto* stream = llvm::BasicBlock::Create(context_, "stream", function_);
  auto* ordinary = llvm::BasicBlock::Create(context_, "ordinary", function_);
  auto* after = llvm::BasicBlock::Create(context_, "streamed", function_);
  Value* low = b_.CreateAnd(unaligned, b_.getInt64(kStreamAlignment - 1));
  b_.CreateCondBr(b_.CreateICmpEQ(low, b_.getInt64(0)), stream, ordinary);
  b_.SetInsertPoint(stream);
  body();
  b_.CreateBr(after);
  finish();
  b_.SetInsertPoint(ordinary);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

// A store of whole registers of a streamed buffer, at an address that is known to be a multiple of their size.
bool Emitter::can_stream(const BufferSlot& slot, llvm::Type* type, llvm::Align align) const {
  if (streamed_.count(slot.buffer->id) == 0) return false;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (vector == nullptr) return false;
  auto bytes = static_cast<int64_t>(vector->getPrimitiveSizeInBits() / 8);
  int64_t whole = std::min(bytes, target_.cpu.vector_bits / 8);
  return whole >= 16 && bytes % whole == 0 && static_cast<int64_t>(align.value()) >= whole;
}

void Emitter::stream(llvm::StoreInst* store) {
  store->setMetadata(
      llvm::LLVMContext::MD_nontemporal,
      llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(b_.getInt32Ty(), 1))));
  streams_ = true;
}

void Emitter::fence_streams() {
  b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

void Emitter::prefetch(const ir::Loop& l) {
  if (lane_range_.id != ir::kNoId) return;
  const int64_t most = ir::annotation_or(l, ir::AnnotationKey::kPrefetchLines, 0);
  if (most > 0) prefetch(l, ir::annotation_or(l, ir::AnnotationKey::kPrefetch, 0), most, false);
  prefetch(l, ir::annotation_or(l, ir::AnnotationKey::kPrefetchWeights, 0), analysis::kMaxWeightLines, true);
  prefetch_panel(l, ir::annotation_or(l, ir::AnnotationKey::kPrefetchPanel, 0));
  if (ir::has_annotation(l, ir::AnnotationKey::kPrefetchBlock)) prefetch_block(l);
}

void Emitter::prefetch(const ir::Loop& l, int64_t distance, int64_t most, bool weights) {
  if (distance <= 0) return;
  std::set<std::tuple<ir::Id, uint64_t, int64_t>> asked;
  const auto is_meant = [&](ir::Id id) {
    return is_memory(id) && (!weights || slots_.at(id).buffer->role == ir::BufferRole::kWeight);
  };
  for (const analysis::LinesAhead& lines :
       analysis::lines_ahead(ib_, kernel_, ranges_, l, distance, target_.cpu.cache_line_bytes, is_meant)) {
    if (std::ssize(lines.starts) > most) continue;
    for (int64_t o : lines.starts) {
      if (!asked.insert({lines.buffer->id, lines.uniform->hash, o}).second) continue;
      ask_for(element_pointer(slots_.at(lines.buffer->id), lines.uniform, o), lines.write, kFirstLevel);
    }
  }
}

void Emitter::prefetch_panel(const ir::Loop& l, int64_t lines) {
  if (lines <= 0) return;
  const auto is_weight = [&](ir::Id id) {
    return is_memory(id) && slots_.at(id).buffer->role == ir::BufferRole::kWeight;
  };
  const std::span<const ir::Loop* const> around = std::span(loops_).first(loops_.size() - 1);
  const auto panel = analysis::next_panel(ib_, kernel_, ranges_, around, l, is_weight);
  if (!panel) return;
  const int64_t line = target_.cpu.cache_line_bytes / ir::type_bytes(panel->buffer->type);
  for (int64_t i = 0; i < lines; ++i)
    ask_for(element_pointer(slots_.at(panel->buffer->id), panel->address, i * line), false, kSecondLevel);
}

void Emitter::prefetch_block(const ir::Loop& l) {
  const auto is_meant = [&](ir::Id id) {
    return is_memory(id) && analysis::is_large_activation(*slots_.at(id).buffer);
  };
  const std::span<const ir::Loop* const> around = std::span(loops_).first(loops_.size() - 1);
  const auto block = analysis::next_block(ib_, kernel_, ranges_, around, l, target_.cpu.cache_line_bytes,
                                          target_.cpu.l2_bytes / analysis::kBlocksOfL2, is_meant);
  if (!block) return;
  for (const ir::Expr line : block->lines)
    ask_for(element_pointer(slots_.at(block->buffer->id), line, 0), false, kSecondLevel);
}

void Emitter::ask_for(Value* address, bool write, int locality) {
  constexpr uint32_t kData = 1;
  b_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {b_.getPtrTy()},
      {address, b_.getInt32(write ? 1 : 0), b_.getInt32(static_cast<uint32_t>(locality)), b_.getInt32(kData)});
}

}  // namespace tcc::codegen
