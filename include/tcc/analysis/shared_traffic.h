// What the warps of a block ask of the banks of shared memory and, in pieces of how many bytes, of global memory; read
// off a kernel at Stage::Lowered.
#pragma once

#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

// One access in the text of the kernel, as a warp makes it.
struct WarpAccess {
  ir::Id buffer = ir::kNoId;
  bool write = false;
  std::string_view instruction;  // of the table; empty: a load or store
  int64_t bytes = 0;             // that a lane moves at once
  double times = 0;              // executions by one warp, at most
  double repeated = 1;           // iterations of straight code that one execution serves
  // Samples of the loops around: for each lane its logical indices, empty where it takes no part.
  std::vector<std::vector<std::vector<int64_t>>> samples;
};
// Accesses whose addresses depend on what memory holds are left out.
std::vector<WarpAccess> shared_accesses(const ir::Kernel& lowered);

// Banks deliver a word of 4 bytes each a cycle; lanes that ask for one word share it. Accesses of 8 and 16 bytes a lane
// are served by halves and quarters of a warp; quarters whose loads share their words, two at a time.
struct BankTraffic {
  double least = 0;   // cycles of an access without conflicts
  double cycles = 0;  // cycles of an access, the mean over the samples
  double worst = 0;   // of the samples
};
// `layout`: of the buffer; nullptr: row-major over its shape, which must be constant.
BankTraffic bank_traffic(const ir::Buffer& buffer, const ir::Layout* layout, const WarpAccess& access);

struct SharedTraffic {
  double cycles = 0;     // of one warp, over the run of a block
  double conflicts = 0;  // of these, cycles lost to conflicts
};
SharedTraffic shared_traffic(const ir::Kernel& lowered);

// Bytes that a thread moves at once in the access to global memory where that is least; 0: it has no such access.
int64_t narrowest_global_access(const ir::Kernel& lowered);

}  // namespace tcc::analysis
