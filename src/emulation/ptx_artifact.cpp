// All launches of an artifact on tensors in logical order.
#include <numeric>

#include "emulation/ptx_machine.h"
#include "tcc/ir/layout.h"
#include "tcc/support/arena.h"

namespace tcc::emulation {
namespace {

// Physical element of every logical one, row-major.
Result<std::vector<int64_t>> physical_places(const codegen::BufferInfo& info) {
  const int64_t size = std::accumulate(info.shape.begin(), info.shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<int64_t> places(static_cast<size_t>(size));
  if (info.layout.empty()) {
    std::iota(places.begin(), places.end(), int64_t{0});
    return places;
  }
  Arena arena;
  TCC_TRY(const ir::Layout* layout, ir::parse_layout(arena, info.layout));
  std::vector<int64_t> index(info.shape.size(), 0);
  for (int64_t& place : places) {
    place = ir::apply(*layout, index).address;
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < info.shape[d]) break;
      index[d] = 0;
    }
  }
  return places;
}

struct Param {
  interp::TensorData* tensor;
  size_t buffer;
  std::vector<int64_t> places;
  std::vector<std::byte> bytes;  // physical
};

Result<Param> make_param(interp::TensorData& tensor, size_t buffer, const codegen::BufferInfo& info) {
  Param p{&tensor, buffer, {}, {}};
  TCC_TRY(p.places, physical_places(info));
  const auto width = static_cast<size_t>(ir::type_bytes(info.type));
  if (tensor.type != info.type || tensor.bytes.size() != p.places.size() * width)
    return input_error("buffer {} and its tensor have different types or shapes", buffer);
  p.bytes.assign(static_cast<size_t>(info.bytes) + 16, std::byte{0});
  for (size_t e = 0; e < p.places.size(); ++e) {
    if (p.places[e] < 0 || (p.places[e] + 1) * static_cast<int64_t>(width) > info.bytes)
      return input_error("the layout of buffer {} leaves its memory", buffer);
    std::memcpy(p.bytes.data() + static_cast<size_t>(p.places[e]) * width, tensor.bytes.data() + e * width, width);
  }
  return p;
}

}  // namespace

Result<PtxReport> run_artifact(const codegen::Artifact& artifact, std::span<interp::TensorData* const> params,
                               const PtxOptions& options) {
  if (artifact.format != codegen::CodeFormat::kPtx) return input_error("expected an artifact in PTX");
  TCC_TRY(const PtxModule module, parse_ptx(artifact.code));
  std::vector<PtxBuffer> buffers;
  std::vector<Param> made;
  std::vector<std::vector<std::byte>> workspace;
  std::vector<std::vector<bool>> written;
  for (const codegen::BufferInfo& info : artifact.buffers) {
    PtxBuffer b{nullptr, info.bytes, fmt::format("buffer {}", buffers.size()), true, false};
    if (info.role == ir::BufferRole::kTemp) {
      workspace.emplace_back(static_cast<size_t>(info.bytes) + 16, std::byte{0xff});
      b.data = workspace.back().data();
    } else {
      if (made.size() >= params.size())
        return input_error("the artifact has more parameters than the {} tensors given", params.size());
      TCC_TRY(Param p, make_param(*params[made.size()], buffers.size(), info));
      b.data = p.bytes.data();
      b.writable = info.role == ir::BufferRole::kOutput;
      b.defined = !b.writable;
      made.push_back(std::move(p));
    }
    written.emplace_back(static_cast<size_t>(info.bytes), false);
    buffers.push_back(std::move(b));
  }
  PtxReport report;
  PtxOptions each = options;
  if (artifact.launches.size() > 1) each.max_blocks = 0;  // a later launch needs all of the one before it
  for (const codegen::Launch& launch : artifact.launches) {
    TCC_TRY_VOID(launch_into(module, launch, buffers, each, report, &written));
    if (!report.ok()) break;
  }
  for (const Param& p : made) {
    const codegen::BufferInfo& info = artifact.buffers[p.buffer];
    const auto width = static_cast<size_t>(ir::type_bytes(info.type));
    std::vector<bool> flags(p.places.size());
    for (size_t e = 0; e < p.places.size(); ++e) {
      const size_t at = static_cast<size_t>(p.places[e]) * width;
      flags[e] = written[p.buffer][at];
      if (info.role == ir::BufferRole::kOutput)
        std::memcpy(p.tensor->bytes.data() + e * width, p.bytes.data() + at, width);
    }
    if (report.blocks < report.all_blocks) report.written.push_back(std::move(flags));
  }
  return report;
}

}  // namespace tcc::emulation
