// Bulk tensor copies: which tensor map an instruction needs, and the coordinates of its box. The CUDA driver
// API, cuTensorMapEncodeTiled, says what a map may be.
#include <algorithm>

#include "codegen/cuda/address.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/prelude.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

constexpr int64_t kMaxOfBox = 256, kMaxExtent = int64_t{1} << 32;

// Why a tensor has no map; "": it has.
std::string refusal(const Buffer& b, const TensorMap& map, int64_t swizzle) {
  if (b.layout != nullptr) return "has a layout";
  if (map.dims.size() < kMinMapRank || map.dims.size() > kMaxMapRank)
    return fmt::format("has {} dimensions, a tensor map 2 to 5", map.dims.size());
  if (b.alignment < 16) return fmt::format("is aligned to {} bytes, a tensor map needs 16", b.alignment);
  for (int64_t stride : map.strides)
    if (stride % 16 != 0) return fmt::format("has rows of {} bytes, a tensor map needs multiples of 16", stride);
  for (int64_t n : map.dims)
    if (n > kMaxExtent) return fmt::format("has an extent of {}", n);
  for (int64_t n : map.box)
    if (n < 1 || n > kMaxOfBox) return fmt::format("is copied by boxes with an extent of {}, 256 is the most", n);
  const int64_t row = map.box[0] * type_bytes(b.type);
  if (row % 16 != 0 || (swizzle > 0 && row != swizzle))
    return fmt::format("is copied by boxes with rows of {} bytes{}", row,
                       swizzle > 0 ? fmt::format(", shared memory has {}", swizzle) : ", no multiple of 16");
  return "";
}

}  // namespace

// "map_N, column, row, ...": the map is found among those of the launch, or made.
std::string Emitter::tensor_map(const InstrCall& s, const Instruction& row, size_t n) {
  const Buffer& b = buffer(s.operands[n].buffer);
  // The box in shared memory, one row after the other.
  const Buffer* shared = nullptr;
  for (size_t i = 0; i < row.operands.size(); ++i)
    if (row.operands[i].type != Type::kBarrier && i != n) shared = &buffer(s.operands[i].buffer);
  TCC_CHECK(shared != nullptr, "{} copies nothing", row.name);
  TensorMap map;
  const auto param = std::find_if(params_.begin(), params_.end(), [&](const Buffer* p) { return p->id == b.id; });
  TCC_CHECK(param != params_.end(), "buffer {} is not a parameter", name(b.id));
  map.buffer = static_cast<int>(param - params_.begin());
  map.type = b.type;
  map.tf32 = tf32_tiles_.contains(shared->id) && row.operands[n].access == Access::kRead;
  map.swizzle = swizzle_of(shared->id);
  int64_t stride = type_bytes(b.type);
  for (size_t d = b.shape.size(); d-- > 0;) {
    map.dims.push_back(int_value(b.shape[d]));
    stride *= map.dims.back();
    if (d > 0) map.strides.push_back(stride);
  }
  map.box.assign(map.dims.size(), 1);
  const size_t rank = static_cast<size_t>(row.operands[n].rank);
  for (size_t d = 0; d < rank && d < map.box.size(); ++d) {
    const int64_t tile = row.operands[n].tile[rank - 1 - d];
    Expr extent = tile > 0 ? b_.integer(tile) : s.args[rank - 1 - d];
    if (!is_int(extent)) return fail(fmt::format("expected a constant box of {}", row.name)), "";
    map.box[d] = int_value(extent);
  }
  std::string no = refusal(b, map, map.swizzle);
  if (no.empty() && !holds_boxes(*shared, map.box[1], map.box[0]))
    no = fmt::format("is copied by boxes with rows of {} elements, and those of '{}' do not follow each other",
                     map.box[0], name_hint(kernel_, shared->id));
  if (!no.empty()) return fail(fmt::format("'{}' {}", name_hint(kernel_, b.id), no)), "";
  auto known = std::find(tensor_maps_.begin(), tensor_maps_.end(), map);
  if (known == tensor_maps_.end()) known = tensor_maps_.insert(known, map);
  std::string text = fmt::format("map_{}", known - tensor_maps_.begin());
  for (size_t d = b.shape.size(); d-- > 0;) text += ", (int)" + expr(s.operands[n].indices[d]);
  return text;
}

}  // namespace tcc::codegen::cuda
