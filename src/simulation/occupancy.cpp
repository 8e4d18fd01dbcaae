#include "simulation/occupancy.h"

#include <algorithm>
#include <cmath>

namespace tcc::simulation {

using namespace ir;

Result<Occupancy> find_occupancy(const LaunchCode& code, const target::Target& target, const Machine& m) {
  const target::CudaInfo& c = target.cuda;
  Occupancy o;
  for (const Loop* l : code.grid) {
    if (!is_int(l->extent)) return input_error("the simulated GPU takes grids of constant size only");
    o.blocks *= std::max<int64_t>(int_value(l->extent), 1);
  }
  const int64_t threads = code.warps * c.warp_size;
  double registers = m.own_registers + code.local_bytes / 4 + code.pending_bytes / 4;
  const auto most = static_cast<double>(c.max_registers_per_thread);
  o.slowdown = 1 + std::max(0.0, registers - most) * m.spill_cost;
  registers = std::ceil(std::min(registers, most) / 8) * 8;
  int64_t of_block = static_cast<int64_t>(registers) * threads;
  if (code.role_registers > 0) of_block = code.role_registers;
  const int64_t shared = code.shared_bytes + c.shared_reserved_per_block;
  o.resident = std::min({c.max_blocks_per_sm, c.max_threads_per_sm / std::max<int64_t>(threads, 1),
                         c.registers_per_sm / std::max<int64_t>(of_block, 1),
                         shared > 0 ? c.shared_per_sm / shared : c.max_blocks_per_sm});
  if (o.resident < 1 && of_block > c.registers_per_sm && code.role_registers == 0) {
    // The compiler keeps to what a block may have.
    o.slowdown += static_cast<double>(of_block - c.registers_per_sm) / static_cast<double>(threads) * m.spill_cost;
    o.resident = 1;
  }
  if (o.resident < 1)
    return input_error("a block of {} threads and {} bytes of shared memory does not fit a multiprocessor of {}",
                       threads, shared, target.name);
  return o;
}

}  // namespace tcc::simulation
