// The .npy format: "\x93NUMPY", version, length of the header, the header (a Python dictionary), the numbers.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <charconv>
#include <cstring>
#include <optional>

#include "tcc/driver/tensor_file.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using graph::DType;

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;  // of the numbers in the file

struct TypeName {
  DType dtype;
  std::string_view text;
};
constexpr TypeName kTypes[] = {{DType::kF32, "<f4"}, {DType::kF64, "<f8"},  {DType::kF16, "<f2"},  {DType::kI8, "|i1"},
                               {DType::kU8, "|u1"},  {DType::kI32, "<i4"},  {DType::kI64, "<i8"},  {DType::kU32, "<u4"},
                               {DType::kU64, "<u8"}, {DType::kBF16, "<u2"}, {DType::kBool, "|b1"}, {DType::kI16, "<i2"},
                               {DType::kU16, "<u2"}};

std::string_view type_text(DType dtype) {
  for (const TypeName& t : kTypes)
    if (t.dtype == dtype) return t.text;
  return "";
}

struct Header {
  std::string descr;
  bool fortran = false;
  graph::Shape shape;
};

// The dictionary that NumPy writes: string keys, and a string, True/False or a tuple of integers as values.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  std::optional<Header> read() {
    Header header;
    bool descr = false, order = false, shape = false;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':')) return std::nullopt;
      bool ok = false;
      if (key == "descr") ok = descr = string(header.descr);
      if (key == "fortran_order") ok = order = boolean(header.fortran);
      if (key == "shape") ok = shape = tuple(header.shape);
      if (!ok) return std::nullopt;
      take(',');
    }
    if (!descr || !order || !shape) return std::nullopt;
    return header;
  }

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size())); }
  bool take(char c) {
    skip();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool string(std::string& out) {
    skip();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return false;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return false;
    out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool boolean(bool& out) {
    skip();
    out = rest_.starts_with("True");
    if (!out && !rest_.starts_with("False")) return false;
    rest_.remove_prefix(out ? 4 : 5);
    return true;
  }
  bool tuple(graph::Shape& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      int64_t extent = 0;
      auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (code != std::errc() || extent < 0) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      out.push_back(extent);
      take(',');
    }
    return true;
  }
  std::string_view rest_;
};

Result<DType> find_type(const std::string& descr, const std::string& name, bool bfloat16_as_uint16) {
  if (descr == "<u2" && bfloat16_as_uint16) return DType::kBF16;
  for (const TypeName& t : kTypes)
    if (t.text == descr && t.dtype != DType::kBF16) return t.dtype;
  std::string hint = "convert it first, for example numpy.save(file, array.astype('float32'))";
  if (descr.starts_with(">")) hint = "swap its bytes first: array.astype(array.dtype.newbyteorder('<'))";
  return make_error(ErrorClass::kInput,
                    fmt::format("'{}' holds elements of type '{}', which tcc does not read", name, sanitize(descr, 40)),
                    hint);
}

// Column-major numbers in row-major order.
std::vector<std::byte> rearrange(const std::byte* data, const graph::Shape& shape, size_t size) {
  const auto count = static_cast<size_t>(graph::element_count(shape));
  std::vector<std::byte> out(count * size);
  std::vector<int64_t> index(shape.size(), 0), steps(shape.size(), 1);
  for (size_t d = 1; d < shape.size(); ++d) steps[d] = steps[d - 1] * shape[d - 1];
  int64_t from = 0;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(out.data() + i * size, data + static_cast<size_t>(from) * size, size);
    for (size_t d = shape.size(); d-- > 0;) {
      from += steps[d];
      if (++index[d] < shape[d]) break;
      from -= index[d] * steps[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Result<TensorFile> parse_npy(std::string_view bytes, const std::string& name, bool bfloat16_as_uint16) {
  auto bad = [&](const char* what) {
    return make_error(ErrorClass::kInput, fmt::format("'{}' is not a NumPy array file: {}", name, what),
                      "write it with numpy.save(file, array, allow_pickle=False)");
  };
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) return bad("it does not begin as one");
  const auto major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) return bad("its version is unknown");
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) return bad("it is cut off");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{static_cast<unsigned char>(bytes[8 + i])} << (8 * i);
  const size_t start = 8 + length_bytes;
  if (length > bytes.size() - start) return bad("it is cut off");
  std::optional<Header> header = HeaderReader(bytes.substr(start, length)).read();
  if (!header) return bad("its header is damaged, or describes a structured array");

  TensorFile tensor;
  TCC_TRY(tensor.dtype, find_type(header->descr, name, bfloat16_as_uint16));
  tensor.shape = header->shape;
  TCC_TRY_VOID(graph::check_shape(tensor.shape, fmt::format("'{}'", name)));
  const auto size = static_cast<size_t>(graph::dtype_size(tensor.dtype));
  const std::string_view data = bytes.substr(start + length);
  const size_t wanted = static_cast<size_t>(graph::element_count(tensor.shape)) * size;
  if (data.size() != wanted) {
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}' holds {} bytes of numbers, its shape {} of {} needs {}", name, data.size(),
                                  graph::shape_text(tensor.shape), graph::dtype_name(tensor.dtype), wanted),
                      "the file is cut off or damaged; write it again");
  }
  const auto* first = reinterpret_cast<const std::byte*>(data.data());
  std::vector<std::byte> copy =
      header->fortran ? rearrange(first, tensor.shape, size) : std::vector<std::byte>(first, first + wanted);
  tensor.constant = graph::make_constant(std::move(copy));
  return tensor;
}

std::string npy_bytes(const NamedTensor& tensor) {
  std::string dims;
  for (int64_t extent : tensor.shape) dims += fmt::format("{}, ", extent);
  if (tensor.shape.size() > 1) dims.resize(dims.size() - 2);
  if (tensor.shape.size() == 1) dims.pop_back();
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type_text(tensor.dtype), dims);
  const size_t before = kMagic.size() + 4;
  header.append((kAlignment - (before + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return out;
}

}  // namespace tcc::driver
