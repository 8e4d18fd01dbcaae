// Loads whose lanes fall into a few windows of a register's width, as when rows are woven into one another: each window
// is read at once, and shuffles put its elements into their lanes. A gather would read each lane by itself.
#include <llvm/Analysis/VectorUtils.h>

#include <algorithm>
#include <limits>

#include "codegen/llvm/emitter.h"

namespace tcc::codegen {
namespace {

using llvm::Value;

constexpr int64_t kMostBesideSquares = 4;                            // windows of a register
constexpr int64_t kNoElement = std::numeric_limits<int64_t>::min();  // a lane that is off

// Greedy from the lowest: no other choice of windows has fewer.
std::vector<ir::Interval> windows_of(std::vector<int64_t> elements, int64_t width) {
  std::sort(elements.begin(), elements.end());
  std::vector<ir::Interval> windows;
  for (int64_t e : elements) {
    if (windows.empty() || e - windows.back().low >= width) windows.push_back({e, e});
    windows.back().high = e;
  }
  return windows;
}

// The element of each lane; nullopt: which lanes are on is not known before the program runs.
std::optional<std::vector<int64_t>> elements_of(const LaneSplit& split, const Val& mask) {
  std::vector<int64_t> elements = split.offsets;
  if (!mask.vec) return elements;
  const auto* on = llvm::dyn_cast<llvm::Constant>(mask.v);
  if (on == nullptr) return std::nullopt;
  for (size_t l = 0; l < elements.size(); ++l) {
    const llvm::Constant* lane = on->getAggregateElement(static_cast<unsigned>(l));
    if (lane == nullptr) return std::nullopt;
    if (lane->isNullValue()) elements[l] = kNoElement;
  }
  return elements;
}

}  // namespace

// `width` lanes in memory's type, a power of two, with the window's elements in the first ones; others are anything.
// nullptr: elements outside of the window may not be read, and this instruction set has no loads of some lanes.
Value* Emitter::load_window(const BufferSlot& slot, ir::Expr uniform, ir::Interval window, int64_t width, Val mask) {
  const int64_t bytes = ir::type_bytes(slot.buffer->type);
  const bool whole = exists(slot, uniform, window.low, window.low + width - 1);
  if (!whole && target_.cpu.vector_bits < (bytes < 4 ? 512 : 256)) return nullptr;
  auto* type = llvm::FixedVectorType::get(memory_type(slot.buffer->type), static_cast<unsigned>(width));
  Value* pointer = element_pointer(slot, uniform, window.low);
  if (mask.v != nullptr && !mask.vec) pointer = b_.CreateSelect(mask.v, pointer, zero_page());
  const llvm::Align align(static_cast<uint64_t>(bytes));
  if (whole) return b_.CreateAlignedLoad(type, pointer, align);
  llvm::SmallVector<llvm::Constant*, 64> on;
  for (int64_t l = 0; l < width; ++l) on.push_back(b_.getInt1(l <= window.high - window.low));
  return b_.CreateMaskedLoad(type, pointer, align, llvm::ConstantVector::get(on), llvm::PoisonValue::get(type));
}

// nullptr: the windows are too many, or cannot be read so. Lanes that are off are zero.
Value* Emitter::load_windows(const BufferSlot& slot, const LaneSplit& split, Val mask) {
  const int64_t bytes = ir::type_bytes(slot.buffer->type);
  // Without an instruction for it bytes are shuffled inside of 16 of them.
  const bool short_shuffles = bytes == 1 && !target_.cpu.features.avx512_vbmi;
  const int64_t width = short_shuffles ? 16 : target_.cpu.vector_bits / 8 / bytes;
  const std::optional<std::vector<int64_t>> elements = elements_of(split, mask);
  if (!elements) return nullptr;
  const auto lanes = std::ssize(*elements), together = std::min(lanes, width);
  std::vector<std::vector<ir::Interval>> windows;  // of each register
  for (int64_t first = 0; first < lanes; first += together) {
    std::vector<int64_t> on;
    for (int64_t l = first; l < first + together; ++l)
      if ((*elements)[static_cast<size_t>(l)] != kNoElement) on.push_back((*elements)[static_cast<size_t>(l)]);
    windows.push_back(windows_of(on, width));
    if (!analysis::are_few_windows(std::ssize(windows.back()), together)) return nullptr;
    // Squares of neighboring columns take fewer shuffles then.
    if (transposed_ >= analysis::kMinTransposed && std::ssize(windows.back()) > kMostBesideSquares) return nullptr;
  }
  auto* type = llvm::FixedVectorType::get(memory_type(slot.buffer->type), static_cast<unsigned>(width));
  llvm::SmallVector<Value*, 8> parts;
  for (int64_t first = 0; first < lanes; first += together) {
    Value* part = llvm::PoisonValue::get(type);
    for (const ir::Interval& w : windows[static_cast<size_t>(first / together)]) {
      Value* read = load_window(slot, split.uniform, w, width, mask);
      if (read == nullptr) return nullptr;
      llvm::SmallVector<int, 64> pick(static_cast<size_t>(width), -1);
      for (int64_t l = 0; l < together; ++l) {
        const int64_t e = (*elements)[static_cast<size_t>(first + l)];
        pick[static_cast<size_t>(l)] = static_cast<int>(e < w.low || e > w.high ? l : width + e - w.low);
      }
      part = b_.CreateShuffleVector(part, read, pick);
    }
    parts.push_back(together < width ? pick_lanes(part, 0, together) : part);
  }
  Value* result = llvm::concatenateVectors(b_, parts);
  if (!mask.vec) return result;
  return b_.CreateSelect(mask.v, result, llvm::Constant::getNullValue(result->getType()));
}

}  // namespace tcc::codegen
