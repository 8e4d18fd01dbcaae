// A memfd and its mapping: how data goes between the processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tcc/support/descriptor.h"
#include "tcc/support/result.h"

namespace tcc::measure {

class SharedMemory {
 public:
  static Result<SharedMemory> create(const char* name, int64_t bytes);
  // Maps a descriptor that came from another process and owns it from now on. `bytes` must not exceed the file.
  static Result<SharedMemory> adopt(int fd, int64_t bytes, bool writable);

  int fd() const { return file_.get(); }
  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return data_.get_deleter().bytes; }

 private:
  struct Unmap {
    int64_t bytes;  // 0 by default
    void operator()(std::byte* data) const;
  };
  static Result<SharedMemory> map(Descriptor file, int64_t bytes, bool writable);
  Descriptor file_;
  std::unique_ptr<std::byte, Unmap> data_;
};

}  // namespace tcc::measure
