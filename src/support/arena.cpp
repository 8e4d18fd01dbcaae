#include "tcc/support/arena.h"

#include <algorithm>

namespace tcc {

void Arena::add_chunk(size_t at_least) {
  // After reset() the old chunks are handed out again, in order, skipping any that is too small for this request.
  while (next_chunk_ < chunks_.size()) {
    Chunk& chunk = chunks_[next_chunk_++];
    if (chunk.size >= at_least) {
      cursor_ = reinterpret_cast<uintptr_t>(chunk.data.get());
      end_ = cursor_ + chunk.size;
      return;
    }
  }
  size_t size =
      std::max<size_t>(at_least, chunks_.empty() ? 16 << 10 : std::min<size_t>(chunks_.back().size * 2, 4 << 20));
  chunks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size]), size});
  next_chunk_ = chunks_.size();
  cursor_ = reinterpret_cast<uintptr_t>(chunks_.back().data.get());
  end_ = cursor_ + size;
}

void Arena::reset() {
  older_.clear();
  next_chunk_ = 0;
  cursor_ = end_ = 0;
}

void Arena::keep_alive(std::shared_ptr<const Arena> older) {
  if (older.get() == this) return;
  for (const auto& held : older_)
    if (held == older) return;
  older_.push_back(std::move(older));
}

size_t Arena::bytes_used() const {
  size_t bytes = 0;
  for (size_t i = 0; i < next_chunk_; ++i) bytes += chunks_[i].size;
  return bytes - (end_ - cursor_);
}

}  // namespace tcc
