// SASS, the machine code of NVIDIA's GPUs, as nvdisasm prints it: the loops of a kernel and what they execute.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::benchmarks {

// What a stretch of code executes, each instruction once. Numbers in brackets: bytes that a thread moves at a time.
struct SassCounts {
  int64_t instructions = 0;
  int64_t hmma = 0, hgmma = 0, ffma = 0, mufu = 0;  // hmma: products of one warp of any type (HMMA, IMMA, DMMA)
  int64_t lds = 0, ldsm = 0, sts = 0;               // shared memory
  int64_t shared_read_words = 0;                    // of 32 bits, by a thread's LDS
  int64_t async_copies = 0, tensor_copies = 0;      // LDGSTS, UTMALDG
  int64_t membar = 0, bar = 0, spills = 0;          // spills: LDL and STL
  int64_t integer = 0, conversions = 0;             // IMAD, IADD, LOP3, SHF, LEA, ...; F2F, F2FP, I2F, HADD2.F32
  int64_t loaded_bytes = 0, stored_bytes = 0;       // of global memory, a thread
  int64_t copied_bytes = 0;                         // by LDGSTS, a thread
  std::map<int64_t, int64_t> loads, stores;         // of global memory: instructions by bytes
  int64_t bytes_in_flight = 0;                      // most that is loaded and not yet used, a thread
  int64_t groups_in_flight = 0;                     // of LDGSTS behind the loop's wait

  // Widest and narrowest access of a map; 0 of none.
  static int64_t widest(const std::map<int64_t, int64_t>& accesses);
  static int64_t narrowest(const std::map<int64_t, int64_t>& accesses);
};

struct SassLoop {
  size_t begin = 0, end = 0;  // instructions [begin, end)
  SassCounts counts;
};
struct SassKernel {
  std::string name;
  SassCounts all;
  std::vector<SassLoop> loops;  // backward branches; loops that only wait are left out
  // The loop that holds the kernel's work: of those with most products of matrices, else with most FFMA, else with most
  // bytes of global memory, the smallest. nullptr: the code has no loop.
  const SassLoop* steady() const;
};

// Kernels in the text of `nvdisasm -c`.
std::vector<SassKernel> parse_sass(const std::string& text);

// The text of a cubin. Errors (environment): nvdisasm is missing, and where it comes from; it fails, and what it says.
Result<std::string> disassemble(const std::string& cubin);

}  // namespace tcc::benchmarks
