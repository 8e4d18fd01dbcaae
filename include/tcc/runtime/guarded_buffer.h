// Memory for running code that may be wrong: inaccessible pages on both sides, so that going over the end faults at
// once, and a known pattern in the few bytes between the data and those pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tcc/support/result.h"

namespace tcc::runtime {

class GuardedBuffer {
 public:
  // The data ends at the upper guard as closely as `alignment` (a power of two) lets it. Zero bytes are allowed.
  // Error: no memory.
  static Result<GuardedBuffer> allocate(int64_t bytes, int64_t alignment = 64);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, static_cast<size_t>(bytes_)}; }

  void fill(uint8_t value) const;
  // Afterwards a store to the data faults (false: the system refused).
  bool protect() const;
  bool unprotect() const;
  // False when something wrote beside the data without reaching a guard.
  bool margins_intact() const;
  // Is the address inside the data, the margins or the guards? A fault there belongs to this buffer.
  bool owns(const void* address) const;

 private:
  struct Unmap {
    int64_t bytes;  // 0 by default
    void operator()(std::byte* map) const;
  };
  std::span<std::byte> accessible() const;  // between the guards
  std::unique_ptr<std::byte, Unmap> map_;   // with the guards
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tcc::runtime
