// Checks of the caller's tensors. Kernels are compiled for one type, one shape and row-major order.
#include <stdio.h>
#include <string.h>

#include "rt/context.h"

enum { kTextBytes = 160 };

static const char* type_text(tcc_dldtype type, char* text) {
  static const char* const names[] = {[TCC_DTYPE_INT] = "int",
                                      [TCC_DTYPE_UINT] = "uint",
                                      [TCC_DTYPE_FLOAT] = "float",
                                      [TCC_DTYPE_BFLOAT] = "bfloat",
                                      [TCC_DTYPE_BOOL] = "bool"};
  const char* name = type.code < sizeof names / sizeof names[0] ? names[type.code] : NULL;
  if (!name) {
    snprintf(text, kTextBytes, "type code %u with %u bits", type.code, type.bits);
  } else if (type.lanes != 1) {
    snprintf(text, kTextBytes, "%s%u in vectors of %u", name, type.bits, type.lanes);
  } else if (type.code == TCC_DTYPE_BOOL && type.bits == 8) {
    snprintf(text, kTextBytes, "bool");
  } else {
    snprintf(text, kTextBytes, "%s%u", name, type.bits);
  }
  return text;
}

static const char* dims_text(const int64_t* dims, int32_t ndim, char* text) {
  int used = snprintf(text, kTextBytes, "[");
  for (int32_t d = 0; d < ndim; ++d) {
    if (used > kTextBytes - 40) {
      used += snprintf(text + used, (size_t)(kTextBytes - used), ", ...");
      break;
    }
    used += snprintf(text + used, (size_t)(kTextBytes - used), d ? ", %lld" : "%lld", (long long)dims[d]);
  }
  snprintf(text + used, (size_t)(kTextBytes - used), "]");
  return text;
}

static bool same_shape(const tcc_tensor_info* want, const tcc_dltensor* have) {
  if (want->ndim != have->ndim) return false;
  for (int32_t d = 0; d < want->ndim; ++d) {
    if (want->dims[d] != have->shape[d]) return false;
  }
  return true;
}

// Row-major without gaps. The stride of an extent of one is free, as are all strides of an empty tensor.
static bool is_row_major(const tcc_tensor_info* want, const tcc_dltensor* have) {
  if (!have->strides || want->bytes == 0) return true;
  int64_t expected = 1;
  for (int32_t d = want->ndim - 1; d >= 0; --d) {
    if (want->dims[d] != 1 && have->strides[d] != expected) return false;
    expected *= want->dims[d];
  }
  return true;
}

tcc_status tcc_rt_check_tensor(const char* role, uint32_t index, const tcc_tensor_info* want, const tcc_dltensor* have,
                               uint64_t alignment) {
  char wanted[kTextBytes], got[kTextBytes];
  if (have->dtype.code != want->dtype.code || have->dtype.bits != want->dtype.bits || have->dtype.lanes != 1) {
    return tcc_rt_fail(TCC_ERROR_TENSOR, "%s %u '%s': element type is %s, the model needs %s; convert the array first",
                       role, index, want->name, type_text(have->dtype, got), type_text(want->dtype, wanted));
  }
  if (have->ndim < 0 || (have->ndim > 0 && !have->shape)) {
    return tcc_rt_fail(TCC_ERROR_TENSOR, "%s %u '%s': %s; the model needs shape %s", role, index, want->name,
                       have->ndim < 0 ? "ndim is negative" : "shape is NULL",
                       dims_text(want->dims, want->ndim, wanted));
  }
  if (!same_shape(want, have)) {
    return tcc_rt_fail(TCC_ERROR_TENSOR,
                       "%s %u '%s': shape is %s, the model was built for %s; reshape the array, or build the model "
                       "for this shape",
                       role, index, want->name, dims_text(have->shape, have->ndim, got),
                       dims_text(want->dims, want->ndim, wanted));
  }
  if (!is_row_major(want, have)) {
    return tcc_rt_fail(TCC_ERROR_TENSOR,
                       "%s %u '%s': strides are %s for shape %s; the model needs row-major data without gaps: make a "
                       "contiguous copy, or set strides to NULL",
                       role, index, want->name, dims_text(have->strides, have->ndim, got),
                       dims_text(want->dims, want->ndim, wanted));
  }
  if (want->bytes == 0) return TCC_OK;
  if (!have->data) return tcc_rt_fail(TCC_ERROR_TENSOR, "%s %u '%s': data is NULL", role, index, want->name);
  const unsigned element = want->dtype.bits / 8;
  const uintptr_t address = (uintptr_t)have->data + have->byte_offset;
  if (address % element != 0) {
    return tcc_rt_fail(TCC_ERROR_TENSOR,
                       "%s %u '%s': data + byte_offset is not aligned to its element size of %u bytes; copy the data "
                       "to an aligned place",
                       role, index, want->name, element);
  }
  if (address % alignment != 0) {
    return tcc_rt_fail(TCC_ERROR_TENSOR,
                       "%s %u '%s': data + byte_offset is not aligned to the %llu bytes that info() asks for; pass "
                       "memory as the allocator gave it, or copy the data to such",
                       role, index, want->name, (unsigned long long)alignment);
  }
  return TCC_OK;
}
