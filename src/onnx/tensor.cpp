#include "tensor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "small_types.h"
#include "tcc/graph/integer_range.h"
#include "tcc/graph/refusal.h"
#include "tcc/onnx/importer.h"
#include "tcc/support/check.h"
#include "tcc/support/descriptor.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::onnx {
namespace {

using graph::DType;

constexpr size_t kMaxExternalBytes = size_t{64} << 30;

// By TensorProto.DataType number.
constexpr const char* kTypeNames[] = {"undefined", "float",  "uint8",     "int8",       "uint16",  "int16",
                                      "int32",     "int64",  "string",    "bool",       "float16", "double",
                                      "uint32",    "uint64", "complex64", "complex128", "bfloat16"};

constexpr int32_t kUint16 = 4, kString = 8, kComplex64 = 14, kComplex128 = 15;

// TensorProto.DataType and the element types that tcc has.
constexpr std::pair<int32_t, DType> kDataTypes[] = {
    {1, DType::kF32},   {2, DType::kU8},   {3, DType::kI8},   {6, DType::kI32},  {7, DType::kI64},
    {9, DType::kBool},  {10, DType::kF16}, {11, DType::kF64}, {12, DType::kU32}, {13, DType::kU64},
    {16, DType::kBF16}, {5, DType::kI16},  {4, DType::kU16}};

Result<std::vector<std::string>> path_components(const std::string& location) {
  auto refuse = [&](const char* why) {
    return make_error(ErrorClass::kInput,
                      fmt::format("external data location '{}' is refused: {}", sanitize(location), why),
                      "put external data into the model's own folder");
  };
  if (location.empty()) return refuse("it is empty");
  if (location.find('\0') != std::string::npos) return refuse("it contains a zero byte");
  if (location[0] == '/' || location.find('\\') != std::string::npos) return refuse("it is not a relative path");
  std::vector<std::string> parts;
  for (size_t at = 0; at <= location.size();) {
    size_t end = std::min(location.find('/', at), location.size());
    std::string part = location.substr(at, end - at);
    if (part == "..") return refuse("it contains '..'");
    if (!part.empty() && part != ".") parts.push_back(part);
    at = end + 1;
  }
  if (parts.empty()) return refuse("it names no file");
  return parts;
}

Result<int64_t> parse_count(const std::string& text, const std::string& what) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) {
    return input_error("{}: external data field '{}' is not a non-negative number", what, sanitize(text));
  }
  return value;
}

Result<TensorConstant> read_external(const tcc_onnx::Tensor& tensor, TensorConstant result, int64_t bytes,
                                     ExternalFiles& files, const std::string& what) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      TCC_TRY(offset, parse_count(entry.value(), what));
    }
    if (entry.key() == "length") {
      TCC_TRY(length, parse_count(entry.value(), what));
    }
  }
  auto opened = files.open(location);
  if (!opened) return tl::make_unexpected(std::move(opened.error()).with_context(what));
  const std::shared_ptr<MappedFile>& file = (*opened)->file;
  auto size = static_cast<int64_t>(file->bytes().size());
  if (offset > size)
    return input_error("{}: offset {} is beyond the end of the external file of {} bytes", what, offset, size);
  if (length < 0) length = size - offset;
  if (length != bytes || length > size - offset) {
    return input_error("{}: external data of {} bytes at offset {} in a file of {} bytes; shape and type need {}", what,
                       length, offset, size, bytes);
  }
  result.constant.bytes = file->bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
  result.constant.owner = file;
  (*opened)->used.emplace_back(offset, offset + bytes);
  return result;
}

// Typed fields: each element in its own field entry.
template <class Stored, class Field>
Result<graph::Constant> convert(const Field& field, int64_t count, const std::string& what) {
  if (field.size() != count)
    return input_error("{}: {} elements are stored, its shape needs {}", what, field.size(), count);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(Stored));
  for (int64_t i = 0; i < count; ++i) {
    auto value = static_cast<Stored>(field.Get(static_cast<int>(i)));
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(Stored), &value, sizeof(Stored));
  }
  return graph::make_constant(std::move(bytes));
}

Result<graph::Constant> read_typed_fields(const tcc_onnx::Tensor& tensor, DType dtype, int64_t count,
                                          const std::string& what) {
  switch (dtype) {
    case DType::kF32:
      return convert<float>(tensor.float_data(), count, what);
    case DType::kF64:
      return convert<double>(tensor.double_data(), count, what);
    case DType::kI64:
      return convert<int64_t>(tensor.int64_data(), count, what);
    case DType::kI32:
      return convert<int32_t>(tensor.int32_data(), count, what);
    case DType::kU32:
      return convert<uint32_t>(tensor.uint64_data(), count, what);
    case DType::kU64:
      return convert<uint64_t>(tensor.uint64_data(), count, what);
    case DType::kF16:
    case DType::kBF16:
      return convert<uint16_t>(tensor.int32_data(), count, what);
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16: {
      // Fields are wider than the elements. A zero point of 300 is an error of the file, not one of 44.
      const graph::IntegerRange range = graph::integer_range(dtype);
      for (int i = 0; i < tensor.int32_data_size(); ++i)
        if (const int32_t v = tensor.int32_data(i); v < range.least || v > range.greatest)
          return input_error("{}: element {} is {}, expected {} to {} ({})", what, i, v, range.least, range.greatest,
                             graph::dtype_name(dtype));
      return graph::is_byte(dtype) ? convert<uint8_t>(tensor.int32_data(), count, what)
                                   : convert<uint16_t>(tensor.int32_data(), count, what);
    }
    case DType::kBool:
      return convert<uint8_t>(tensor.int32_data(), count, what);
  }
  return input_error("{}: unknown element type", what);
}

}  // namespace

Result<DType> dtype_of(int32_t onnx_type) {
  for (const auto& [number, dtype] : kDataTypes)
    if (number == onnx_type) return dtype;
  const bool named = onnx_type >= 0 && onnx_type < static_cast<int32_t>(std::size(kTypeNames));
  const SmallType* small = small_type(onnx_type);
  const char* name = small != nullptr ? small->name : named ? kTypeNames[onnx_type] : "unknown";
  const char* nearest = "";
  switch (onnx_type) {
    case kString:
      nearest = "; tokens are made outside of the model";
      break;
    case kComplex64:
    case kComplex128:
      nearest = "; real and imaginary parts are tensors of their own, or the last axis";
      break;
    default:
      if (small != nullptr) nearest = "; convert it with Cast or DequantizeLinear";
      break;
  }
  return graph::refuse(graph::Refusal::kElementType, "element type {} ({}) is not supported here{}", name, onnx_type,
                       nearest);
}

int32_t number_of(DType dtype) {
  for (const auto& [number, known] : kDataTypes)
    if (known == dtype) return number;
  TCC_UNREACHABLE("{}", graph::dtype_name(dtype));
}

std::string tensor_file_bytes(const std::string& name, DType dtype, const graph::Shape& shape,
                              std::span<const std::byte> bytes) {
  tcc_onnx::Tensor tensor;
  tensor.set_name(name);
  tensor.set_data_type(number_of(dtype));
  for (int64_t extent : shape) tensor.add_dims(extent);
  tensor.set_raw_data(bytes.data(), bytes.size());
  return tensor.SerializeAsString();
}

Result<ExternalFiles::OpenFile*> ExternalFiles::open(const std::string& location) {
  if (auto it = open_files_.find(location); it != open_files_.end()) return &it->second;
  TCC_TRY(std::vector<std::string> parts, path_components(location));
  if (folder_.empty()) return input_error("external data is not available for a model read from memory");
  auto failed = [&](const std::string& part) {
    return make_error(ErrorClass::kInput,
                      fmt::format("cannot open external data '{}' at '{}': {}", sanitize(location), sanitize(part),
                                  errno == ELOOP ? "it is a symbolic link" : std::strerror(errno)),
                      errno == ELOOP ? "allow links with --allow-external-symlinks if you trust this model"
                                     : "external data must be plain files in the model's own folder");
  };
  Descriptor at(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return failed(folder_);
  for (size_t i = 0; i < parts.size(); ++i) {
    bool last = i + 1 == parts.size();
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (symlinks_ ? 0 : O_NOFOLLOW) | (last ? 0 : O_DIRECTORY);
    at = Descriptor(::openat(at.get(), parts[i].c_str(), flags));
    if (at.get() < 0) return failed(parts[i]);
  }
  // The descriptor's own name maps exactly the file that was checked.
  auto file = MappedFile::open(fmt::format("/proc/self/fd/{}", at.get()));
  if (!file) return input_error("external data '{}' is not a readable regular file", sanitize(location));
  if ((*file)->bytes().size() > kMaxExternalBytes)
    return input_error("external data '{}' has {} bytes; at most {} are supported", sanitize(location),
                       (*file)->bytes().size(), kMaxExternalBytes);
  OpenFile& entry = open_files_[location];
  entry.file = *file;
  return &entry;
}

std::vector<graph::DataFile> ExternalFiles::opened() const {
  std::vector<graph::DataFile> list;
  for (const auto& [location, entry] : open_files_) {
    const std::string_view bytes(reinterpret_cast<const char*>(entry.file->bytes().data()), entry.file->bytes().size());
    std::vector<std::pair<int64_t, int64_t>> used = entry.used;
    std::sort(used.begin(), used.end());
    uint64_t hash = hash_bytes("");
    int64_t done = 0;
    for (auto [begin, end] : used) {  // each byte once, however many tensors share it
      begin = std::max(begin, done);
      if (begin >= end) continue;
      hash = hash_bytes(bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                        combine_hash(hash, static_cast<uint64_t>(begin)));
      done = end;
    }
    list.push_back({location, static_cast<int64_t>(bytes.size()), hash});
  }
  return list;
}

namespace {

// `raw`: of a tensor that has raw data, in the message or cut out of it.
Result<TensorConstant> read_stored(const tcc_onnx::Tensor& tensor, std::optional<std::span<const std::byte>> raw,
                                   const std::shared_ptr<const void>& owner, ExternalFiles& files,
                                   const std::string& what) {
  TensorConstant result;
  auto dtype = storage_of(tensor.data_type());
  if (!dtype) return tl::make_unexpected(std::move(dtype.error()).with_context(what));
  result.dtype = *dtype;
  if (tensor.dims_size() > graph::kMaxRank) return input_error("{} has {} dimensions", what, tensor.dims_size());
  result.shape.assign(tensor.dims().begin(), tensor.dims().end());
  TCC_TRY_VOID(graph::check_shape(result.shape, what));
  if (tensor.has_segment()) return input_error("{} is stored in segments, which is not supported", what);
  int64_t count = graph::element_count(result.shape);
  const SmallType* small = small_type(tensor.data_type());
  int64_t bytes = small != nullptr ? packed_bytes(*small, count) : count * graph::dtype_size(result.dtype);
  // Of several elements in a byte each gets a byte of its own.
  const auto spread = [&](TensorConstant packed) {
    if (small != nullptr && small->bits < 8)
      packed.constant = graph::make_constant(unpack(*small, packed.constant.bytes, count));
    return packed;
  };
  if (tensor.data_location() == tcc_onnx::Tensor::EXTERNAL) {
    TCC_TRY(TensorConstant outside, read_external(tensor, std::move(result), bytes, files, what));
    return spread(std::move(outside));
  }
  if (raw) {
    if (static_cast<int64_t>(raw->size()) != bytes) {
      return input_error("{}: raw data has {} bytes, shape {} of {} needs {}", what, raw->size(),
                         graph::shape_text(result.shape), graph::dtype_name(result.dtype), bytes);
    }
    result.constant = {owner, *raw, false};
    return spread(std::move(result));
  }
  if (small != nullptr) {  // a field for each byte
    TCC_TRY(result.constant, convert<uint8_t>(tensor.int32_data(), bytes, what));
    return spread(std::move(result));
  }
  TCC_TRY(result.constant, read_typed_fields(tensor, result.dtype, count, what));
  return result;
}

}  // namespace

Result<TensorConstant> read_tensor(const tcc_onnx::Tensor& tensor, const std::shared_ptr<const void>& owner,
                                   ExternalFiles& files, const std::string& what) {
  std::optional<std::span<const std::byte>> raw;
  if (tensor.has_raw_data()) raw = std::as_bytes(std::span(tensor.raw_data()));
  return read_stored(tensor, raw, owner, files, what);
}

Result<TensorConstant> read_raw_tensor(const tcc_onnx::Tensor& tensor, std::span<const std::byte> raw,
                                       const std::shared_ptr<const void>& owner, ExternalFiles& files,
                                       const std::string& what) {
  return read_stored(tensor, raw, owner, files, what);
}

Result<TensorFile> read_tensor_file(const std::string& path, bool bfloat16_as_uint16) {
  TCC_TRY(std::shared_ptr<MappedFile> file, MappedFile::open(path));
  auto tensor = std::make_shared<tcc_onnx::Tensor>();
  std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() > size_t{INT32_MAX} || !tensor->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return input_error("'{}' is not a tensor file (a serialized TensorProto)", sanitize(path));
  constexpr int kBfloat16 = 16;
  if (bfloat16_as_uint16 && tensor->data_type() == kUint16) tensor->set_data_type(kBfloat16);
  ExternalFiles none("");
  return read_tensor(*tensor, tensor, none, fmt::format("'{}'", sanitize(path)));
}

}  // namespace tcc::onnx
