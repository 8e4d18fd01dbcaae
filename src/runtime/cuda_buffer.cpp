#include <algorithm>
#include <utility>
#include <vector>

#include "tcc/runtime/cuda_device.h"

namespace tcc::runtime {

CudaBuffer::CudaBuffer(CudaBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), address_(other.address_), bytes_(other.bytes_) {}
CudaBuffer& CudaBuffer::operator=(CudaBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
CudaBuffer::~CudaBuffer() {
  if (device_ != nullptr) device_->release(address_);
}
CudaBuffer CudaDevice::make_buffer(CudaDevice* device, uint64_t address, int64_t bytes) {
  CudaBuffer buffer;
  buffer.device_ = device;
  buffer.address_ = address;
  buffer.bytes_ = bytes;
  return buffer;
}

namespace {

constexpr uint8_t kPattern = 0xc3;

}  // namespace

Result<GuardedCudaBuffer> GuardedCudaBuffer::allocate(CudaDevice& device, int64_t bytes) {
  GuardedCudaBuffer buffer;
  TCC_TRY(buffer.memory_, device.allocate(bytes + 2 * kGuardBytes));
  buffer.device_ = &device;
  buffer.bytes_ = bytes;
  TCC_TRY_VOID(device.fill_at(buffer.memory_.address(), kGuardBytes, kPattern));
  TCC_TRY_VOID(device.fill_at(buffer.address() + static_cast<uint64_t>(bytes), buffer.upper_bytes(), kPattern));
  return buffer;
}

Result<bool> GuardedCudaBuffer::margins_intact() const {
  std::vector<std::byte> margin;
  const std::pair<uint64_t, int64_t> margins[] = {{memory_.address(), kGuardBytes},
                                                  {address() + static_cast<uint64_t>(bytes_), upper_bytes()}};
  for (const auto& [at, bytes] : margins) {
    margin.resize(static_cast<size_t>(bytes));
    TCC_TRY_VOID(device_->download_at(margin, at));
    if (std::any_of(margin.begin(), margin.end(), [](std::byte b) { return b != std::byte{kPattern}; })) return false;
  }
  return true;
}

}  // namespace tcc::runtime
