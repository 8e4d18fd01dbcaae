// File descriptors: one that is closed with its object, and transfers that go on until all is done.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <string_view>
#include <utility>

namespace tcc {

// -1: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// False: the system refuses, as errno says, or takes nothing. Signals do not end it.
bool write_all(int fd, std::string_view bytes);
// Bytes that were read, fewer than `size` where the file or the pipe ends; -1: the system refuses, as errno says.
std::ptrdiff_t read_all(int fd, void* data, size_t size);

}  // namespace tcc
