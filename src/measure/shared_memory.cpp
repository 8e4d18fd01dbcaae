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
  Descriptor file(memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), bytes) != 0) return memory_error(bytes);
  return map(std::move(file), bytes, true);
}

Result<SharedMemory> SharedMemory::adopt(int fd, int64_t bytes, bool writable) {
  Descriptor file(fd);
  struct stat status{};
  if (fstat(fd, &status) != 0 || status.st_size < bytes) return memory_error(bytes);
  return map(std::move(file), bytes, writable);
}

Result<SharedMemory> SharedMemory::map(Descriptor file, int64_t bytes, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = mmap(nullptr, static_cast<size_t>(bytes), protection, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return memory_error(bytes);
  SharedMemory memory;
  memory.file_ = std::move(file);
  memory.data_ = {static_cast<std::byte*>(data), Unmap{bytes}};
  return memory;
}

void SharedMemory::Unmap::operator()(std::byte* data) const {
  munmap(data, static_cast<size_t>(bytes));
}

}  // namespace tcc::measure
