#include "tcc/runtime/guarded_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::runtime {
namespace {

// Wide enough that an overrun by one row of a usual matrix still lands in it.
constexpr int64_t kGuardBytes = 64 << 10;
constexpr std::byte kMargin{0xc3};

int64_t page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

}  // namespace

Result<GuardedBuffer> GuardedBuffer::allocate(int64_t bytes, int64_t alignment) {
  TCC_CHECK(bytes >= 0 && alignment > 0 && (alignment & (alignment - 1)) == 0, "{} bytes aligned to {}", bytes,
            alignment);
  // Alignments above a page are reached by mapping more.
  int64_t page = page_bytes();
  int64_t room = (bytes + std::max(alignment - page, int64_t{0}) + page - 1) / page * page;
  room = std::max(room, page);
  const int64_t mapped = room + 2 * kGuardBytes;
  GuardedBuffer buffer;
  void* map = mmap(nullptr, static_cast<size_t>(mapped), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map != MAP_FAILED) buffer.map_ = {static_cast<std::byte*>(map), Unmap{mapped}};
  if (map == MAP_FAILED || !buffer.unprotect())
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("cannot get {} of memory for a kernel's buffer: {}",
                                  format_bytes(static_cast<double>(bytes)), std::strerror(errno)),
                      "close other programs or raise the memory limit");
  std::byte* begin = buffer.accessible().data();
  std::byte* end = begin + room;
  buffer.bytes_ = bytes;
  buffer.data_ = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(end) - static_cast<uintptr_t>(bytes)) &
                                              ~static_cast<uintptr_t>(alignment - 1));
  std::fill(begin, buffer.data_, kMargin);
  std::fill(buffer.data_ + bytes, end, kMargin);
  return buffer;
}

void GuardedBuffer::Unmap::operator()(std::byte* map) const {
  munmap(map, static_cast<size_t>(bytes));
}

std::span<std::byte> GuardedBuffer::accessible() const {
  return {map_.get() + kGuardBytes, static_cast<size_t>(map_.get_deleter().bytes - 2 * kGuardBytes)};
}

void GuardedBuffer::fill(uint8_t value) const {
  if (bytes_ > 0) std::memset(data_, value, static_cast<size_t>(bytes_));
}

bool GuardedBuffer::protect() const {
  return mprotect(accessible().data(), accessible().size(), PROT_READ) == 0;
}

bool GuardedBuffer::unprotect() const {
  return mprotect(accessible().data(), accessible().size(), PROT_READ | PROT_WRITE) == 0;
}

bool GuardedBuffer::margins_intact() const {
  auto is_margin = [](std::byte b) { return b == kMargin; };
  const std::span<std::byte> all = accessible();
  return std::all_of(all.data(), data_, is_margin) && std::all_of(data_ + bytes_, all.data() + all.size(), is_margin);
}

bool GuardedBuffer::owns(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= map_.get() && at < map_.get() + map_.get_deleter().bytes;
}

}  // namespace tcc::runtime
