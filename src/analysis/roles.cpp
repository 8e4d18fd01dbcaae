#include "tcc/analysis/roles.h"

#include <algorithm>

#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/query.h"

namespace tcc::analysis {

using namespace ir;

namespace {

// Registers of a thread that setmaxnreg gives at most, the step of their number (PTX manual), and what a producer
// needs.
constexpr int64_t kMaxRegisters = 240, kRegisterStep = 8, kProducerRegisters = 40;
// CUDA driver API, "cuTensorMapEncodeTiled": dimensions of a map.
constexpr size_t kMaxTensorRank = 5;

int64_t extent_of(const Loop& l) {
  return is_int(l.extent) ? std::max<int64_t>(int_value(l.extent), 1) : 1;
}

}  // namespace

const Loop* role_loop(Stmt launch) {
  const Loop* found = nullptr;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && has_annotation(*l, AnnotationKey::kPipelineRole)) found = l;
    return found == nullptr;
  });
  return found;
}

int64_t consumer_groups(Stmt launch) {
  int64_t groups = 1;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->axis == Axis::kWarpgroup && is_int(l->extent)) groups = int_value(l->extent);
    return true;
  });
  return groups;
}

ClusterShape cluster_shape(Stmt launch) {
  ClusterShape out;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr || l->loop_kind != LoopKind::kBound) return true;
    if (l->axis == Axis::kClusterX) out.x = std::max(out.x, extent_of(*l));
    if (l->axis == Axis::kClusterY) out.y = std::max(out.y, extent_of(*l));
    return true;
  });
  return out;
}

TileWalk tile_walk(Stmt launch) {
  TileWalk out;
  int64_t at_a_time = 0;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr || !is_grid(l->axis)) return true;
    out.tiles *= extent_of(*l);
    at_a_time = annotation_or(*l, AnnotationKey::kPersistentBlocks, at_a_time);
    return true;
  });
  out.clusters = out.tiles;
  if (at_a_time > 0)
    out.clusters = std::min(out.tiles, std::max<int64_t>(at_a_time / cluster_shape(launch).blocks(), 1));
  return out;
}

bool takes_tensor_stores(const Buffer& b) {
  if (b.role != BufferRole::kOutput || b.layout != nullptr || !is_int(b.shape.back())) return false;
  if (b.shape.size() < 2 || b.shape.size() > kMaxTensorRank) return false;
  const bool known = b.type == Type::kF16 || b.type == Type::kBF16 || b.type == Type::kF32;
  return known && int_value(b.shape.back()) * type_bytes(b.type) % kTmaStrideAlign == 0;
}

int64_t staged_bytes(const Kernel& k, Stmt launch) {
  bool any = false;
  visit(launch, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) any |= takes_tensor_stores(*k.buffer(store->buffer));
    return !any;
  });
  return any ? consumer_groups(launch) * kStagedPieces * kStagedRows * kStagedBytes : 0;
}

RoleShape role_shape(int64_t consumers, int64_t registers_per_sm) {
  RoleShape out;
  out.threads = (consumers + 1) * kGroupLanes;
  // One consumer leaves room for a second block, whose products run while this one stores its results.
  out.blocks = consumers == 1 ? 2 : 1;
  auto down = [](int64_t n) { return n / kRegisterStep * kRegisterStep; };
  out.launch_registers = std::min(down(registers_per_sm / (out.threads * out.blocks)), kMaxRegisters);
  out.producer_registers = std::min(kProducerRegisters, out.launch_registers);
  out.consumer_registers =
      std::min(kMaxRegisters, down((out.launch_registers * (consumers + 1) - out.producer_registers) / consumers));
  return out;
}

}  // namespace tcc::analysis
