#include "measure/wire.h"

#include <cstring>
#include <type_traits>

namespace tcc::measure {
namespace {

// The fields of each struct that are sent, in order: `a` writes or reads them.
void fields(auto& a, GpuHello& x) {
  a(x.ok, x.message, x.hint, x.name, x.uuid, x.target, x.driver_version, x.memory_bytes, x.takes_ptx_only);
}
void fields(auto& a, codegen::TensorMap& x) {
  a(x.buffer, x.type, x.tf32, x.dims, x.strides, x.box, x.swizzle);
}
void fields(auto& a, codegen::Launch& x) {
  a(x.symbol, x.extent, x.grid, x.block, x.cluster, x.shared_bytes, x.cooperative, x.tensor_maps);
}
void fields(auto& a, codegen::BufferInfo& x) {
  a(x.role, x.type, x.shape, x.layout, x.bytes, x.alignment);
}
void fields(auto& a, codegen::Artifact& x) {
  a(x.format, x.code, x.launches, x.buffers);
}
void fields(auto& a, TaskParam::Set& x) {
  a(x.data, x.reference, x.scale, x.scale_all);
}
void fields(auto& a, TaskParam& x) {
  a(x.role, x.type, x.shape, x.num_samples, x.samples, x.sets);
}
void fields(auto& a, TaskDescription& x) {
  a(x.num_sets, x.exact, x.scaled, x.has_float, x.params);
}

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

struct Put {
  Writer& to;
  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  template <class T>
  void one(T& value) {
    if constexpr (is_number<T>) {
      const auto wide = static_cast<Wide<T>>(value);
      to.raw(&wide, sizeof wide);
    } else if constexpr (std::is_same_v<T, std::string>) {
      length(value.size());
      to.raw(value.data(), value.size());
    } else {
      fields(*this, value);
    }
  }
  template <class T>
  void one(std::vector<T>& list) {
    length(list.size());
    for (T& value : list) one(value);
  }
  template <class T, size_t N>
  void one(std::array<T, N>& list) {
    for (T& value : list) one(value);
  }
  void length(size_t size) {
    auto number = static_cast<int64_t>(size);
    one(number);
  }
};

struct Get {
  Reader& from;
  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  template <class T>
  void one(T& value) {
    if constexpr (is_number<T>) {
      Wide<T> wide{};
      if (const std::string_view bytes = from.raw(sizeof wide); from.ok())
        std::memcpy(&wide, bytes.data(), sizeof wide);
      value = static_cast<T>(wide);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = from.raw(length());
    } else {
      fields(*this, value);
    }
  }
  template <class T>
  void one(std::vector<T>& list) {
    const size_t size = length();
    for (size_t i = 0; i < size && from.ok(); ++i) one(list.emplace_back());
  }
  template <class T, size_t N>
  void one(std::array<T, N>& list) {
    for (T& value : list) one(value);
  }
  size_t length() {  // a negative one is longer than any message
    int64_t number = 0;
    one(number);
    return static_cast<size_t>(number);
  }
};

template <class T>
void put(Writer& writer, const T& value) {
  Put{writer}.one(const_cast<T&>(value));  // writing changes nothing
}
template <class T>
T get(Reader& reader) {
  T value{};
  Get{reader}.one(value);
  return value;
}

}  // namespace

int64_t TaskParam::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

void put_gpu_hello(Writer& writer, const GpuHello& hello) {
  put(writer, hello);
}
GpuHello get_gpu_hello(Reader& reader) {
  return get<GpuHello>(reader);
}
void put_artifact(Writer& writer, const codegen::Artifact& artifact) {
  put(writer, artifact);
}
codegen::Artifact get_artifact(Reader& reader) {
  return get<codegen::Artifact>(reader);
}
void put_task(Writer& writer, const TaskDescription& task) {
  put(writer, task);
}
TaskDescription get_task(Reader& reader) {
  return get<TaskDescription>(reader);
}

}  // namespace tcc::measure
