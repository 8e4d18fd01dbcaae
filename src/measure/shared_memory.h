// A memfd and its mapping: how data goes between the processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tcc/support/result.h"

namespace tcc::measure {

class SharedMemory {
 public:
  static Result<SharedMemory> create(const char* name, int64_t bytes);
  // Maps a descriptor that came from another process and owns it from now on. `bytes` must not exceed the file.
  static Result<SharedMemory> adopt(int fd, int64_t bytes, bool writable);
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  int fd() const { return fd_; }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void release();
  int fd_ = -1;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tcc::measure
