// Loops with the annotation complete_tiles: each copy of the body ends with a line that keeps the compiler from moving
// loads of the next one ahead.
#include <llvm/IR/InlineAsm.h>

#include <algorithm>
#include <bit>

#include "codegen/llvm/emitter.h"
#include "tcc/ir/query.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr size_t kPinned = 8;  // values in one line of pin_tiles

}  // namespace

void Emitter::pin_values(llvm::ArrayRef<Value*> places, llvm::ArrayRef<llvm::Type*> types) {
  std::string outputs, inputs;
  llvm::SmallVector<Value*, kPinned> values;
  for (size_t i = 0; i < places.size(); ++i) {
    outputs += "=v,";
    inputs += fmt::format("{},", i);
    llvm::Align align(static_cast<uint64_t>(types[i]->getScalarSizeInBits() / 8));
    values.push_back(b_.CreateAlignedLoad(types[i], places[i], align));
  }
  llvm::Type* result = types.size() == 1 ? types[0] : llvm::StructType::get(context_, types);
  auto* pin =
      llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), "", outputs + inputs + "~{memory}", true);
  Value* pinned = b_.CreateCall(pin, values);
  for (size_t i = 0; i < places.size(); ++i) {
    Value* value = types.size() == 1 ? pinned : b_.CreateExtractValue(pinned, static_cast<unsigned>(i));
    b_.CreateAlignedStore(value, places[i], llvm::Align(static_cast<uint64_t>(types[i]->getScalarSizeInBits() / 8)));
  }
}

// A line that the compiler moves nothing across: the tiles that the statement updates are complete here, and what comes
// after loads its operands again. Values that neighboring iterations share would have to stay in registers that the
// tile needs. Emits no code.
void Emitter::pin_tiles(ir::Stmt body) {
  std::set<ir::Id> tiles, sources;
  ir::visit(body, [&](ir::Stmt s) {
    if (const ir::Store* st = ir::as<ir::Store>(s)) tiles.insert(st->buffer);
    return true;
  });
  ir::visit_loads(body, [&](const ir::Load& l) { sources.insert(l.buffer); });
  llvm::SmallVector<Value*, 32> places;
  llvm::SmallVector<llvm::Type*, 32> types;
  for (ir::Id id : tiles) {
    auto found = slots_.find(id);
    if (found == slots_.end() || !found->second.local || type_bytes(found->second.buffer->type) < 4) continue;
    llvm::Type* element = memory_type(found->second.buffer->type);
    int64_t bytes = type_bytes(found->second.buffer->type), width = target_.cpu.vector_bits / 8 / bytes;
    for (const auto& [first, lanes] : found->second.pieces) {
      for (int64_t at = 0; at < lanes; at += width) {
        int64_t n = std::min(width, lanes - at);
        // Only whole registers can be named: other widths go without the line.
        if (n > 1 && (!std::has_single_bit(static_cast<uint64_t>(n)) || n * bytes < 16)) continue;
        types.push_back(n == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(n)));
        places.push_back(b_.CreateGEP(element, found->second.pointer, b_.getInt64(static_cast<uint64_t>(first + at))));
      }
    }
  }
  // A few at a time: one line cannot name more registers than there are.
  for (size_t at = 0; at < places.size(); at += kPinned) {
    size_t n = std::min(kPinned, places.size() - at);
    pin_values(llvm::ArrayRef(places).slice(at, n), llvm::ArrayRef(types).slice(at, n));
  }
  // Buffers do not alias, so each has to be named as one that might have changed.
  for (ir::Id id : sources) {
    auto found = slots_.find(id);
    if (found == slots_.end() || found->second.local) continue;
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
    auto* changed = b_.CreateCall(llvm::InlineAsm::get(type, "", "=*m,~{memory}", true), {found->second.pointer});
    llvm::Type* element = memory_type(found->second.buffer->type);
    changed->addParamAttr(0, llvm::Attribute::get(context_, llvm::Attribute::ElementType, element));
  }
}

}  // namespace tcc::codegen
