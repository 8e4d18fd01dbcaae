// Transposes in registers. The lanes of a vector are apart in memory where a schedule transposes a matrix: it reads a
// column or leaves one. Where an unrolled loop does so for neighboring columns, a square of elements is read as rows
// of the other direction, transposed by shuffles, and used as columns, or the other way round for stores: log2(n)
// shuffles for each vector of n, instead of n loads or stores (Eklundh, A Fast Computer Method for Matrix Transposing,
// 1972: exchange of blocks of 1, 2, 4, ... elements). Columns that are all of their rows are interleaved instead, and
// stored as one vector.
//
// The annotation transpose_accesses says in which loops, and how large squares may be. While code of such a loop is
// emitted, accesses of single elements are noted. Those of one buffer that follow each other in a basic block, with no
// other access between that could touch the same elements, are one run. At the end of a function runs are replaced.
#include <algorithm>
#include <bit>
#include <set>

#include "codegen/llvm/emitter.h"
#include "tcc/ir/walk.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

// A load's or store's pointers are one scalar plus a constant for each lane.
Value* scalar_pointer(const llvm::Instruction* access) {
  auto* call = llvm::cast<llvm::CallInst>(access);
  const bool store = call->getType()->isVoidTy();
  return llvm::cast<llvm::GEPOperator>(call->getArgOperand(store ? 1 : 0))->getPointerOperand();
}

// How many lanes are on, if these are the first ones of all; nullptr: all are.
std::optional<int64_t> first_lanes(Value* mask, int64_t lanes) {
  if (mask == nullptr) return lanes;
  auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  if (constant == nullptr) return std::nullopt;
  int64_t on = 0;
  for (int64_t l = 0; l < lanes; ++l) {
    llvm::Constant* lane = constant->getAggregateElement(static_cast<unsigned>(l));
    if (lane == nullptr || !llvm::isa<llvm::ConstantInt>(lane)) return std::nullopt;
    if (lane->isNullValue()) continue;
    if (l > on) return std::nullopt;
    ++on;
  }
  return on;
}

class Transposer {
 public:
  using MaskedStore = std::function<void(Value*, Value*, llvm::Align, Value*)>;
  Transposer(llvm::IRBuilder<>& b, llvm::Type* element, int64_t bytes, MaskedStore masked_store)
      : b_(b), element_(element), bytes_(bytes), masked_store_(std::move(masked_store)) {}

  // `list`: w accesses to neighboring columns, in the order of the columns.
  void loads(const std::vector<const LaneAccess*>& list) {
    const auto w = static_cast<int64_t>(list.size());
    const LaneAccess& first = **std::min_element(list.begin(), list.end(), by_order);
    b_.SetInsertPoint(first.made);
    std::vector<std::vector<Value*>> parts(list.size());  // of each column
    for (size_t lane = 0; lane < first.offsets.size(); lane += list.size()) {
      std::vector<Value*> rows;
      for (int64_t r = 0; r < w; ++r)
        rows.push_back(b_.CreateAlignedLoad(row_type(w), row(first, *list[0], lane + static_cast<size_t>(r)), align()));
      transpose(rows);
      for (size_t c = 0; c < list.size(); ++c) parts[c].push_back(rows[c]);
    }
    for (size_t c = 0; c < list.size(); ++c) {
      list[c]->made->replaceAllUsesWith(joined(parts[c], w));
    }
    erase(list);
  }

  void stores(const std::vector<const LaneAccess*>& list) {
    const auto w = static_cast<int64_t>(list.size());
    const LaneAccess& last = **std::max_element(list.begin(), list.end(), by_order);
    b_.SetInsertPoint(last.made);
    if (are_neighbors(last.offsets, w)) {
      std::vector<Value*> columns;
      for (const LaneAccess* access : list)
        columns.push_back(llvm::cast<llvm::CallInst>(access->made)->getArgOperand(0));
      store_first(interleaved(columns), row(last, *list[0], 0), w * last.on);
      return erase(list);
    }
    for (size_t lane = 0; lane < last.offsets.size(); lane += list.size()) {
      std::vector<Value*> rows;
      for (const LaneAccess* access : list) {
        Value* whole = llvm::cast<llvm::CallInst>(access->made)->getArgOperand(0);
        llvm::SmallVector<int, 64> pick;
        for (int64_t i = 0; i < w; ++i) pick.push_back(static_cast<int>(lane) + static_cast<int>(i));
        rows.push_back(access->offsets.size() == list.size() ? whole : b_.CreateShuffleVector(whole, pick));
      }
      transpose(rows);
      for (size_t r = 0; r < rows.size() && static_cast<int64_t>(lane + r) < last.on; ++r)
        b_.CreateAlignedStore(rows[r], row(last, *list[0], lane + r), align());
    }
    erase(list);
  }

 private:
  // The first `on` elements.
  void store_first(Value* value, Value* pointer, int64_t on) {
    const auto elements = static_cast<int64_t>(llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements());
    if (on == elements) {
      b_.CreateAlignedStore(value, pointer, align());
      return;
    }
    llvm::SmallVector<llvm::Constant*, 128> mask;
    for (int64_t i = 0; i < elements; ++i) mask.push_back(b_.getInt1(i < on));
    masked_store_(value, pointer, align(), llvm::ConstantVector::get(mask));
  }
  static bool by_order(const LaneAccess* x, const LaneAccess* y) { return x->order < y->order; }
  llvm::FixedVectorType* row_type(int64_t w) const {
    return llvm::FixedVectorType::get(element_, static_cast<unsigned>(w));
  }
  llvm::Align align() const { return llvm::Align(static_cast<uint64_t>(bytes_)); }
  // Where the elements of one lane begin; `from` is an access whose pointer exists here, `column` the first one.
  Value* row(const LaneAccess& from, const LaneAccess& column, size_t lane) {
    return b_.CreateGEP(element_, scalar_pointer(from.made),
                        b_.getInt64(static_cast<uint64_t>(column.at - from.at + from.offsets[lane])));
  }

  // The elements of a lane end where those of the next one begin.
  static bool are_neighbors(const std::vector<int64_t>& offsets, int64_t w) {
    for (size_t lane = 1; lane < offsets.size(); ++lane)
      if (offsets[lane] != offsets[lane - 1] + w) return false;
    return true;
  }
  // The first elements of all columns, the second ones, and so on; a power of two of columns.
  Value* interleaved(const std::vector<Value*>& columns) {
    if (columns.size() == 1) return columns[0];
    std::vector<Value*> even, odd;
    for (size_t i = 0; i < columns.size(); ++i) (i % 2 == 0 ? even : odd).push_back(columns[i]);
    Value *x = interleaved(even), *y = interleaved(odd);
    const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
    llvm::SmallVector<int, 128> pick;
    for (int i = 0; i < lanes; ++i) pick.append({i, lanes + i});
    return b_.CreateShuffleVector(x, y, pick);
  }

  // Rows become columns. Processors interleave halves of a register of 16 bytes by one instruction: with the rows of
  // the lower half beside those of the upper one, log2(w) times, each element is in its place.
  void transpose(std::vector<Value*>& rows) {
    constexpr int64_t kInterleavedBytes = 16;
    const auto w = static_cast<int>(rows.size());
    if (w * bytes_ <= kInterleavedBytes) {
      for (int done = 1; done < w; done *= 2) {
        std::vector<Value*> next;
        for (size_t i = 0; 2 * i < rows.size(); ++i)
          for (int half : {0, w / 2}) {
            llvm::SmallVector<int, 16> pick;
            for (int j = 0; j < w / 2; ++j) pick.append({half + j, w + half + j});
            next.push_back(b_.CreateShuffleVector(rows[i], rows[i + rows.size() / 2], pick));
          }
        rows = std::move(next);
      }
      return;
    }
    for (int block = 1; block < w; block *= 2)
      for (int i = 0; i < w; ++i) {
        if ((i & block) != 0) continue;
        Value *x = rows[static_cast<size_t>(i)], *y = rows[static_cast<size_t>(i | block)];
        llvm::SmallVector<int, 16> low, high;
        for (int j = 0; j < w; ++j) {
          low.push_back((j & block) != 0 ? w + (j ^ block) : j);
          high.push_back((j & block) != 0 ? w + j : (j | block));
        }
        rows[static_cast<size_t>(i)] = b_.CreateShuffleVector(x, y, low);
        rows[static_cast<size_t>(i | block)] = b_.CreateShuffleVector(x, y, high);
      }
  }

  Value* joined(std::vector<Value*> parts, int64_t w) {
    while (parts.size() > 1) {
      llvm::SmallVector<int, 64> both;
      for (int i = 0; i < static_cast<int>(2 * w); ++i) both.push_back(i);
      std::vector<Value*> wider;
      for (size_t i = 0; i < parts.size(); i += 2)
        wider.push_back(b_.CreateShuffleVector(parts[i], parts[i + 1], both));
      parts = std::move(wider);
      w *= 2;
    }
    return parts[0];
  }

  static void erase(const std::vector<const LaneAccess*>& list) {
    for (const LaneAccess* access : list) access->made->eraseFromParent();
  }

  llvm::IRBuilder<>& b_;
  llvm::Type* element_;
  int64_t bytes_;
  MaskedStore masked_store_;
};

}  // namespace

// `mask`: nullptr where all lanes are on. Others than the first lanes may be on at some time: that stays a scatter.
void Emitter::note_lanes(const BufferSlot& slot, const FlatAddress& at, llvm::Instruction* made, bool store,
                         Value* mask) {
  const bool xors = slot.buffer->layout != nullptr && !slot.buffer->layout->xors.empty();
  const bool in_registers =
      slot.local && slot.elements * ir::type_bytes(slot.buffer->type) <= analysis::kMostInRegisters;
  const std::optional<int64_t> on = at.split ? first_lanes(mask, std::ssize(at.split->offsets)) : std::nullopt;
  if (in_registers || xors || !on || transposed_ < 2) return close_run(slot.buffer->id);
  LaneAccess access{made, 0, at.split->offsets, *on, lane_accesses_++};
  std::vector<ir::Term> base;
  bool comparable = true;
  auto add = [&](int64_t coefficient, ir::Expr atom) {
    if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(scalar_index(atom))) {
      access.at += coefficient * c->getSExtValue();
      return;
    }
    // Within a basic block an expression has one value, unless it depends on a loop that is written out.
    ir::visit(atom, [&](ir::Expr e) {
      const ir::Var* v = ir::as<ir::Var>(e);
      comparable &= v == nullptr || !llvm::isa<llvm::Constant>(env_[static_cast<size_t>(v->id)].value.v);
      return true;
    });
    base.push_back({coefficient, atom});
  };
  if (const ir::Sum* s = ir::as<ir::Sum>(at.split->uniform)) {
    access.at += s->constant;
    for (const ir::Term& t : s->terms) add(t.coefficient, t.atom);
  } else {
    add(1, at.split->uniform);
  }
  if (!comparable) return close_run(slot.buffer->id);
  auto same = [](const ir::Term& x, const ir::Term& y) {
    return x.coefficient == y.coefficient && ir::equal(x.atom, y.atom);
  };
  auto run = open_runs_.find(slot.buffer->id);
  if (run != open_runs_.end() &&
      (run->second.stores != store || run->second.block != made->getParent() ||
       !std::equal(base.begin(), base.end(), run->second.base.begin(), run->second.base.end(), same))) {
    close_run(slot.buffer->id);
    run = open_runs_.end();
  }
  if (run == open_runs_.end())
    run = open_runs_.emplace(slot.buffer->id, LaneRun{slot.buffer->type, base, made->getParent(), store, 0, {}}).first;
  run->second.widest = std::max(run->second.widest, transposed_);
  run->second.list.push_back(std::move(access));
}

void Emitter::close_run(ir::Id buffer) {
  auto run = open_runs_.find(buffer);
  if (run == open_runs_.end()) return;
  runs_.push_back(std::move(run->second));
  open_runs_.erase(run);
}

void Emitter::close_runs() {
  while (!open_runs_.empty()) close_run(open_runs_.begin()->first);
}

void Emitter::transpose_runs() {
  close_runs();
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  for (LaneRun& run : runs_) {
    const int64_t bytes = ir::type_bytes(run.type);
    Transposer transposer(b_, memory_type(run.type), bytes,
                          [this](Value* value, Value* pointer, llvm::Align align, Value* mask) {
                            masked_store(value, pointer, align, mask);
                          });
    std::set<int64_t> places;
    size_t elements = 0;
    for (const LaneAccess& access : run.list)
      for (int64_t lane = 0; lane < access.on; ++lane, ++elements)
        places.insert(access.at + access.offsets[static_cast<size_t>(lane)]);
    // Stores to one place keep their order.
    if (run.stores && places.size() != elements) continue;
    std::map<std::pair<std::vector<int64_t>, int64_t>, std::map<int64_t, const LaneAccess*>> groups;
    for (const LaneAccess& access : run.list) groups[{access.offsets, access.on}].emplace(access.at, &access);
    for (const auto& [shape, columns] : groups) {
      const std::vector<int64_t>& offsets = shape.first;
      const auto lanes = static_cast<int64_t>(offsets.size());
      for (auto next = columns.begin(); next != columns.end();) {
        std::vector<const LaneAccess*> list;
        for (auto c = next; c != columns.end() && c->first == next->first + std::ssize(list); ++c)
          list.push_back(c->second);
        auto w = static_cast<int64_t>(
            std::bit_floor(static_cast<uint64_t>(std::min(run.widest, static_cast<int64_t>(list.size())))));
        const int64_t least = analysis::least_transposed(offsets, run.stores);
        while (w >= least && lanes % w != 0) w /= 2;
        if (w < least) {
          ++next;
          continue;
        }
        list.resize(static_cast<size_t>(w));
        run.stores ? transposer.stores(list) : transposer.loads(list);
        std::advance(next, w);
      }
    }
  }
  runs_.clear();
}

}  // namespace tcc::codegen
