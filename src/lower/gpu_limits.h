// Numbers of the limits of GPU programs that check_limits.cpp and their columns share. Private to the room.
#pragma once

#include <cstdint>

namespace tcc::lower {

// MetaSchedule's limits of GPU programs (verify_gpu_code).
inline constexpr int64_t kMaxVthreads = 8;
inline constexpr int64_t kMaxThreadsZ = 64;  // CUDA C++ Programming Guide, maximum z-dimension of a block
// Registers that a thread needs beside its local arrays in any case: with fewer left the kernel is refused. The
// prediction expects more (cost/gpu_counter.cpp, kExpectedAddressRegisters).
inline constexpr int64_t kMinAddressRegisters = 16;

}  // namespace tcc::lower
