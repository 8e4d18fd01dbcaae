// Calls of the instruction table. What a row does follows from its operands and its LLVM name; AMX tiles are raw
// intrinsics on tile registers whose numbers are fixed here, so indices of tile buffers must be constants by now.
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emitter.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"
#include "tcc/target/features.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr int64_t kTileRegisters = 8;
constexpr int64_t kTileBytes = 1024;  // 16 rows of 64 bytes

}  // namespace

void Emitter::instr_call(const ir::InstrCall& call) {
  close_runs();
  const ir::Instruction& row = ir::instruction(call.instr);
  if (row.llvm.empty()) return fail(fmt::format("instruction {} has no form for this host target", row.name));
  if (!target::has_feature(target_.cpu.features, row.feature))
    return fail(fmt::format("instruction {} needs {}, which {} does not have", row.name, row.feature, target_.name));
  TCC_CHECK(lane_range_.id == ir::kNoId, "{} inside a vector loop", row.name);
  auto emit = [&] {
    bool tiles = false;
    for (const ir::OperandSpec& o : row.operands) tiles |= o.scope == ir::Scope::kAmxTile;
    if (row.behaviour == ir::Behaviour::kTileConfig)
      tile_config(call);
    else if (tiles)
      tile_instruction(call, row);
    else if (row.operands.size() == 3 && row.operands[2].rank == 2)
      dot_instruction(call, row);
    else
      vector_instruction(call, row);
  };
  Val on = call.predicate == nullptr ? Val{} : both_masks({}, eval(call.predicate));
  if (on.v == nullptr)
    emit();
  else
    guarded(on.v, emit);
}

// A buffer of tiles takes one register for each kilobyte.
void Emitter::make_tiles(const ir::Buffer& buffer) {
  bind_buffer(buffer, nullptr);
  BufferSlot& slot = slots_[buffer.id];
  int64_t bytes = slot.elements * ir::type_bytes(buffer.type);
  slot.tile = next_tile_;
  next_tile_ += slot.elements == 0 ? kTileRegisters + 1 : (bytes + kTileBytes - 1) / kTileBytes;
  if (next_tile_ > kTileRegisters)
    fail(fmt::format("{} needs more AMX tiles than there are", ir::name_hint(kernel_, buffer.id)));
}

// Tiles are counted in the order of their places in the buffer: the last two dimensions are a grid of tiles.
std::optional<int64_t> Emitter::tile_number(const ir::Operand& operand, const ir::OperandSpec& spec) {
  auto found = slots_.find(operand.buffer);
  if (found == slots_.end() || found->second.tile < 0) {
    fail(fmt::format("expected an AMX tile, found {}", ir::name_hint(kernel_, operand.buffer)));
    return std::nullopt;
  }
  int64_t number = 0;
  for (size_t i = 0; i < operand.indices.size(); ++i) {
    auto* index = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(operand.indices[i]));
    if (index == nullptr) {
      fail(fmt::format("the tile number in {} is not constant: unroll its loops",
                       ir::name_hint(kernel_, operand.buffer)));
      return std::nullopt;
    }
    int64_t step = i + 2 < operand.indices.size() ? 1 : spec.tile[i + 2 - operand.indices.size()];
    if (index->getSExtValue() % step != 0) {
      fail(fmt::format("a tile of {} starts inside of another", ir::name_hint(kernel_, operand.buffer)));
      return std::nullopt;
    }
    number = number * (ir::int_value(found->second.buffer->shape[i]) / step) + index->getSExtValue() / step;
  }
  return found->second.tile + number;
}

// Registers keep their shapes until the launch ends, so that a launch whose shapes are all alike sets them once, before
// its loops: loading a configuration costs as much as several products.
void Emitter::configure_first(ir::Stmt body) {
  std::optional<std::pair<int64_t, int64_t>> shape;
  bool tiles = false, alike = true;
  ir::visit(body, [&](ir::Stmt s) {
    const ir::InstrCall* call = ir::as<ir::InstrCall>(s);
    if (call == nullptr) return true;
    const ir::Instruction& row = ir::instruction(call->instr);
    for (const ir::OperandSpec& o : row.operands) tiles |= o.scope == ir::Scope::kAmxTile;
    if (row.behaviour != ir::Behaviour::kTileConfig) return true;
    bool known = ir::is_int(call->args[0]) && ir::is_int(call->args[1]);
    std::pair<int64_t, int64_t> here{known ? ir::int_value(call->args[0]) : 0,
                                     known ? ir::int_value(call->args[1]) : 0};
    alike &= known && shape.value_or(here) == here;
    shape = here;
    return true;
  });
  tiles_hoisted_ = (tiles || shape) && alike && target::has_feature(target_.cpu.features, "amx_tile");
  if (!tiles_hoisted_) return;
  auto [rows, bytes] = shape.value_or(std::pair<int64_t, int64_t>{16, 64});
  configure_tiles(static_cast<uint8_t>(rows), static_cast<uint8_t>(bytes));
}

void Emitter::tile_config(const ir::InstrCall& call) {
  if (tiles_hoisted_) return;
  auto* rows = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(call.args[0]));
  auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(call.args[1]));
  if (rows == nullptr || bytes == nullptr) return fail("a tile configuration is not constant");
  configure_tiles(static_cast<uint8_t>(rows->getZExtValue()), static_cast<uint8_t>(bytes->getZExtValue()));
}

// All eight registers get the same shape: rows and bytes per row.
void Emitter::configure_tiles(uint8_t rows, uint8_t bytes) {
  llvm::SmallVector<uint8_t, 64> image(64, 0);
  image[0] = 1;  // palette
  for (size_t t = 0; t < kTileRegisters; ++t) {
    image[16 + 2 * t] = bytes;
    image[48 + t] = rows;
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

// Elements between the rows of a tile in memory. A row of the tile holds 64 bytes: where the operand is narrower, rows
// of it come in groups side by side, element by element. nullopt: they are not like that in memory.
std::optional<int64_t> Emitter::row_stride(const ir::Operand& operand, const ir::OperandSpec& spec, ir::Expr flat) {
  const BufferSlot& slot = slots_.at(operand.buffer);
  int64_t in_row = kTileBytes / 16 / ir::type_bytes(spec.type), group = in_row / spec.tile[1];
  std::optional<int64_t> stride;
  for (int64_t r = 0; r < spec.tile[0]; ++r)
    for (int64_t c = 0; c < spec.tile[1]; ++c) {
      std::vector<ir::Expr> at(operand.indices.begin(), operand.indices.end());
      at[at.size() - 2] = ib_.offset(at[at.size() - 2], r);
      at.back() = ib_.offset(at.back(), c);
      ir::Expr moved = ib_.sub(flatten(ib_, *slot.buffer, slot.strides, at, ranges_), flat);
      moved = analysis::simplify(ib_, moved, ranges_);
      if (!ir::is_int(moved)) return std::nullopt;
      if (r == group && c == 0) stride = ir::int_value(moved);
      if (ir::int_value(moved) != r / group * stride.value_or(0) + c * group + r % group) return std::nullopt;
    }
  return stride;
}

void Emitter::tile_instruction(const ir::InstrCall& call, const ir::Instruction& row) {
  llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID({row.llvm.data(), row.llvm.size()});
  if (id == llvm::Intrinsic::not_intrinsic) return fail(fmt::format("LLVM does not know {}", row.llvm));
  llvm::SmallVector<Value*, 4> args;
  const ir::Operand* memory = nullptr;
  const ir::OperandSpec* memory_spec = nullptr;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    if (row.operands[i].scope != ir::Scope::kAmxTile) {
      memory = &call.operands[i];
      memory_spec = &row.operands[i];
      continue;
    }
    std::optional<int64_t> number = tile_number(call.operands[i], row.operands[i]);
    if (!number) return;
    args.push_back(b_.getInt8(static_cast<uint8_t>(*number)));
  }
  if (memory != nullptr) {
    auto found = slots_.find(memory->buffer);
    if (found == slots_.end() || found->second.tile >= 0)
      return fail(fmt::format("{} needs a memory operand", row.name));
    const BufferSlot& slot = found->second;
    ir::Expr flat = flatten(ib_, *slot.buffer, slot.strides, memory->indices, ranges_);
    std::optional<int64_t> step = row_stride(*memory, *memory_spec, flat);
    if (!step)
      return fail(
          fmt::format("the rows of {} are not where {} wants them", ir::name_hint(kernel_, memory->buffer), row.name));
    args.push_back(element_pointer(slot, flat, 0));
    args.push_back(b_.getInt64(static_cast<uint64_t>(*step * ir::type_bytes(slot.buffer->type))));
  }
  b_.CreateIntrinsic(id, {}, args);
}

// Groups of neighbors times groups of neighbors, added to the lanes of D: A's group is the same for all lanes, B
// holds one for each.
void Emitter::dot_instruction(const ir::InstrCall& call, const ir::Instruction& row) {
  const int64_t group = row.operands[1].tile[0], lanes = row.operands[0].tile[0];
  auto flat_of = [&](size_t i) {
    const BufferSlot& slot = slots_.at(call.operands[i].buffer);
    return flatten(ib_, *slot.buffer, slot.strides, call.operands[i].indices, ranges_);
  };
  // Whether the element `k`, `j` behind the operand's first one is `want` elements behind it in memory.
  auto lies = [&](size_t i, int64_t k, int64_t j, int64_t want) {
    const BufferSlot& slot = slots_.at(call.operands[i].buffer);
    std::vector<ir::Expr> at(call.operands[i].indices.begin(), call.operands[i].indices.end());
    const bool matrix = row.operands[i].rank == 2;
    ir::Expr& depth = matrix ? at[at.size() - 2] : at.back();
    depth = ib_.offset(depth, k);
    if (matrix) at.back() = ib_.offset(at.back(), j);
    ir::Expr moved =
        analysis::simplify(ib_, ib_.sub(flatten(ib_, *slot.buffer, slot.strides, at, ranges_), flat_of(i)), ranges_);
    return ir::is_int(moved, want);
  };
  for (const ir::Operand& o : call.operands)
    if (!slots_.contains(o.buffer))
      return fail(fmt::format("{} is used outside of its Alloc", ir::name_hint(kernel_, o.buffer)));
  bool fits = true;
  for (int64_t k = 0; k < group; ++k) {
    fits &= lies(1, k, 0, k);
    for (int64_t j = 0; j < lanes; ++j) fits &= lies(2, k, j, j * group + k);
  }
  if (!fits) return fail(fmt::format("the operands of {} are not in groups of {}", row.name, group));
  BufferSlot& sum = slots_.at(call.operands[0].buffer);
  const bool pairs = row.operands[1].type == ir::Type::kBF16;
  // Two bytes for each lane: products of what they are in 16 bits.
  const bool widens = row.operands[1].type == ir::Type::kU8 && group == 2;
  const auto n = static_cast<unsigned>(lanes);
  llvm::Type* operand = pairs    ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getBFloatTy(), 2 * n))
                        : widens ? llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * n)
                                 : llvm::FixedVectorType::get(b_.getInt32Ty(), n);
  Value* d = load_piece(sum, flat_of(0), 0, lanes, {});
  Value* a = load_piece(slots_.at(call.operands[1].buffer), flat_of(1), 0, group, {});
  Value* b = load_piece(slots_.at(call.operands[2].buffer), flat_of(2), 0, lanes * group, {});
  if (widens) {
    a = b_.CreateZExt(a, llvm::FixedVectorType::get(b_.getInt16Ty(), 2));
    b = b_.CreateSExt(b, operand);
  }
  a = b_.CreateBitCast(b_.CreateVectorSplat(n, b_.CreateBitCast(a, b_.getInt32Ty())), operand);
  llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID({row.llvm.data(), row.llvm.size()});
  if (id == llvm::Intrinsic::not_intrinsic) return fail(fmt::format("LLVM does not know {}", row.llvm));
  Value* result = widens ? b_.CreateAdd(d, b_.CreateIntrinsic(id, {}, {a, b}))
                         : b_.CreateIntrinsic(id, {}, {d, a, b_.CreateBitCast(b, operand)});
  store_piece(sum, flat_of(0), 0, result, nullptr);
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
