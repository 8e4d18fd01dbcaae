// Launches in which some warps copy and others multiply (annotation pipeline_role; lower/gpu/expand_roles.h).
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

// The loop of a launch whose copies a producer makes; nullptr: none.
const ir::Loop* role_loop(ir::Stmt launch);
// Warpgroups that multiply in a launch with such a loop.
int64_t consumer_groups(ir::Stmt launch);

// Blocks of a launch that load together what they share (axes cluster.x and cluster.y); 1 x 1: each loads its own.
struct ClusterShape {
  int64_t x = 1, y = 1;
  int64_t blocks() const { return x * y; }
};
ClusterShape cluster_shape(ir::Stmt launch);

// How clusters walk over the tiles of a launch with such a loop. The annotation persistent_blocks of its grid loop says
// how many blocks run at a time: each cluster makes tile number c, c + clusters, ... 0, or enough for all tiles: each
// cluster makes one.
struct TileWalk {
  int64_t tiles = 1;     // of the grid
  int64_t clusters = 1;  // of the launch
  bool persistent() const { return clusters < tiles; }
};
TileWalk tile_walk(ir::Stmt launch);

// Results of products by warpgroups leave through shared memory, piece by piece: kStagedRows rows of kStagedBytes, of
// which each warpgroup has kStagedPieces, one written while the other is read.
inline constexpr int64_t kStagedRows = 64, kStagedBytes = 128, kStagedPieces = 2;
// Tensor copies write the buffer: an output of the kernel whose rows are multiples of 16 bytes.
bool takes_tensor_stores(const ir::Buffer& b);
// Bytes of shared memory that results of a launch with such a loop pass through; 0: they leave from registers.
int64_t staged_bytes(const ir::Kernel& k, ir::Stmt launch);

// How a block with that many consumer warpgroups shares the multiprocessor's registers: a thread's at the launch, and
// after producer and consumers have exchanged some (setmaxnreg).
struct RoleShape {
  int64_t threads = 0;  // a block
  int64_t blocks = 0;   // on a multiprocessor at a time, as far as registers go
  int64_t launch_registers = 0, producer_registers = 0, consumer_registers = 0;
};
RoleShape role_shape(int64_t consumers, int64_t registers_per_sm);

}  // namespace tcc::analysis
