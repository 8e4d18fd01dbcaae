// Loads and stores: from the flat address to scalar, contiguous, strided, piecewise or gathered accesses.
#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "codegen/llvm/emitter.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

bool is_zero(const Val& v) {
  auto* c = v.v == nullptr ? nullptr : llvm::dyn_cast<llvm::Constant>(v.v);
  return c != nullptr && c->isNullValue();
}

// Largest power of two (at most 64) that divides every value of the expression.
int64_t known_divisor(ir::Expr e) {
  int64_t g = 0;
  if (const ir::Sum* s = ir::as<ir::Sum>(e)) {
    g = s->constant;
    for (const ir::Term& t : s->terms) g = std::gcd(g, t.coefficient);
  } else {
    g = ir::is_int(e) ? ir::int_value(e) : 1;
  }
  int64_t power = 1;
  while (power < 64 && g % (power * 2) == 0) power *= 2;
  return power;
}

}  // namespace

llvm::Type* Emitter::memory_type(ir::Type type) {
  switch (type) {
    case ir::Type::kBool:
    case ir::Type::kI8:
    case ir::Type::kU8:
      return b_.getInt8Ty();
    case ir::Type::kF16:
    case ir::Type::kBF16:
    case ir::Type::kI16:
    case ir::Type::kU16:
      return b_.getInt16Ty();
    case ir::Type::kI32:
      return b_.getInt32Ty();
    case ir::Type::kI64:
      return b_.getInt64Ty();
    case ir::Type::kF32:
      return b_.getFloatTy();
    case ir::Type::kF64:
      return b_.getDoubleTy();
    case ir::Type::kBarrier:
    case ir::Type::kTensorMap:
      break;
  }
  fail(fmt::format("type {} does not exist in host code", ir::type_name(type)));
  return b_.getInt8Ty();
}

Value* Emitter::to_memory(Value* value, ir::Type type) {
  if (type == ir::Type::kBool) return b_.CreateZExt(value, like(b_.getInt8Ty(), value));
  if (type == ir::Type::kF16 || type == ir::Type::kBF16) return half_bits(value, type);
  return value;
}

Value* Emitter::from_memory(Value* value, ir::Type type) {
  if (type == ir::Type::kBool) return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  if (type == ir::Type::kF16 || type == ir::Type::kBF16) return from_half_bits(value, type);
  return value;
}

// Zeros for loads that are switched off as a whole: reading them costs less than a branch.
llvm::Constant* Emitter::zero_page() {
  const char* name = "tcc_zeros";
  if (llvm::GlobalVariable* old = module_.getNamedGlobal(name)) return old;
  auto* type = llvm::ArrayType::get(b_.getInt64Ty(), 64);
  auto* page = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                                        llvm::Constant::getNullValue(type), name);
  page->setAlignment(llvm::Align(64));
  return page;
}

const Emitter::FlatAddress& Emitter::address(const void* node, const BufferSlot& slot,
                                             std::span<const ir::Expr> indices) {
  auto [it, fresh] = addresses_.try_emplace(node);
  if (!fresh) return it->second;
  ir::Expr flat = flatten(ib_, *slot.buffer, slot.strides, indices, ranges_);
  if (slot.lanes > 1)
    flat = ib_.add(ib_.scale(flat, slot.lanes), ib_.offset(ib_.var(lane_range_.id), -lane_range_.base));
  it->second.flat = flat;
  it->second.split = split_lanes(ib_, flat, lane_range_);
  bool xors = slot.buffer->layout != nullptr && !slot.buffer->layout->xors.empty();
  if (xors && it->second.split && !it->second.split->offsets.empty()) it->second.split.reset();
  return it->second;
}

int Emitter::depth_of(ir::Expr e) const {
  int depth = 0;
  ir::visit(e, [&](ir::Expr x) {
    if (const ir::Var* v = ir::as<ir::Var>(x)) depth = std::max(depth, env_[static_cast<size_t>(v->id)].depth);
    return true;
  });
  return depth;
}

Value* Emitter::apply_xors(const BufferSlot& slot, Value* index) {
  if (slot.buffer->layout == nullptr) return index;
  for (const ir::XorField& x : slot.buffer->layout->xors) {
    Value* field = b_.CreateAnd(b_.CreateLShr(index, static_cast<uint64_t>(x.from_shift)),
                                llvm::ConstantInt::get(index->getType(), static_cast<uint64_t>(x.mask)));
    index = b_.CreateXor(index, b_.CreateShl(field, static_cast<uint64_t>(x.to_shift)));
  }
  return index;
}

// Address of element uniform + extra. Terms of outer loops are added first, so that loop-invariant parts are whole
// subexpressions, and what unrolled loops contribute is one constant.
Value* Emitter::element_pointer(const BufferSlot& slot, ir::Expr uniform, int64_t extra) {
  struct Part {
    int depth;
    Value* value;
  };
  llvm::SmallVector<Part, 8> parts;
  int64_t constant = extra;
  auto add = [&](int64_t coefficient, ir::Expr atom) {
    Value* v = scalar_index(atom);
    if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(v)) {
      constant += coefficient * c->getSExtValue();
      return;
    }
    if (coefficient != 1) v = b_.CreateMul(v, b_.getInt64(static_cast<uint64_t>(coefficient)), "", false, true);
    parts.push_back({depth_of(atom), v});
  };
  if (const ir::Sum* s = ir::as<ir::Sum>(uniform)) {
    constant += s->constant;
    for (const ir::Term& t : s->terms) add(t.coefficient, t.atom);
  } else {
    add(1, uniform);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.depth < b.depth; });
  Value* variable = nullptr;
  for (const Part& p : parts)
    variable = variable == nullptr ? p.value : b_.CreateAdd(variable, p.value, "", false, true);
  llvm::Type* element = memory_type(slot.buffer->type);
  bool xors = slot.buffer->layout != nullptr && !slot.buffer->layout->xors.empty();
  if (xors) {
    Value* index = b_.getInt64(static_cast<uint64_t>(constant));
    if (variable != nullptr) index = b_.CreateAdd(index, variable);
    return b_.CreateGEP(element, slot.pointer, apply_xors(slot, index));
  }
  Value* pointer = slot.pointer;
  if (variable != nullptr) pointer = b_.CreateGEP(element, pointer, variable);
  if (constant != 0) pointer = b_.CreateGEP(element, pointer, b_.getInt64(static_cast<uint64_t>(constant)));
  return pointer;
}

llvm::Align Emitter::element_alignment(const BufferSlot& slot, ir::Expr uniform, int64_t extra) const {
  bool xors = slot.buffer->layout != nullptr && !slot.buffer->layout->xors.empty();
  int64_t divisor = xors ? 1 : std::gcd(known_divisor(uniform), extra == 0 ? int64_t{64} : std::abs(extra));
  int64_t power = divisor & -divisor, bytes = ir::type_bytes(slot.buffer->type);
  return llvm::Align(static_cast<uint64_t>(std::max(bytes, std::min(slot.alignment, power * bytes))));
}

// Elements [uniform + first, uniform + last] of the buffer certainly exist.
bool Emitter::exists(const BufferSlot& slot, ir::Expr uniform, int64_t first, int64_t last) {
  ir::Interval r = range_of(uniform);
  return r.low + first >= 0 && r.high + last < slot.elements * slot.lanes;
}

// They exist and belong to this thread, so they may also be written back.
bool Emitter::in_bounds(const BufferSlot& slot, ir::Expr uniform, int64_t first, int64_t last) {
  return slot.local && exists(slot, uniform, first, last);
}

// The element of a local buffer certainly exists, so it may be read and written back when a condition is off.
bool Emitter::is_register(const BufferSlot& slot, const FlatAddress& at) {
  if (!slot.local || !at.split) return false;
  if (at.split->offsets.empty()) return in_bounds(slot, at.split->uniform, 0, 0);
  auto [low, high] = std::minmax_element(at.split->offsets.begin(), at.split->offsets.end());
  return in_bounds(slot, at.split->uniform, *low, *high);
}

void Emitter::note_piece(BufferSlot& slot, ir::Expr uniform, int64_t offset, int64_t lanes) {
  constexpr size_t kMaxPieces = 256;
  if (!slot.local || slot.pieces.size() > kMaxPieces) return;
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(uniform)))
    slot.pieces.insert({c->getSExtValue() + offset, lanes});
}

Value* Emitter::pick_lanes(Value* mask, int64_t first, int64_t lanes) {
  if (mask == nullptr) return nullptr;
  llvm::SmallVector<int, 64> pick;
  for (int64_t i = 0; i < lanes; ++i) pick.push_back(static_cast<int>(first + i));
  return b_.CreateShuffleVector(mask, pick);
}

Val Emitter::with_other(Val value, const Guard& guard) {
  if (guard.other.v == nullptr || guard.mask.v == nullptr) return value;
  Val mask = guard.mask, other = guard.other;
  if (mask.vec || value.vec || other.vec) {
    unify(value, other);
    if (!value.vec) value = {lanes_of(value), true}, other = {lanes_of(other), true};
    return {b_.CreateSelect(mask.v, value.v, other.v), true};
  }
  return {b_.CreateSelect(mask.v, value.v, other.v), false};
}

Val Emitter::load(const ir::Load& l) {
  auto found = slots_.find(l.buffer);
  if (found == slots_.end()) {
    fail(fmt::format("buffer {} is read outside of its Alloc", ir::name_hint(kernel_, l.buffer)));
    return poison(l.type);
  }
  Guard guard{mask_, {}};
  if (l.predicate != nullptr) {
    Val predicate = eval(l.predicate);
    if (is_zero(predicate)) return eval(l.other);
    guard.other = eval(l.other);
    guard.mask = both_masks(mask_, predicate);
    if (guard.mask.v == nullptr) guard.other = {};
  }
  if (is_zero(guard.mask)) return guard.other.v != nullptr ? guard.other : poison(l.type);
  const BufferSlot& slot = found->second;
  if (auto run = open_runs_.find(l.buffer); run != open_runs_.end() && run->second.stores) close_run(l.buffer);
  const FlatAddress& at = address(&l, slot, l.indices);
  bool uniform = at.split && at.split->offsets.empty();
  return uniform ? load_uniform(slot, at, guard) : load_lanes(slot, at, guard);
}

Val Emitter::load_uniform(const BufferSlot& slot, const FlatAddress& at, const Guard& guard) {
  llvm::Type* type = memory_type(slot.buffer->type);
  llvm::Align align = element_alignment(slot, at.split->uniform, 0);
  Value* pointer = element_pointer(slot, at.split->uniform, 0);
  // A bias that only one side of a select adds: reading it anyway saves a branch.
  bool always = guard.mask.v == nullptr || exists(slot, at.split->uniform, 0, 0);
  if (!always) {
    Value* any = guard.mask.vec ? b_.CreateOrReduce(guard.mask.v) : guard.mask.v;
    if (auto* c = guard.mask.vec ? llvm::dyn_cast<llvm::Constant>(guard.mask.v) : nullptr)
      if (c->getAggregateElement(0u)->isOneValue()) any = b_.getTrue();
    pointer = b_.CreateSelect(any, pointer, zero_page());
  }
  Val value{from_memory(b_.CreateAlignedLoad(type, pointer, align), slot.buffer->type), false};
  if (!always && !guard.mask.vec && is_zero(guard.other)) return value;
  return with_other(value, guard);
}

// Masked accesses are at most one register wide: of wider ones LLVM 19 drops the mask of a register that is off all
// over (x86), which then touches memory that nobody owns.
bool Emitter::fits_register(llvm::FixedVectorType* type) const {
  return type->getNumElements() * type->getScalarSizeInBits() <= static_cast<uint64_t>(target_.cpu.vector_bits);
}

// Lanes that are off read nothing and are zero.
Value* Emitter::masked_load(llvm::FixedVectorType* type, Value* pointer, llvm::Align align, Value* mask) {
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (auto* c = llvm::dyn_cast<llvm::Constant>(mask); c != nullptr && c->isNullValue()) return zero;
  if (fits_register(type)) return b_.CreateMaskedLoad(type, pointer, align, mask, zero);
  int64_t half = type->getNumElements() / 2, bytes = half * type->getScalarSizeInBits() / 8;
  auto* narrow = llvm::FixedVectorType::getHalfElementsVectorType(type);
  Value* low = masked_load(llvm::cast<llvm::FixedVectorType>(narrow), pointer, align, pick_lanes(mask, 0, half));
  Value* high = masked_load(llvm::cast<llvm::FixedVectorType>(narrow),
                            b_.CreateGEP(type->getElementType(), pointer, b_.getInt64(static_cast<uint64_t>(half))),
                            llvm::commonAlignment(align, static_cast<uint64_t>(bytes)), pick_lanes(mask, half, half));
  llvm::SmallVector<int, 64> both(type->getNumElements());
  std::iota(both.begin(), both.end(), 0);
  return b_.CreateShuffleVector(low, high, both);
}

void Emitter::masked_store(Value* value, Value* pointer, llvm::Align align, Value* mask) {
  if (auto* c = llvm::dyn_cast<llvm::Constant>(mask); c != nullptr && c->isNullValue()) return;
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  if (fits_register(type)) {
    b_.CreateMaskedStore(value, pointer, align, mask);
    return;
  }
  int64_t half = type->getNumElements() / 2, bytes = half * type->getScalarSizeInBits() / 8;
  masked_store(pick_lanes(value, 0, half), pointer, align, pick_lanes(mask, 0, half));
  masked_store(pick_lanes(value, half, half),
               b_.CreateGEP(type->getElementType(), pointer, b_.getInt64(static_cast<uint64_t>(half))),
               llvm::commonAlignment(align, static_cast<uint64_t>(bytes)), pick_lanes(mask, half, half));
}

// `lanes` consecutive elements in memory's type. Lanes that are off are zero with Off::kZero, else anything.
Value* Emitter::load_piece(const BufferSlot& slot, ir::Expr uniform, int64_t offset, int64_t lanes, Val mask, Off off) {
  auto* type = llvm::FixedVectorType::get(memory_type(slot.buffer->type), static_cast<unsigned>(lanes));
  Value* pointer = element_pointer(slot, uniform, offset);
  llvm::Align align = element_alignment(slot, uniform, offset);
  // What certainly exists is read whole: a load in several arms of selects is one then.
  if (mask.v == nullptr || in_bounds(slot, uniform, offset, offset + lanes - 1) ||
      (off == Off::kAny && exists(slot, uniform, offset, offset + lanes - 1)))
    return b_.CreateAlignedLoad(type, pointer, align);
  if (!mask.vec) return b_.CreateAlignedLoad(type, b_.CreateSelect(mask.v, pointer, zero_page()), align);
  return masked_load(type, pointer, align, mask.v);
}

// Which of the `piece` elements from `start` on are read: those of lanes that are on.
Val Emitter::spread_mask(Val mask, const LaneSplit& split, int64_t start, int64_t piece) {
  if (!mask.vec) return mask;
  auto lanes = static_cast<int64_t>(split.offsets.size());
  llvm::SmallVector<int, 64> pick(static_cast<size_t>(piece), static_cast<int>(lanes));
  for (int64_t l = 0; l < lanes; ++l)
    if (int64_t place = split.offsets[l] - start; place >= 0 && place < piece)
      pick[static_cast<size_t>(place)] = static_cast<int>(l);
  return {b_.CreateShuffleVector(mask.v, llvm::Constant::getNullValue(mask.v->getType()), pick), true};
}

// Small constant strides: the covering vectors are loaded and shuffled. Everything read is between two elements that
// are read anyway. Lanes that are off read nothing and are zero.
Value* Emitter::load_strided(const BufferSlot& slot, const LaneSplit& split, Val mask, Off off) {
  auto [low, high] = std::minmax_element(split.offsets.begin(), split.offsets.end());
  int64_t lanes = static_cast<int64_t>(split.offsets.size()), span = *high - *low + 1;
  int64_t piece = std::min(lanes, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(span))));
  if (mask.vec) {
    // One register at a time, and one lane for each element: its mask is the element's.
    piece = std::min(piece, target_.cpu.vector_bits / 8 / ir::type_bytes(slot.buffer->type));
    if (std::set<int64_t>(split.offsets.begin(), split.offsets.end()).size() != split.offsets.size()) return nullptr;
  }
  int64_t pieces = (span + piece - 1) / piece;
  if (!analysis::is_cheap_cover(span, piece, lanes)) return nullptr;
  auto start = [&](int64_t k) { return k + 1 < pieces ? *low + k * piece : *high - piece + 1; };
  Value* result = nullptr;
  auto load_at = [&](int64_t from) {
    return load_piece(slot, split.uniform, from, piece, spread_mask(mask, split, from, piece), off);
  };
  Value* first = load_at(start(0));
  for (int64_t k = 1; k < std::max<int64_t>(2, pieces); ++k) {
    Value* next = k < pieces ? load_at(start(k)) : llvm::PoisonValue::get(first->getType());
    llvm::SmallVector<int, 64> pick;
    for (int64_t l = 0; l < lanes; ++l) {
      int64_t owner = std::min((split.offsets[l] - *low) / piece, pieces - 1), place = split.offsets[l] - start(owner);
      if (owner == k)
        pick.push_back(static_cast<int>(piece + place));
      else if (k == 1 && owner == 0)
        pick.push_back(static_cast<int>(place));
      else
        pick.push_back(k == 1 ? -1 : static_cast<int>(l));
    }
    result = b_.CreateShuffleVector(k == 1 ? first : result, next, pick);
  }
  return result;
}

Value* Emitter::lane_pointers(const BufferSlot& slot, const FlatAddress& at) {
  llvm::Type* element = memory_type(slot.buffer->type);
  if (at.split) {
    llvm::SmallVector<llvm::Constant*, 64> offsets;
    for (int64_t o : at.split->offsets) offsets.push_back(b_.getInt64(static_cast<uint64_t>(o)));
    return b_.CreateGEP(element, element_pointer(slot, at.split->uniform, 0), llvm::ConstantVector::get(offsets));
  }
  return b_.CreateGEP(element, slot.pointer, apply_xors(slot, lanes_of(eval(at.flat))));
}

Val Emitter::load_lanes(const BufferSlot& slot, const FlatAddress& at, const Guard& guard) {
  ir::Type type = slot.buffer->type;
  int64_t lanes = lane_range_.lanes, bytes = ir::type_bytes(type);
  auto* vector = llvm::FixedVectorType::get(memory_type(type), static_cast<unsigned>(lanes));
  Value* raw = nullptr;
  if (at.split) {
    const std::vector<int64_t>& offsets = at.split->offsets;
    bool same = std::all_of(offsets.begin(), offsets.end(), [&](int64_t o) { return o == offsets[0]; });
    if (same) {
      FlatAddress moved{at.flat, LaneSplit{ib_.offset(at.split->uniform, offsets[0]), {}}};
      return load_uniform(slot, moved, guard);
    }
    int64_t run = analysis::run_length(offsets);
    const Off off = guard.other.v == nullptr ? Off::kAny : Off::kZero;
    if (run == lanes) {
      raw = load_piece(slot, at.split->uniform, offsets[0], lanes, guard.mask, off);
    } else if (analysis::is_vector_run(run, bytes)) {
      for (int64_t first = 0; first < lanes; first += run) {
        Val mask = guard.mask;
        if (mask.vec) mask.v = pick_lanes(mask.v, first, run);
        Value* piece = load_piece(slot, at.split->uniform, offsets[first], run, mask, off);
        llvm::SmallVector<int, 64> place(static_cast<size_t>(lanes), -1);
        for (int64_t l = 0; l < lanes; ++l)
          if (l >= first && l < first + run) place[l] = static_cast<int>(l - first);
        Value* wide = b_.CreateShuffleVector(piece, place);
        for (int64_t l = 0; l < lanes; ++l) place[l] = static_cast<int>(l < first ? l : lanes + l);
        raw = raw == nullptr ? wide : b_.CreateShuffleVector(raw, wide, place);
      }
    } else {
      raw = load_strided(slot, *at.split, guard.mask, off);
      // Elements of local buffers should stay in registers.
      if (raw == nullptr && !slot.local) raw = load_windows(slot, *at.split, guard.mask);
    }
  }
  if (raw == nullptr && !at.split) raw = load_from_table(slot, at, guard.mask);
  if (raw == nullptr) {
    Value* on =
        guard.mask.v != nullptr
            ? lanes_of(guard.mask)
            : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), static_cast<unsigned>(lanes)));
    raw = b_.CreateMaskedGather(vector, lane_pointers(slot, at), llvm::Align(static_cast<uint64_t>(bytes)), on,
                                llvm::Constant::getNullValue(vector));
    if (guard.mask.v == nullptr) note_lanes(slot, at, llvm::cast<llvm::Instruction>(raw), false, nullptr);
  }
  Val value{from_memory(raw, type), true};
  bool zeroed = !slot.local && is_zero(guard.other);
  return zeroed ? value : with_other(value, guard);
}

void Emitter::store(const ir::Store& s) {
  auto found = slots_.find(s.buffer);
  if (found == slots_.end())
    return fail(fmt::format("buffer {} is written outside of its Alloc", ir::name_hint(kernel_, s.buffer)));
  Val outer = mask_;
  if (s.predicate != nullptr) mask_ = both_masks(mask_, eval(s.predicate));
  Val mask = mask_;
  if (!is_zero(mask)) {
    BufferSlot& slot = found->second;
    auto emit = [&] {
      Val value = eval(s.value);
      const int64_t noted = lane_accesses_;
      const FlatAddress& at = address(&s, slot, s.indices);
      bool uniform = at.split && at.split->offsets.empty();
      if (lane_range_.id == ir::kNoId || uniform)
        store_scalar(slot, at, value, mask_);
      else
        store_lanes(slot, at, to_memory(lanes_of(value), slot.buffer->type),
                    mask_.v == nullptr ? nullptr : lanes_of(mask_));
      if (lane_accesses_ == noted) close_run(s.buffer);
    };
    // A condition that is the same in all lanes is a branch, except where that would cut up the code of a register
    // tile.
    if (mask.v != nullptr && !mask.vec && !is_register(slot, address(&s, slot, s.indices))) {
      mask_ = {};
      guarded(mask.v, emit);
    } else {
      emit();
    }
  }
  mask_ = outer;
}

// One place for all lanes: what the last lane that is on stores remains.
void Emitter::store_scalar(BufferSlot& slot, const FlatAddress& at, Val value, Val mask) {
  note_piece(slot, at.split->uniform, 0, 1);
  llvm::Align align = element_alignment(slot, at.split->uniform, 0);
  auto put = [&](Value* v) {
    b_.CreateAlignedStore(to_memory(v, slot.buffer->type), element_pointer(slot, at.split->uniform, 0), align);
  };
  if (!value.vec && !mask.vec) {
    if (mask.v != nullptr) {
      Value* old =
          b_.CreateAlignedLoad(memory_type(slot.buffer->type), element_pointer(slot, at.split->uniform, 0), align);
      return put(b_.CreateSelect(mask.v, value.v, from_memory(old, slot.buffer->type)));
    }
    return put(value.v);
  }
  for (int64_t l = 0; l < lane_range_.lanes; ++l) {
    auto lane = static_cast<uint64_t>(l);
    auto store_lane = [&] { put(value.vec ? b_.CreateExtractElement(value.v, lane) : value.v); };
    if (!mask.vec)
      store_lane();
    else
      guarded(b_.CreateExtractElement(mask.v, lane), store_lane);
  }
}

// Are the lanes that a constant mask switches off in the padding of the row, where nobody reads? A register tile whose
// rows do not fill vectors is computed whole then.
bool Emitter::is_off_in_padding(const BufferSlot& slot, ir::Expr uniform, int64_t offset, int64_t lanes, Value* mask) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  if (constant == nullptr || !slot.local || slot.lanes != 1 || slot.strides.empty()) return false;
  size_t row = slot.strides.size();
  while (row > 0 && ir::is_int(slot.buffer->shape[row - 1], 1)) --row;
  if (row == 0) return false;
  const int64_t extent = ir::int_value(slot.buffer->shape[row - 1]);
  const int64_t padded = row > 1 ? slot.strides[row - 2] : slot.elements;
  if (padded <= extent) return false;
  int64_t column = offset;  // of the first lane
  bool known = true;
  const auto add = [&](int64_t coefficient, ir::Expr atom) {
    if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(atom)))
      column += coefficient * c->getSExtValue();
    else
      known &= coefficient % padded == 0;
  };
  if (const ir::Sum* sum = ir::as<ir::Sum>(uniform)) {
    column += sum->constant;
    for (const ir::Term& t : sum->terms) add(t.coefficient, t.atom);
  } else {
    add(1, uniform);
  }
  column = ((column % padded) + padded) % padded;
  if (!known || column + lanes > padded) return false;
  for (int64_t l = 0; l < lanes && column + l < extent; ++l) {
    llvm::Constant* on = constant->getAggregateElement(static_cast<unsigned>(l));
    if (on == nullptr || !on->isOneValue()) return false;
  }
  return true;
}

void Emitter::store_piece(BufferSlot& slot, ir::Expr uniform, int64_t offset, Value* value, Value* mask) {
  Value* pointer = element_pointer(slot, uniform, offset);
  llvm::Align align = element_alignment(slot, uniform, offset);
  int64_t lanes = llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements();
  note_piece(slot, uniform, offset, lanes);
  if (mask == nullptr || is_off_in_padding(slot, uniform, offset, lanes, mask)) {
    llvm::StoreInst* stored = b_.CreateAlignedStore(value, pointer, align);
    if (can_stream(slot, value->getType(), align)) stream(stored);
  } else if (in_bounds(slot, uniform, offset, offset + lanes - 1)) {
    Value* old = b_.CreateAlignedLoad(value->getType(), pointer, align);
    b_.CreateAlignedStore(b_.CreateSelect(mask, value, old), pointer, align);
  } else {
    masked_store(value, pointer, align, mask);
  }
}

void Emitter::store_lanes(BufferSlot& slot, const FlatAddress& at, Value* value, Value* mask) {
  int64_t lanes = lane_range_.lanes, bytes = ir::type_bytes(slot.buffer->type);
  if (at.split) {
    const std::vector<int64_t>& offsets = at.split->offsets;
    int64_t run = analysis::run_length(offsets);
    if (run == lanes) return store_piece(slot, at.split->uniform, offsets[0], value, mask);
    if (analysis::is_vector_run(run, bytes)) {
      for (int64_t first = 0; first < lanes; first += run)
        store_piece(slot, at.split->uniform, offsets[first], pick_lanes(value, first, run),
                    pick_lanes(mask, first, run));
      return;
    }
  }
  Value* on =
      mask != nullptr
          ? mask
          : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), static_cast<unsigned>(lanes)));
  llvm::Instruction* made =
      b_.CreateMaskedScatter(value, lane_pointers(slot, at), llvm::Align(static_cast<uint64_t>(bytes)), on);
  note_lanes(slot, at, made, true, mask);
}

}  // namespace tcc::codegen
