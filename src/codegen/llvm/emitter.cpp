#include "codegen/llvm/emitter.h"

#include <algorithm>
#include <bit>

#include "tcc/analysis/local_storage.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr int64_t kStackAlignment = 64;

}  // namespace

std::optional<int64_t> physical_elements(const ir::Buffer& buffer) {
  if (buffer.layout != nullptr) return buffer.layout->size;
  int64_t n = 1;
  for (ir::Expr e : buffer.shape) {
    if (!ir::is_int(e)) return std::nullopt;
    n *= ir::int_value(e);
  }
  return n;
}

int64_t assumed_alignment(const ir::Buffer& buffer) {
  bool ours = buffer.role == ir::BufferRole::kWeight || buffer.role == ir::BufferRole::kTemp;
  return ours ? kStackAlignment : ir::type_bytes(buffer.type);
}

Emitter::Emitter(llvm::Module& module, const target::Target& target, const ir::Kernel& kernel,
                 ir::Builder& index_builder)
    : module_(module),
      context_(module.getContext()),
      b_(context_),
      target_(target),
      kernel_(kernel),
      ib_(index_builder),
      ranges_(kernel) {
  // a * b + c may round once; nothing else is relaxed.
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);
}

int64_t Emitter::max_lanes() const {
  return target_.cpu.vector_bits / 32 * 4;
}

void Emitter::fail(std::string message) {
  if (!error_) error_ = Error{ErrorClass::kInput, std::move(message), "", {}};
}

Result<void> Emitter::emit(llvm::Function* function, std::span<const ir::Buffer* const> buffers, ir::Stmt body,
                           const ir::Loop* range) {
  function_ = function;
  env_.assign(static_cast<size_t>(kernel_.next_id), Binding{});
  slots_.clear();
  addresses_.clear();
  local_bytes_ = live_bytes_ = 0;
  next_tile_ = 0;
  tiles_configured_ = false;
  find_numbers();
  streamed_.clear();
  streams_ = false;
  transposed_ = 0;
  ir::visit(body, [&](ir::Stmt s) {
    if (const ir::Loop* l = ir::as<ir::Loop>(s)) ranges_.set(l->id, l->extent);
    return true;
  });
  auto* entry = llvm::BasicBlock::Create(context_, "entry", function);
  b_.SetInsertPoint(entry);
  unsigned argument = 0;
  for (const ir::Buffer* buffer : buffers) bind_buffer(*buffer, function->getArg(argument++));
  configure_first(body);
  if (range != nullptr) {
    ir::Interval all{0, ir::is_int(range->extent) ? ir::int_value(range->extent) - 1 : ir::Interval::kUnbounded};
    within(*range, [&] { rolled_loop(*range, function->getArg(argument), function->getArg(argument + 1), true, all); });
  } else {
    stmt(body);
  }
  if (tiles_configured_) release_tiles();
  transpose_runs();
  if (streams_) fence_streams();
  b_.CreateRetVoid();
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

void Emitter::bind_buffer(const ir::Buffer& buffer, Value* pointer) {
  BufferSlot slot;
  slot.buffer = &buffer;
  slot.pointer = pointer;
  slot.elements = physical_elements(buffer).value_or(0);
  slot.alignment = assumed_alignment(buffer);
  if (buffer.layout == nullptr) slot.strides = analysis::row_major_strides(buffer);
  slots_[buffer.id] = std::move(slot);
}

// Scratch on the stack.
bool Emitter::make_local(const ir::Buffer& buffer) {
  std::optional<int64_t> elements = physical_elements(buffer);
  if (!elements) {
    fail(fmt::format("buffer {} has a symbolic shape, which host code does not support for local storage",
                     ir::name_hint(kernel_, buffer.id)));
    return false;
  }
  int64_t lanes = lane_range_.id != ir::kNoId ? lane_range_.lanes : 1;
  // Executions follow one another, so copies made by unrolling share their storage.
  if (auto old = slots_.find(buffer.id); old != slots_.end() && old->second.lanes == lanes) return true;
  bind_buffer(buffer, nullptr);
  BufferSlot& slot = slots_[buffer.id];
  slot.local = true;
  slot.alignment = kStackAlignment;
  slot.lanes = lanes;
  if (buffer.layout == nullptr && slot.lanes == 1) {
    analysis::LocalStorage storage = analysis::local_storage(buffer);
    slot.strides = std::move(storage.strides);
    slot.elements = storage.elements;
  }
  int64_t storage = std::max<int64_t>(1, slot.elements * slot.lanes);
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  llvm::BasicBlock& entry = function_->getEntryBlock();
  b_.SetInsertPoint(&entry, entry.begin());
  auto* type = llvm::ArrayType::get(memory_type(buffer.type), static_cast<uint64_t>(storage));
  auto* place = b_.CreateAlloca(type, nullptr, "local");
  place->setAlignment(llvm::Align(kStackAlignment));
  slot.pointer = place;
  return true;
}

void Emitter::alloc(const ir::Alloc& s) {
  int64_t first_tile = next_tile_;
  for (ir::Id id : s.buffers) {
    const ir::Buffer* buffer = kernel_.buffer(id);
    TCC_CHECK(buffer != nullptr, "buffer {} is not in the kernel", id);
    switch (buffer->scope) {
      case ir::Scope::kLocal:
      case ir::Scope::kGlobal:
      case ir::Scope::kWorkspace:
        if (!make_local(*buffer)) return;
        break;
      case ir::Scope::kAmxTile:
        make_tiles(*buffer);
        break;
      case ir::Scope::kConst:
      case ir::Scope::kShared:
      case ir::Scope::kClusterShared:
        fail(fmt::format("buffer {} has scope {}, which host code does not have", ir::name_hint(kernel_, id),
                         ir::scope_name(buffer->scope)));
        return;
    }
  }
  // Buffers whose lives do not overlap share their place on the stack, as those of a tile and of the last, smaller one.
  const auto mark_lives = [&](bool begin) {
    for (ir::Id id : s.buffers) {
      auto* place = llvm::dyn_cast_or_null<llvm::AllocaInst>(slots_[id].local ? slots_[id].pointer : nullptr);
      if (place == nullptr) continue;
      const uint64_t bytes = place->getAllocationSize(module_.getDataLayout())->getFixedValue();
      begin ? b_.CreateLifetimeStart(place, b_.getInt64(bytes)) : b_.CreateLifetimeEnd(place, b_.getInt64(bytes));
      live_bytes_ += static_cast<int64_t>(begin ? bytes : 0 - bytes);
    }
    local_bytes_ = std::max(local_bytes_, live_bytes_);
  };
  mark_lives(true);
  llvm::BasicBlock* block = b_.GetInsertBlock();
  llvm::Instruction* after = block->empty() ? nullptr : &block->back();
  stmt(s.body);
  for (ir::Id id : s.buffers) forget_contents(slots_[id], block, after);
  mark_lives(false);
  next_tile_ = first_tile;
}

// Contents start undefined each time. Saying so, piece by piece, keeps conditional stores from carrying the values of
// one execution into the next as live registers.
void Emitter::forget_contents(BufferSlot& slot, llvm::BasicBlock* block, llvm::Instruction* after) {
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  b_.SetInsertPoint(block, after == nullptr ? block->begin() : std::next(after->getIterator()));
  llvm::Type* element = memory_type(slot.buffer->type);
  for (const auto& [first, lanes] : slot.pieces) {
    llvm::Type* type = lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
    Value* pointer = b_.CreateGEP(element, slot.pointer, b_.getInt64(static_cast<uint64_t>(first)));
    b_.CreateAlignedStore(llvm::UndefValue::get(type), pointer,
                          llvm::Align(static_cast<uint64_t>(ir::type_bytes(slot.buffer->type))));
  }
  slot.pieces.clear();
}

void Emitter::stmt(ir::Stmt s) {
  if (error_) return;
  switch (s->kind) {
    case ir::StmtKind::kSeq:
      for (ir::Stmt c : ir::as<ir::Seq>(s)->stmts) stmt(c);
      return;
    case ir::StmtKind::kLoop:
      loop(*ir::as<ir::Loop>(s));
      return;
    case ir::StmtKind::kStore:
      store(*ir::as<ir::Store>(s));
      return;
    case ir::StmtKind::kIf:
      if_stmt(*ir::as<ir::If>(s));
      return;
    case ir::StmtKind::kAlloc:
      alloc(*ir::as<ir::Alloc>(s));
      return;
    case ir::StmtKind::kInstrCall:
      instr_call(*ir::as<ir::InstrCall>(s));
      return;
    case ir::StmtKind::kRoles:
      fail("Roles exist on GPUs only");
      return;
    case ir::StmtKind::kBlock:
      TCC_UNREACHABLE("a block at Stage::Lowered");
  }
}

void Emitter::loop(const ir::Loop& l) {
  const int64_t outer = transposed_;
  transposed_ = ir::annotation_or(l, ir::AnnotationKey::kTransposeAccesses, transposed_);
  within(l, [&] { loop_by_kind(l); });
  transposed_ = outer;
}

void Emitter::within(const ir::Loop& l, const std::function<void()>& body) {
  loops_.push_back(&l);
  with_streaming(l, body);
  loops_.pop_back();
}

void Emitter::loop_by_kind(const ir::Loop& l) {
  Val extent = eval(l.extent);
  if (extent.vec) return lane_bounded_loop(l, extent);
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(extent.v)) {
    int64_t n = constant->getSExtValue();
    bool vectorized = l.loop_kind == ir::LoopKind::kVectorized;
    if (n <= 0) {
      // Nothing runs.
    } else if (n == 1) {
      unrolled_loop(l, n);
    } else if (vectorized && can_vectorize(l, n)) {
      vector_loop(l, n);
    } else if (ir::has_annotation(l, ir::AnnotationKey::kTreeReduce) && tree_loop(l, n)) {
      // Lanes have been combined pairwise.
    } else {
      // As plan_unrolling left it.
      const bool whole = l.loop_kind == ir::LoopKind::kUnrolled || vectorized;
      if (n <= ir::annotation_or(l, ir::AnnotationKey::kUnrollMax, whole ? n : 1))
        unrolled_loop(l, n, ir::annotation_or(l, ir::AnnotationKey::kCompleteTiles, 0) != 0);
      else
        rolled_loop(l, b_.getInt64(0), b_.getInt64(static_cast<uint64_t>(n)), false, {0, n - 1});
    }
  } else {
    ir::Interval r = range_of(l.extent);
    rolled_loop(l, b_.getInt64(0), extent.v, r.low < 1, {0, r.high - 1});
  }
}

void Emitter::unrolled_loop(const ir::Loop& l, int64_t extent, bool complete_tiles) {
  for (int64_t i = 0; i < extent && !error_; ++i) {
    if (complete_tiles && i > 0 && lane_range_.id == ir::kNoId) pin_tiles(l.body);
    env_[static_cast<size_t>(l.id)] = {{b_.getInt64(static_cast<uint64_t>(i)), false}, {i, i}, 0, true};
    prefetch(l);
    stmt(l.body);
  }
}

void Emitter::rolled_loop(const ir::Loop& l, Value* begin, Value* end, bool may_be_empty, ir::Interval range) {
  auto* before = b_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(context_, "loop", function_);
  auto* exit = llvm::BasicBlock::Create(context_, "done", function_);
  if (may_be_empty)
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), body, exit);
  else
    b_.CreateBr(body);
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2, "i");
  i->addIncoming(begin, before);
  env_[static_cast<size_t>(l.id)] = {{i, false}, range, ++depth_, true};
  prefetch(l);
  stmt(l.body);
  --depth_;
  Value* next = b_.CreateAdd(i, b_.getInt64(1), "next", true, true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, exit);
  b_.SetInsertPoint(exit);
}

// `C = C op x(i)` for all i: lanes of x are combined by halves. False when the loop is of another form.
bool Emitter::tree_loop(const ir::Loop& l, int64_t extent) {
  const ir::Store* st = ir::as<ir::Store>(l.body);
  if (lane_range_.id != ir::kNoId || mask_.v != nullptr || st == nullptr || st->predicate != nullptr) return false;
  ir::ExprKind kind = st->value->kind;
  bool low_high = kind == ir::ExprKind::kMin || kind == ir::ExprKind::kMax;
  if (!low_high && kind != ir::ExprKind::kAdd && kind != ir::ExprKind::kMul) return false;
  ir::Expr term = ir::update_term(*st);
  bool moves = std::any_of(st->indices.begin(), st->indices.end(), [&](ir::Expr i) { return mentions(i, l.id); });
  if (term == nullptr || !mentions(term, l.id) || moves) return false;
  const ir::Binary* op = ir::as<ir::Binary>(st->value);
  ir::Expr old = op->a == term ? op->b : op->a;
  if (slots_.find(st->buffer) == slots_.end()) return false;
  bool number = is_number(old) && is_number(term);
  auto combine = [&](Val a, Val b) {
    return low_high ? min_max(kind, st->value->type, a, b, number, number)
                    : data_arithmetic(kind, st->value->type, a, b);
  };
  Val total = eval(old);
  for (int64_t base = 0; base < extent && !error_;) {
    int64_t lanes =
        std::min<int64_t>(max_lanes(), static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(extent - base))));
    lane_range_ = {l.id, base, lanes, extent};
    llvm::SmallVector<llvm::Constant*, 64> numbers;
    for (int64_t k = 0; k < lanes; ++k) numbers.push_back(b_.getInt64(static_cast<uint64_t>(base + k)));
    env_[static_cast<size_t>(l.id)] = {{llvm::ConstantVector::get(numbers), true}, {0, extent - 1}, 0, true};
    addresses_.clear();
    Val part{lanes_of(eval(term)), true};
    for (int64_t half = lanes / 2; half > 0; half /= 2)
      part = combine({pick_lanes(part.v, 0, half), true}, {pick_lanes(part.v, half, half), true});
    total = combine(total, {b_.CreateExtractElement(part.v, uint64_t{0}), false});
    base += lanes;
  }
  lane_range_ = {};
  addresses_.clear();
  BufferSlot& slot = slots_.at(st->buffer);
  store_scalar(slot, address(st, slot, st->indices), total, {});
  return true;
}

// A loop inside a vectorized one whose trip count differs from lane to lane: runs as long as any lane does.
void Emitter::lane_bounded_loop(const ir::Loop& l, Val extent) {
  Val outer = mask_;
  Value* longest = b_.CreateIntMaxReduce(extent.v, true);
  ir::Interval r = range_of(l.extent);
  auto* before = b_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(context_, "lanes.loop", function_);
  auto* exit = llvm::BasicBlock::Create(context_, "lanes.done", function_);
  b_.CreateCondBr(b_.CreateICmpSGT(longest, b_.getInt64(0)), body, exit);
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2, "i");
  i->addIncoming(b_.getInt64(0), before);
  env_[static_cast<size_t>(l.id)] = {{i, false}, {0, r.high - 1}, ++depth_, true};
  mask_ = both_masks(outer, {b_.CreateICmpSLT(lanes_of({i, false}), extent.v), true});
  stmt(l.body);
  mask_ = outer;
  --depth_;
  Value* next = b_.CreateAdd(i, b_.getInt64(1), "next", true, true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, longest), body, exit);
  b_.SetInsertPoint(exit);
}

// Only the innermost vectorized loop becomes lanes, and only when what it stores differs by lane: a store to one place
// from all lanes is a sequence.
bool Emitter::can_vectorize(const ir::Loop& l, int64_t extent) {
  if (lane_range_.id != ir::kNoId) return false;
  bool plain = true;
  ir::visit(l.body, [&](ir::Stmt s) {
    if (const ir::Loop* inner = ir::as<ir::Loop>(s))
      if (inner->loop_kind == ir::LoopKind::kVectorized && !ir::is_int(inner->extent, 1)) plain = false;
    if (s->kind == ir::StmtKind::kInstrCall) plain = false;
    return plain;
  });
  const bool differ = plain && stores_differ_by_lane(l, extent);
  if (plain && !differ) scalar_vector_loops_.insert(l.id);
  return differ;
}

bool Emitter::stores_differ_by_lane(const ir::Loop& l, int64_t extent) {
  std::vector<ir::Id> own;
  bool differ = true;
  LaneRange range{l.id, 0, std::min<int64_t>(extent, 2), extent};
  ir::visit(l.body, [&](ir::Stmt s) {
    if (const ir::Alloc* a = ir::as<ir::Alloc>(s)) own.insert(own.end(), a->buffers.begin(), a->buffers.end());
    if (const ir::Store* st = ir::as<ir::Store>(s);
        st != nullptr && std::find(own.begin(), own.end(), st->buffer) == own.end()) {
      bool any = false;
      for (ir::Expr i : st->indices) {
        if (!mentions(i, l.id)) continue;
        std::optional<LaneSplit> split = split_lanes(ib_, i, range);
        any |= !split || !split->offsets.empty();
      }
      differ &= any;
    }
    return differ;
  });
  return differ;
}

// Pieces of a power of two lanes; what is left over takes one masked piece.
void Emitter::vector_loop(const ir::Loop& l, int64_t extent) {
  for (int64_t base = 0; base < extent && !error_;) {
    int64_t rest = extent - base;
    int64_t lanes = std::min<int64_t>(max_lanes(), static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rest))));
    // A masked remainder is at most one register wide: of more, whole ones would be off.
    if (lanes < rest && lanes < target_.cpu.vector_bits / 32 && rest <= max_lanes())
      lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rest)));
    lane_range_ = {l.id, base, lanes, extent};
    llvm::SmallVector<llvm::Constant*, 64> numbers, on;
    for (int64_t k = 0; k < lanes; ++k) {
      numbers.push_back(b_.getInt64(static_cast<uint64_t>(base + k)));
      on.push_back(b_.getInt1(base + k < extent));
    }
    env_[static_cast<size_t>(l.id)] = {{llvm::ConstantVector::get(numbers), true}, {0, extent - 1}, 0, true};
    if (lanes > rest) mask_ = {llvm::ConstantVector::get(on), true};
    addresses_.clear();
    stmt(l.body);
    mask_ = {};
    base += lanes;
  }
  lane_range_ = {};
  addresses_.clear();
}

void Emitter::guarded(Value* condition, const std::function<void()>& body) {
  auto* inside = llvm::BasicBlock::Create(context_, "if", function_);
  auto* after = llvm::BasicBlock::Create(context_, "endif", function_);
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

// True when the statement does nothing but update register-like local storage: then a condition on it is a mask.
bool Emitter::stores_local_only(ir::Stmt s) {
  const ir::Store* store = ir::as<ir::Store>(s);
  if (store != nullptr) {
    auto found = slots_.find(store->buffer);
    return found != slots_.end() && is_register(found->second, address(store, found->second, store->indices));
  }
  if (const ir::Seq* q = ir::as<ir::Seq>(s))
    return std::all_of(q->stmts.begin(), q->stmts.end(), [&](ir::Stmt c) { return stores_local_only(c); });
  return false;
}

void Emitter::if_stmt(const ir::If& s) {
  Val condition = eval(s.condition);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition.v)) {
    if (known->isOne())
      stmt(s.then_case);
    else if (s.else_case != nullptr)
      stmt(s.else_case);
    return;
  }
  if (condition.vec || (lane_range_.id != ir::kNoId && s.else_case == nullptr && stores_local_only(s.then_case))) {
    Val outer = mask_;
    mask_ = both_masks(outer, condition);
    stmt(s.then_case);
    if (s.else_case != nullptr) {
      mask_ = both_masks(outer, {b_.CreateNot(condition.v), condition.vec});
      stmt(s.else_case);
    }
    mask_ = outer;
    return;
  }
  if (s.else_case == nullptr) return guarded(condition.v, [&] { stmt(s.then_case); });
  auto* yes = llvm::BasicBlock::Create(context_, "then", function_);
  auto* no = llvm::BasicBlock::Create(context_, "else", function_);
  auto* after = llvm::BasicBlock::Create(context_, "endif", function_);
  b_.CreateCondBr(condition.v, yes, no);
  b_.SetInsertPoint(yes);
  stmt(s.then_case);
  b_.CreateBr(after);
  b_.SetInsertPoint(no);
  stmt(s.else_case);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

}  // namespace tcc::codegen
