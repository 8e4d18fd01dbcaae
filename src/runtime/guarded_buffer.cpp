#include "tcc/runtime/guarded_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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
  GuardedBuffer buffer;
  buffer.mapped_ = room + 2 * kGuardBytes;
  void* map =
      mmap(nullptr, static_cast<size_t>(buffer.mapped_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("cannot get {} of memory for a kernel's buffer: {}",
                                  format_bytes(static_cast<double>(bytes)), std::strerror(errno)),
                      "close other programs or raise the memory limit");
  buffer.map_ = static_cast<std::byte*>(map);
  std::byte* begin = buffer.map_ + kGuardBytes;
  std::byte* end = begin + room;
  if (mprotect(begin, static_cast<size_t>(room), PROT_READ | PROT_WRITE) != 0)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("cannot get {} of memory for a kernel's buffer: {}",
                                  format_bytes(static_cast<double>(bytes)), std::strerror(errno)),
                      "close other programs or raise the memory limit");
  buffer.bytes_ = bytes;
  buffer.data_ = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(end) - static_cast<uintptr_t>(bytes)) &
                                              ~static_cast<uintptr_t>(alignment - 1));
  std::fill(begin, buffer.data_, kMargin);
  std::fill(buffer.data_ + bytes, end, kMargin);
  return buffer;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept {
  *this = std::move(other);
}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  map_ = std::exchange(other.map_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  mapped_ = std::exchange(other.mapped_, 0);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  release();
}

void GuardedBuffer::release() {
  if (map_) munmap(map_, static_cast<size_t>(mapped_));
  map_ = nullptr;
}

void GuardedBuffer::fill(uint8_t value) const {
  if (bytes_ > 0) std::memset(data_, value, static_cast<size_t>(bytes_));
}

bool GuardedBuffer::protect() const {
  return mprotect(map_ + kGuardBytes, static_cast<size_t>(mapped_ - 2 * kGuardBytes), PROT_READ) == 0;
}

bool GuardedBuffer::unprotect() const {
  return mprotect(map_ + kGuardBytes, static_cast<size_t>(mapped_ - 2 * kGuardBytes), PROT_READ | PROT_WRITE) == 0;
}

bool GuardedBuffer::margins_intact() const {
  auto is_margin = [](std::byte b) { return b == kMargin; };
  const std::byte* begin = map_ + kGuardBytes;
  const std::byte* end = map_ + mapped_ - kGuardBytes;
  return std::all_of(begin, static_cast<const std::byte*>(data_), is_margin) &&
         std::all_of(static_cast<const std::byte*>(data_) + bytes_, end, is_margin);
}

bool GuardedBuffer::owns(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= map_ && at < map_ + mapped_;
}

}  // namespace tcc::runtime
