#include "cost/gpu_figures.h"

#include "tcc/ir/query.h"

namespace tcc::cost {

using namespace ir;

bool is_shared_copy(const Loop& l) {
  return has_annotation(l, AnnotationKey::kCooperativeFetch);
}

double matrix_peak(const target::Peaks& peak, Type t) {
  switch (t) {
    case Type::kF16:
      return peak.fp16;
    case Type::kBF16:
      return peak.bf16;
    case Type::kF32:
      return peak.tf32;
    case Type::kI8:
    case Type::kU8:
      return peak.int8;
    case Type::kBool:
    case Type::kI16:
    case Type::kU16:
    case Type::kI32:
    case Type::kI64:
    case Type::kF64:
    case Type::kBarrier:
    case Type::kTensorMap:
      break;
  }
  return 0;
}

}  // namespace tcc::cost
