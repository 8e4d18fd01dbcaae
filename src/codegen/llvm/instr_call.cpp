// Calls of the instruction table. What a row does follows from its operands and its LLVM name; AMX tiles are raw
// intrinsics on tile registers whose numbers are fixed here, so indices of tile buffers must be constants by now.
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emitter.h"
#include "tcc/ir/instr.h"
#include "tcc/support/check.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr int64_t kTileRegisters = 8;

bool has_feature(const target::CpuFeatures& have, std::string_view name) {
  if (name.empty()) return true;
#define TCC_TEST_FEATURE(field, llvm) \
  if (name == #field) return have.field;
  TCC_CPU_FEATURES(TCC_TEST_FEATURE)
#undef TCC_TEST_FEATURE
  return false;
}

}  // namespace

void Emitter::instr_call(const ir::InstrCall& call) {
  const ir::Instruction& row = ir::instruction(call.instr);
  if (row.llvm.empty()) return fail(fmt::format("instruction {} has no form for this host target", row.name));
  if (!has_feature(target_.cpu.features, row.feature))
    return fail(fmt::format("instruction {} needs {}, which {} does not have", row.name, row.feature, target_.name));
  TCC_CHECK(lane_range_.id == ir::kNoId, "{} inside a vector loop", row.name);
  auto emit = [&] {
    bool tiles = false;
    for (const ir::OperandSpec& o : row.operands) tiles |= o.scope == ir::Scope::kAmxTile;
    if (row.behaviour == ir::Behaviour::kTileConfig)
      tile_config(call);
    else if (tiles)
      tile_instruction(call, row);
    else
      vector_instruction(call, row);
  };
  Val on = call.predicate == nullptr ? Val{} : both_masks({}, eval(call.predicate));
  if (on.v == nullptr)
    emit();
  else
    guarded(on.v, emit);
}

// A tile buffer [.., 16, n] takes one register for each of its 16 x n tiles.
void Emitter::make_tiles(const ir::Buffer& buffer) {
  bind_buffer(buffer, nullptr);
  BufferSlot& slot = slots_[buffer.id];
  int64_t tiles = 1;
  for (size_t i = 0; i + 2 < buffer.shape.size(); ++i)
    tiles *= ir::is_int(buffer.shape[i]) ? ir::int_value(buffer.shape[i]) : kTileRegisters + 1;
  slot.tile = next_tile_;
  next_tile_ += tiles;
  if (next_tile_ > kTileRegisters)
    fail(fmt::format("{} needs more AMX tiles than there are", ir::name_hint(kernel_, buffer.id)));
}

std::optional<int64_t> Emitter::tile_number(const ir::Operand& operand) {
  auto found = slots_.find(operand.buffer);
  if (found == slots_.end() || found->second.tile < 0) {
    fail(fmt::format("{} is no AMX tile", ir::name_hint(kernel_, operand.buffer)));
    return std::nullopt;
  }
  int64_t number = 0;
  for (size_t i = 0; i + 2 < operand.indices.size(); ++i) {
    auto* index = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(operand.indices[i]));
    if (index == nullptr) {
      fail(fmt::format("the tile number in {} is not constant: unroll its loops",
                       ir::name_hint(kernel_, operand.buffer)));
      return std::nullopt;
    }
    number = number * ir::int_value(found->second.buffer->shape[i]) + index->getSExtValue();
  }
  return found->second.tile + number;
}

// All eight registers get the same shape: rows and bytes per row.
void Emitter::tile_config(const ir::InstrCall& call) {
  auto* rows = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(call.args[0]));
  auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(call.args[1]));
  if (rows == nullptr || bytes == nullptr) return fail("a tile configuration is not constant");
  llvm::SmallVector<uint8_t, 64> image(64, 0);
  image[0] = 1;  // palette
  for (size_t t = 0; t < kTileRegisters; ++t) {
    image[16 + 2 * t] = static_cast<uint8_t>(bytes->getZExtValue());
    image[48 + t] = static_cast<uint8_t>(rows->getZExtValue());
  }
  auto* data = llvm::ConstantDataArray::get(context_, image);
  auto* global =
      new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data, "tiles");
  global->setAlignment(llvm::Align(64));
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {global});
  tiles_configured_ = true;
}

void Emitter::release_tiles() {
  b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
}

void Emitter::tile_instruction(const ir::InstrCall& call, const ir::Instruction& row) {
  llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID({row.llvm.data(), row.llvm.size()});
  if (id == llvm::Intrinsic::not_intrinsic) return fail(fmt::format("LLVM does not know {}", row.llvm));
  llvm::SmallVector<Value*, 4> args;
  const ir::Operand* memory = nullptr;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    if (row.operands[i].scope != ir::Scope::kAmxTile) {
      memory = &call.operands[i];
      continue;
    }
    std::optional<int64_t> number = tile_number(call.operands[i]);
    if (!number) return;
    args.push_back(b_.getInt8(static_cast<uint8_t>(*number)));
  }
  if (memory != nullptr) {
    auto found = slots_.find(memory->buffer);
    if (found == slots_.end() || found->second.tile >= 0)
      return fail(fmt::format("{} needs a memory operand", row.name));
    const BufferSlot& slot = found->second;
    std::vector<ir::Expr> next(memory->indices.begin(), memory->indices.end());
    next[next.size() - 2] = ib_.offset(next[next.size() - 2], 1);
    ir::Expr flat = flatten(ib_, *slot.buffer, slot.strides, memory->indices, ranges_);
    ir::Expr step = ib_.sub(flatten(ib_, *slot.buffer, slot.strides, next, ranges_), flat);
    if (!ir::is_int(step))
      return fail(fmt::format("the rows of {} are not evenly spaced", ir::name_hint(kernel_, memory->buffer)));
    args.push_back(element_pointer(slot, flat, 0));
    args.push_back(b_.getInt64(static_cast<uint64_t>(ir::int_value(step) * ir::type_bytes(slot.buffer->type))));
  }
  b_.CreateIntrinsic(id, {}, args);
}

// Rows over one vector per operand; the argument is the number of lanes that are on.
void Emitter::vector_instruction(const ir::InstrCall& call, const ir::Instruction& row) {
  int64_t lanes = row.operands[0].tile[0];
  Val mask;
  if (!call.args.empty()) {
    Value* count = scalar_index(call.args[0]);
    llvm::SmallVector<llvm::Constant*, 16> numbers;
    for (int64_t l = 0; l < lanes; ++l) numbers.push_back(b_.getInt64(static_cast<uint64_t>(l)));
    Value* on =
        b_.CreateICmpSLT(llvm::ConstantVector::get(numbers), b_.CreateVectorSplat(static_cast<unsigned>(lanes), count));
    mask = both_masks({}, {on, true});
  }
  llvm::SmallVector<Value*, 4> values;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const ir::Operand& operand = call.operands[i];
    auto found = slots_.find(operand.buffer);
    if (found == slots_.end())
      return fail(fmt::format("{} is used outside of its Alloc", ir::name_hint(kernel_, operand.buffer)));
    if (row.operands[i].access == ir::Access::kWrite) {
      values.push_back(nullptr);
      continue;
    }
    const BufferSlot& slot = found->second;
    ir::Expr flat = flatten(ib_, *slot.buffer, slot.strides, operand.indices, ranges_);
    bool one = row.operands[i].tile[0] == 1;
    bool memory = row.operands[i].scope != ir::Scope::kLocal;
    Value* v = load_piece(slot, flat, 0, one ? 1 : lanes, memory && !one ? mask : Val{});
    values.push_back(one ? b_.CreateVectorSplat(static_cast<unsigned>(lanes), b_.CreateExtractElement(v, uint64_t{0}))
                         : v);
  }
  Value* result = nullptr;
  if (row.llvm.starts_with("llvm.fma"))
    result = b_.CreateIntrinsic(llvm::Intrinsic::fma, {values[0]->getType()}, {values[1], values[2], values[0]});
  else if (row.llvm.starts_with("llvm.masked.load") || row.llvm.starts_with("llvm.masked.store"))
    result = values[1];
  else
    return fail(fmt::format("{} has no emission for {}", row.name, row.llvm));
  BufferSlot& slot = slots_[call.operands[0].buffer];
  ir::Expr flat = flatten(ib_, *slot.buffer, slot.strides, call.operands[0].indices, ranges_);
  // A masked load writes zeros where it is off; the others leave those lanes alone.
  bool whole = row.llvm.starts_with("llvm.masked.load");
  if (whole && mask.v != nullptr)
    result = b_.CreateSelect(mask.v, result, llvm::Constant::getNullValue(result->getType()));
  store_piece(slot, flat, 0, result, whole ? nullptr : mask.v);
}

}  // namespace tcc::codegen
