// Tensor maps of the fake CUDA driver: the rules of the driver API for cuTensorMapEncodeTiled, and the map as plain
// data.
#include <stdio.h>
#include <string.h>

#include "fake_cuda_state.h"

_Static_assert(sizeof(fake_cuda_tensor_map) == 128, "the size of a CUtensorMap");

static unsigned element_bytes(int type) {
  switch (type) {
    case 0:
      return 1;
    case 1:
    case 6:
    case 9:
      return 2;
    case 2:
    case 3:
    case 7:
    case 10:
    case 11:
    case 12:
      return 4;
    case 4:
    case 5:
    case 8:
      return 8;
    default:
      return 0;
  }
}

// What the manual asks; NULL: all of it holds.
static const char* refusal(const void* map, unsigned bytes, uint32_t rank, const void* at, const uint64_t* dims,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                           unsigned swizzle) {
  if ((uintptr_t)map % 64 != 0) return "the address of a tensor map is a multiple of 64";
  if (bytes == 0) return "a type that tensors do not have";
  if (rank < 1 || rank > 5) return "a tensor has 1 to 5 dimensions";
  if ((uintptr_t)at % 16 != 0) return "a tensor begins at a multiple of 16";
  for (uint32_t d = 0; d < rank; ++d) {
    if (dims[d] == 0 || dims[d] > (uint64_t)1 << 32) return "an extent is 1 to 2^32";
    if (box[d] == 0 || box[d] > 256) return "a box has 1 to 256 elements in each dimension";
    if (element_strides[d] == 0 || element_strides[d] > 8) return "an element's stride is 1 to 8";
    if (d == 0) continue;
    if (strides[d - 1] % 16 != 0 || strides[d - 1] >= (uint64_t)1 << 40)
      return "a stride is a multiple of 16 below 2^40";
    const uint64_t below = d == 1 ? dims[0] * bytes : dims[d - 1] * strides[d - 2];
    if (strides[d - 1] < below) return "rows overlap";
  }
  if (box[0] * bytes % 16 != 0) return "the rows of a box are multiples of 16 bytes";
  if (swizzle > 0 && box[0] * bytes > swizzle) return "the rows of a box are longer than the swizzle";
  return NULL;
}

API int cuTensorMapEncodeTiled(void* out, int type, uint32_t rank, void* at, const uint64_t* dims,
                               const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                               int interleave, int swizzle, int promotion, int fill) {
  ENTER();
  (void)promotion;
  if (set.driver < 12000) return 801;
  if (swizzle < 0 || swizzle > 3 || interleave != 0 || fill != 0) return 1;
  const unsigned swizzle_bytes = swizzle == 0 ? 0 : 16u << swizzle;
  const char* wrong = refusal(out, element_bytes(type), rank, at, dims, strides, box, element_strides, swizzle_bytes);
  if (wrong) {
    violate(wrong, __func__);
    return 1;
  }
  fake_cuda_tensor_map map;
  memset(&map, 0, sizeof map);
  snprintf(map.mark, sizeof map.mark, "FAKEMAP");
  map.address = at;
  map.rank = (unsigned short)rank;
  map.type = (unsigned short)type;
  map.swizzle = (unsigned short)swizzle_bytes;
  for (uint32_t d = 0; d < rank; ++d) {
    map.dims[d] = dims[d];
    map.box[d] = (unsigned short)box[d];
    if (d > 0) map.strides[d - 1] = strides[d - 1];
  }
  memcpy(out, &map, sizeof map);
  return 0;
}

int is_tensor_map(const fake_cuda_tensor_map* map, const char* name) {
  if (memcmp(map->mark, "FAKEMAP", 8) != 0) {
    violate("a parameter of 128 bytes is not a tensor map", name);
    return 0;
  }
  size_t bytes = map->rank > 1 ? (size_t)(map->dims[map->rank - 1] * map->strides[map->rank - 2])
                               : (size_t)map->dims[0] * element_bytes(map->type);
  return holds((address)(uintptr_t)map->address, bytes, name);
}
