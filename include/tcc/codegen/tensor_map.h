// Tensor maps of a launch in the words of the CUDA driver's table (tcc/rt/cuda_driver.h).
#pragma once

#include "tcc/codegen/artifact.h"
#include "tcc/support/check.h"

namespace tcc::codegen {

// CUtensorMapDataType. A map of TFLOAT32 rounds f32 to tf32 on the way into shared memory (CUTLASS,
// sm90_mma_tma_gmma_ss_warpspecialized.hpp: "TMA converts f32 input to tf32 when copying from GMEM to SMEM").
inline uint32_t driver_type(const TensorMap& map) {
  TCC_CHECK(map.type == ir::Type::kF16 || map.type == ir::Type::kBF16 || map.type == ir::Type::kF32,
            "a tensor map of {}", ir::type_name(map.type));
  TCC_CHECK(!map.tf32 || map.type == ir::Type::kF32, "a tensor map of {} rounds to tf32", ir::type_name(map.type));
  if (map.tf32) return 11;
  return map.type == ir::Type::kF16 ? 6 : map.type == ir::Type::kF32 ? 7 : 9;
}

// T: tcc_cuda_tensor_map, which this room does not know.
template <class T>
T describe_to_driver(const TensorMap& map) {
  T t{};
  t.rank = static_cast<uint32_t>(map.dims.size());
  TCC_CHECK(t.rank >= 1 && t.rank <= 5 && map.strides.size() + 1 == t.rank && map.box.size() == t.rank);
  for (size_t d = 0; d < map.dims.size(); ++d) {
    t.dims[d] = static_cast<uint64_t>(map.dims[d]);
    t.box[d] = static_cast<uint32_t>(map.box[d]);
    if (d > 0) t.strides[d - 1] = static_cast<uint64_t>(map.strides[d - 1]);
  }
  t.type = driver_type(map);
  t.swizzle = static_cast<uint32_t>(map.swizzle);
  t.buffer = static_cast<uint32_t>(map.buffer);
  return t;
}

}  // namespace tcc::codegen
