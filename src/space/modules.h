// The table of modules, in the order of their application. A new module: one file and one row here. Private to the
// room.
#pragma once

#include "tcc/space/space.h"

namespace tcc::space {

// X(name): the module's function and its name.
// clang-format off
#define TCC_CPU_MODULES(X) \
  X(inline_constants) \
  X(attention) \
  X(auto_inline) \
  X(amx_tiling) \
  X(vnni_tiling) \
  X(matmul_tiling) \
  X(window_tiling) \
  X(blocked_conv_tiling) \
  X(conv_tiling) \
  X(gemv_tiling) \
  X(row_tiling) \
  X(transpose_tiling) \
  X(add_rfactor) \
  X(multi_level_tiling) \
  X(random_compute_location) \
  X(parallel_vectorize_unroll)
#define TCC_CUDA_MODULES(X) \
  X(inline_constants) \
  X(gpu_attention) \
  X(gpu_split_k) \
  X(gpu_wgmma) \
  X(gpu_tensor_core) \
  X(gpu_tiling) \
  X(gpu_inline) \
  X(gpu_store) \
  X(gpu_windows) \
  X(gpu_short_rows) \
  X(gpu_rows) \
  X(gpu_columns) \
  X(gpu_reduction) \
  X(gpu_unroll) \
  X(gpu_transpose) \
  X(gpu_elementwise) \
  X(gpu_bind)
// clang-format on

#define TCC_X(name) \
  Ways name(const schedule::Schedule& state, const target::Target& target, const SpaceOptions& options);
TCC_CPU_MODULES(TCC_X)
TCC_CUDA_MODULES(TCC_X)
#undef TCC_X

// ModuleList::unmet_matrix_conditions of the two lists.
std::vector<std::string> unmet_conditions_of_amx(const ir::Kernel& kernel, const target::Target& target);
std::vector<std::string> unmet_conditions_of_tensor_cores(const ir::Kernel& kernel, const target::Target& target);

}  // namespace tcc::space
