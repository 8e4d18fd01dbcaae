#include "common.h"

namespace tcc::schedule {

Legal<Kernel> transform_layout(const Kernel& k, Id block, int read_index, std::span<const int32_t> order,
                               std::span<const std::pair<int32_t, int64_t>> tiles) {
  TCC_TRY(Path path, path_to_block(k, block));
  std::vector<Id> reads = read_buffers(k, block);
  if (read_index < -1 || (read_index >= 0 && static_cast<size_t>(read_index) >= reads.size()))
    return reject(RejectReason::kBadFactor,
                  fmt::format("block {} has {} read buffers", describe(k, block), reads.size()));
  const Buffer* buffer = k.buffer(read_index < 0 ? written_buffer(k, block) : reads[static_cast<size_t>(read_index)]);
  if (buffer == nullptr) return reject(RejectReason::kBadFactor, describe(k, block) + " writes no buffer, or several");
  if (buffer->role != BufferRole::kWeight && buffer->role != BufferRole::kTemp)
    return reject(RejectReason::kNotConstant, describe(k, buffer->id) + " is the caller's: its layout is fixed");
  if (buffer->padding.dim >= 0)
    return reject(RejectReason::kBadFactor,
                  describe(k, buffer->id) + " has an aligned stride, which a layout would undo");
  std::vector<int64_t> shape;
  for (Expr e : buffer->shape) {
    if (!is_int(e)) return reject(RejectReason::kNotConstant, "shape of " + describe(k, buffer->id));
    shape.push_back(int_value(e));
  }
  // Tiles that the order does not name are innermost.
  std::vector<bool> seen(shape.size() + tiles.size(), false);
  for (int32_t d : order) {
    if (d < 0 || static_cast<size_t>(d) >= seen.size() || seen[static_cast<size_t>(d)])
      return reject(RejectReason::kBadFactor, "order is not a permutation");
    seen[static_cast<size_t>(d)] = true;
  }
  if (std::find(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(shape.size()), false) !=
      seen.begin() + static_cast<std::ptrdiff_t>(shape.size()))
    return reject(RejectReason::kBadFactor, "order is not a permutation");
  for (const auto& [d, tile] : tiles)
    if (d < 0 || static_cast<size_t>(d) >= shape.size() || tile < 1 || tile > (int64_t{1} << 30))
      return reject(RejectReason::kBadFactor, "tile out of range");
  Editor edit(k);
  Buffer changed = *buffer;
  changed.layout = make_blocked(edit.b.arena(), shape, order, tiles);
  if (buffer->layout != nullptr)  // of the data's shape still, where that is smaller
    changed.layout = of_shape(edit.b.arena(), *changed.layout, buffer->layout->shape);
  edit.replace_buffer(changed);
  return edit.finish(k.root);
}

}  // namespace tcc::schedule
