// What both models of GPUs, of kernels and of columns, know. Private to the room.
#pragma once

#include "tcc/ir/stmt.h"
#include "tcc/target/target.h"

namespace tcc::cost {

// Of the load and store unit, for each line of 128 bytes that one instruction of a warp touches when threads copy to
// shared memory. Fit to five products of f32 on an H100 (benchmarks/results/gpu_h100_networks.json, second_form): lines
// of a copy of 4 bytes a lane, beside the loads of shared memory.
inline constexpr double kCopyLineCycles = 1.25;

// Registers that a thread usually has beside its local arrays, for occupancy. Programs are refused by the smaller
// kMinAddressRegisters (lower/check_limits.cpp).
inline constexpr double kExpectedAddressRegisters = 24;
inline constexpr double kExchangedShare = 0.25;  // of a launch's traffic, from which on threads wait for each other
inline constexpr double kFragmentRow = 8;        // elements of a fragment's row that lanes hold together
inline constexpr double kSwizzledConflicts = 4;  // of columns, where rows keep pieces of 16 bytes

// A copy that the threads of a block share.
bool is_shared_copy(const ir::Loop& l);
// Operations a second of the matrix instructions that multiply values of the type; 0: the target has no such
// instructions.
double matrix_peak(const target::Peaks& peak, ir::Type t);

}  // namespace tcc::cost
