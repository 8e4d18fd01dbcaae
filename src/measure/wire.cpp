#include "measure/wire.h"

#include <cstring>

namespace tcc::measure {

template <class T>
T Reader::raw() {
  T value{};
  if (bytes_.size() < sizeof(T)) {
    ok_ = false;
    return value;
  }
  std::memcpy(&value, bytes_.data(), sizeof(T));
  bytes_.remove_prefix(sizeof(T));
  return value;
}

int64_t TaskParam::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::string Reader::text() {
  int64_t size = integer();
  if (size < 0 || static_cast<uint64_t>(size) > bytes_.size()) {
    ok_ = false;
    return {};
  }
  std::string value(bytes_.substr(0, static_cast<size_t>(size)));
  bytes_.remove_prefix(static_cast<size_t>(size));
  return value;
}

std::vector<int64_t> Reader::list() {
  int64_t size = integer();
  std::vector<int64_t> values;
  for (int64_t i = 0; i < size && ok_; ++i) values.push_back(integer());
  return values;
}

void put_gpu_hello(Writer& writer, const GpuHello& hello) {
  writer.integer(hello.ok);
  for (const std::string* text : {&hello.message, &hello.hint, &hello.name, &hello.uuid, &hello.target})
    writer.text(*text);
  writer.integer(hello.driver_version);
  writer.integer(hello.memory_bytes);
  writer.integer(hello.takes_ptx_only);
}

GpuHello get_gpu_hello(Reader& reader) {
  GpuHello hello;
  hello.ok = reader.integer() != 0;
  for (std::string* text : {&hello.message, &hello.hint, &hello.name, &hello.uuid, &hello.target})
    *text = reader.text();
  hello.driver_version = reader.integer();
  hello.memory_bytes = reader.integer();
  hello.takes_ptx_only = reader.integer() != 0;
  return hello;
}

void put_artifact(Writer& writer, const codegen::Artifact& artifact) {
  writer.integer(static_cast<int64_t>(artifact.format));
  writer.text(artifact.code);
  writer.integer(static_cast<int64_t>(artifact.launches.size()));
  for (const codegen::Launch& launch : artifact.launches) {
    writer.text(launch.symbol);
    writer.integer(launch.extent);
    for (const auto& axes : {launch.grid, launch.block, launch.cluster})
      for (int64_t extent : axes) writer.integer(extent);
    writer.integer(launch.shared_bytes);
    writer.integer(launch.cooperative);
    writer.integer(static_cast<int64_t>(launch.tensor_maps.size()));
    for (const codegen::TensorMap& map : launch.tensor_maps) {
      writer.integer(map.buffer);
      writer.integer(static_cast<int64_t>(map.type));
      for (const auto* list : {&map.dims, &map.strides, &map.box}) writer.list(*list);
      writer.integer(map.swizzle);
    }
  }
  writer.integer(static_cast<int64_t>(artifact.buffers.size()));
  for (const codegen::BufferInfo& info : artifact.buffers) {
    writer.integer(static_cast<int64_t>(info.role));
    writer.integer(static_cast<int64_t>(info.type));
    writer.list(info.shape);
    writer.text(info.layout);
    writer.integer(info.bytes);
    writer.integer(info.alignment);
  }
}

codegen::Artifact get_artifact(Reader& reader) {
  codegen::Artifact artifact;
  artifact.format = static_cast<codegen::CodeFormat>(reader.integer());
  artifact.code = reader.text();
  int64_t launches = reader.integer();
  for (int64_t i = 0; i < launches && reader.ok(); ++i) {
    codegen::Launch launch;
    launch.symbol = reader.text();
    launch.extent = reader.integer();
    for (auto* axes : {&launch.grid, &launch.block, &launch.cluster})
      for (int64_t& extent : *axes) extent = reader.integer();
    launch.shared_bytes = reader.integer();
    launch.cooperative = reader.integer() != 0;
    const int64_t maps = reader.integer();
    for (int64_t m = 0; m < maps && reader.ok(); ++m) {
      codegen::TensorMap map;
      map.buffer = static_cast<int>(reader.integer());
      map.type = static_cast<ir::Type>(reader.integer());
      for (auto* list : {&map.dims, &map.strides, &map.box}) *list = reader.list();
      map.swizzle = reader.integer();
      launch.tensor_maps.push_back(std::move(map));
    }
    artifact.launches.push_back(std::move(launch));
  }
  int64_t buffers = reader.integer();
  for (int64_t i = 0; i < buffers && reader.ok(); ++i) {
    codegen::BufferInfo info;
    info.role = static_cast<ir::BufferRole>(reader.integer());
    info.type = static_cast<ir::Type>(reader.integer());
    info.shape = reader.list();
    info.layout = reader.text();
    info.bytes = reader.integer();
    info.alignment = reader.integer();
    artifact.buffers.push_back(std::move(info));
  }
  return artifact;
}

void put_task(Writer& writer, const TaskDescription& task) {
  writer.integer(task.num_sets);
  writer.integer(task.exact);
  writer.real(task.scaled);
  writer.integer(task.has_float);
  writer.integer(static_cast<int64_t>(task.params.size()));
  for (const TaskParam& param : task.params) {
    writer.integer(static_cast<int64_t>(param.role));
    writer.integer(static_cast<int64_t>(param.type));
    writer.list(param.shape);
    writer.integer(param.num_samples);
    writer.integer(param.samples);
    for (const TaskParam::Set& set : param.sets) {
      writer.integer(set.data);
      writer.integer(set.reference);
      writer.integer(set.scale);
      writer.real(set.scale_all);
    }
  }
}

TaskDescription get_task(Reader& reader) {
  TaskDescription task;
  task.num_sets = reader.integer();
  task.exact = reader.integer() != 0;
  task.scaled = reader.real();
  task.has_float = reader.integer() != 0;
  int64_t params = reader.integer();
  for (int64_t i = 0; i < params && reader.ok(); ++i) {
    TaskParam param;
    param.role = static_cast<ir::BufferRole>(reader.integer());
    param.type = static_cast<ir::Type>(reader.integer());
    param.shape = reader.list();
    param.num_samples = reader.integer();
    param.samples = reader.integer();
    for (TaskParam::Set& set : param.sets) {
      set.data = reader.integer();
      set.reference = reader.integer();
      set.scale = reader.integer();
      set.scale_all = reader.real();
    }
    task.params.push_back(std::move(param));
  }
  return task;
}

}  // namespace tcc::measure
