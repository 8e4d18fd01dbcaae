#include "measure/shared_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tcc/support/text.h"

namespace tcc::measure {
namespace {

tl::unexpected<Error> memory_error(int64_t bytes) {
  return make_error(ErrorClass::kEnvironment,
                    fmt::format("cannot share {} of memory with the measuring process: {}",
                                format_bytes(static_cast<double>(bytes)), std::strerror(errno)),
                    "free memory, or raise the limits on memory, open files and file sizes (ulimit -v, -n, -f)");
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const char* name, int64_t bytes) {
  SharedMemory memory;
  memory.fd_ = memfd_create(name, MFD_CLOEXEC);
  if (memory.fd_ < 0 || ftruncate(memory.fd_, bytes) != 0) return memory_error(bytes);
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd_, 0);
  if (data == MAP_FAILED) return memory_error(bytes);
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

Result<SharedMemory> SharedMemory::adopt(int fd, int64_t bytes, bool writable) {
  SharedMemory memory;
  memory.fd_ = fd;
  struct stat status{};
  if (fstat(fd, &status) != 0 || status.st_size < bytes) return memory_error(bytes);
  int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = mmap(nullptr, static_cast<size_t>(bytes), protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return memory_error(bytes);
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept {
  *this = std::move(other);
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  release();
  fd_ = std::exchange(other.fd_, -1);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

SharedMemory::~SharedMemory() {
  release();
}

void SharedMemory::release() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
  if (fd_ >= 0) close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

}  // namespace tcc::measure
