// Bump allocation for IR nodes: no per-node free, no destructors. A younger arena may point into an older one
// that it keeps alive (keep_alive), never the reverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace tcc {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(size_t bytes, size_t align = alignof(std::max_align_t)) {
    uintptr_t start = (cursor_ + align - 1) & ~static_cast<uintptr_t>(align - 1);
    if (start + bytes > end_) [[unlikely]] {
      add_chunk(bytes + align);
      start = (cursor_ + align - 1) & ~static_cast<uintptr_t>(align - 1);
    }
    cursor_ = start + bytes;
    return reinterpret_cast<void*>(start);
  }

  template <class T, class... Args>
  T* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>, "arena nodes are plain");
    return new (allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }

  template <class T>
  std::span<T> make_span(size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (n == 0) return {};
    T* data = static_cast<T*>(allocate(n * sizeof(T), alignof(T)));
    for (size_t i = 0; i < n; ++i) new (data + i) T{};
    return {data, n};
  }
  template <class T>
  std::span<const T> copy(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    if (values.empty()) return {};
    T* data = static_cast<T*>(allocate(values.size() * sizeof(T), alignof(T)));
    std::memcpy(static_cast<void*>(data), values.data(), values.size() * sizeof(T));
    return {data, values.size()};
  }
  template <class T>
  std::span<const T> copy(const std::vector<T>& values) {
    return copy(std::span<const T>(values));
  }

  // Forgets every allocation but keeps the memory, for the next candidate of a search worker.
  void reset();
  // Holds another arena (and whatever it keeps alive) for as long as this one lives.
  void keep_alive(std::shared_ptr<const Arena> older);
  size_t bytes_used() const;

 private:
  void add_chunk(size_t at_least);

  struct Chunk {
    std::unique_ptr<std::byte[]> data;
    size_t size;
  };
  uintptr_t cursor_ = 0;
  uintptr_t end_ = 0;
  size_t next_chunk_ = 0;  // index of the first chunk not in use yet
  std::vector<Chunk> chunks_;
  std::vector<std::shared_ptr<const Arena>> older_;
};

using ArenaPtr = std::shared_ptr<Arena>;

}  // namespace tcc
