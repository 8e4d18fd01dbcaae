// Memory for running code that may be wrong: inaccessible pages on both sides, so that going over the end faults at
// once, and a known pattern in the few bytes between the data and those pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tcc/support/result.h"

namespace tcc::runtime {

class GuardedBuffer {
 public:
  // The data ends at the upper guard as closely as `alignment` (a power of two) lets it. Zero bytes are allowed.
  // Error: no memory.
  static Result<GuardedBuffer> allocate(int64_t bytes, int64_t alignment = 64);
  GuardedBuffer() = default;
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();

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
  void release();
  std::byte* map_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;  // with the guards
};

}  // namespace tcc::runtime
