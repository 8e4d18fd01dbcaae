#include "tcc/driver/tensor_file.h"

#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr const char* kEndings = "name a .npy file (numpy.save) or a .pb file (a serialized TensorProto)";

}  // namespace

Result<TensorFile> read_tensor(const std::string& path, bool bfloat16_as_uint16) {
  if (path.ends_with(".pb")) return onnx::read_tensor_file(path, bfloat16_as_uint16);
  if (!path.ends_with(".npy"))
    return make_error(ErrorClass::kUsage, fmt::format("'{}': expected a .npy or .pb file to read", sanitize(path)),
                      kEndings);
  TCC_TRY(std::string bytes, read_file(path));
  return parse_npy(bytes, sanitize(path), bfloat16_as_uint16);
}

Result<void> write_tensor(const std::string& path, const NamedTensor& tensor) {
  if (path.ends_with(".npy")) return write_file(path, npy_bytes(tensor));
  if (path.ends_with(".pb"))
    return write_file(path, onnx::tensor_file_bytes(tensor.name, tensor.dtype, tensor.shape, tensor.bytes));
  return make_error(ErrorClass::kUsage, fmt::format("'{}': expected a .npy or .pb file to write", sanitize(path)),
                    kEndings);
}

}  // namespace tcc::driver
