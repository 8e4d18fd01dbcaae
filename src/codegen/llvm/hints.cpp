// Hints of a schedule about memory: non-temporal stores and prefetches. Both leave the meaning of the code alone.
//
// `nontemporal` on a loop: whole aligned vectors that it writes to memory go past the caches, where the loop does not
// read the buffer. The caller's buffers are aligned to an element only, so the loop is emitted twice, and which copy
// runs is decided by their addresses. Such stores are weakly ordered: the launch ends with a fence.
//
// `prefetch(d)` on a loop: iteration i asks for the cache lines that iteration i + d will read and write.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "codegen/llvm/emitter.h"
#include "tcc/ir/query.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr int64_t kStreamAlignment = 64;
// More lines than this in one iteration and the hardware's own prefetcher does better.
constexpr size_t kMaxLines = 32;
constexpr int64_t kMaxElements = 4096;

struct MemoryAccess {
  ir::Id buffer;
  std::span<const ir::Expr> indices;
  bool write;
};

std::vector<MemoryAccess> accesses_of(ir::Stmt body) {
  std::vector<MemoryAccess> found;
  ir::visit(body, [&](ir::Stmt s) {
    if (const ir::Store* st = ir::as<ir::Store>(s)) found.push_back({st->buffer, st->indices, true});
    return true;
  });
  ir::visit_loads(body, [&](const ir::Load& load) { found.push_back({load.buffer, load.indices, false}); });
  return found;
}

}  // namespace

// The buffers in memory that the loop writes and does not read.
std::set<ir::Id> Emitter::streamed_buffers(const ir::Loop& l) const {
  std::set<ir::Id> written, read;
  for (const MemoryAccess& a : accesses_of(l.body)) (a.write ? written : read).insert(a.buffer);
  ir::visit(l.body, [&](ir::Stmt s) {
    if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s))
      for (const ir::Operand& o : call->operands) read.insert(o.buffer);
    return true;
  });
  std::erase_if(written, [&](ir::Id id) {
    auto slot = slots_.find(id);
    return read.count(id) != 0 || slot == slots_.end() || slot->second.local || slot->second.tile >= 0;
  });
  return written;
}

void Emitter::with_streaming(const ir::Loop& l, const std::function<void()>& body) {
  if (ir::annotation_or(l, ir::AnnotationKey::kNonTemporal, 0) == 0 || !streamed_.empty()) return body();
  streamed_ = streamed_buffers(l);
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

// The elements that a linear address touches while the loops of `inner` run, as offsets from its uniform part;
// empty when there are too many or the address is not linear in them.
std::set<int64_t> Emitter::touched_offsets(ir::Expr flat, const std::map<ir::Id, int64_t>& inner, ir::Expr& uniform) {
  std::vector<ir::Term> rest;
  int64_t constant = 0;
  std::set<int64_t> offsets{0};
  auto add = [&](const ir::Term& t) {
    bool moves = false;
    for (const auto& [id, extent] : inner) moves |= mentions(t.atom, id);
    if (!moves) {
      rest.push_back(t);
      return true;
    }
    const ir::Var* v = ir::as<ir::Var>(t.atom);
    if (v == nullptr || static_cast<int64_t>(offsets.size()) * inner.at(v->id) > kMaxElements) return false;
    std::set<int64_t> next;
    for (int64_t o : offsets)
      for (int64_t i = 0; i < inner.at(v->id); ++i) next.insert(o + i * t.coefficient);
    offsets = std::move(next);
    return true;
  };
  if (const ir::Sum* s = ir::as<ir::Sum>(flat)) {
    constant = s->constant;
    for (const ir::Term& t : s->terms)
      if (!add(t)) return {};
  } else if (!add({1, flat})) {
    return {};
  }
  uniform = ib_.sum(constant, rest);
  return offsets;
}

void Emitter::prefetch(const ir::Loop& l) {
  int64_t distance = ir::annotation_or(l, ir::AnnotationKey::kPrefetch, 0);
  if (distance <= 0 || lane_range_.id != ir::kNoId) return;
  std::map<ir::Id, int64_t> inner;
  bool constant = true;
  ir::visit(l.body, [&](ir::Stmt s) {
    const ir::Loop* c = ir::as<ir::Loop>(s);
    if (c == nullptr) return true;
    constant &= ir::is_int(c->extent);
    inner[c->id] = constant ? ir::int_value(c->extent) : 0;
    return constant;
  });
  if (!constant) return;
  ir::Substitution ahead;
  ahead.set(l.id, ib_.offset(ib_.var(l.id), distance));
  std::set<std::tuple<ir::Id, uint64_t, int64_t>> asked;
  for (const MemoryAccess& a : accesses_of(l.body)) {
    auto found = slots_.find(a.buffer);
    if (found == slots_.end() || found->second.local || found->second.tile >= 0) continue;
    const BufferSlot& slot = found->second;
    if (slot.buffer->layout != nullptr && !slot.buffer->layout->xors.empty()) continue;
    ir::Expr flat = flatten(ib_, *slot.buffer, slot.strides, a.indices, ranges_), uniform = nullptr;
    if (!mentions(flat, l.id)) continue;
    std::set<int64_t> offsets = touched_offsets(ir::substitute(ib_, flat, ahead), inner, uniform);
    int64_t line = std::max<int64_t>(1, target_.cpu.cache_line_bytes / ir::type_bytes(slot.buffer->type));
    std::vector<int64_t> lines;
    for (int64_t o : offsets)
      if (lines.empty() || o >= lines.back() + line) lines.push_back(o);
    if (lines.size() > kMaxLines) continue;
    for (int64_t o : lines) {
      if (!asked.insert({a.buffer, uniform->hash, o}).second) continue;
      b_.CreateIntrinsic(
          llvm::Intrinsic::prefetch, {b_.getPtrTy()},
          {element_pointer(slot, uniform, o), b_.getInt32(a.write ? 1 : 0), b_.getInt32(3), b_.getInt32(1)});
    }
  }
}

}  // namespace tcc::codegen
