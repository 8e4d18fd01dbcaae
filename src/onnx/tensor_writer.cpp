#include "tcc/onnx/importer.h"
#include "tcc_onnx.pb.h"

namespace tcc::onnx {
namespace {

// TensorProto.DataType
int32_t data_type(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::kF32:
      return 1;
    case graph::DType::kU8:
      return 2;
    case graph::DType::kI8:
      return 3;
    case graph::DType::kI32:
      return 6;
    case graph::DType::kI64:
      return 7;
    case graph::DType::kBool:
      return 9;
    case graph::DType::kF16:
      return 10;
    case graph::DType::kF64:
      return 11;
    case graph::DType::kU32:
      return 12;
    case graph::DType::kU64:
      return 13;
    case graph::DType::kBF16:
      return 16;
  }
  return 0;
}

}  // namespace

std::string tensor_file_bytes(const std::string& name, graph::DType dtype, const graph::Shape& shape,
                              std::span<const std::byte> bytes) {
  tcc_onnx::Tensor tensor;
  tensor.set_name(name);
  tensor.set_data_type(data_type(dtype));
  for (int64_t extent : shape) tensor.add_dims(extent);
  tensor.set_raw_data(bytes.data(), bytes.size());
  return tensor.SerializeAsString();
}

}  // namespace tcc::onnx
