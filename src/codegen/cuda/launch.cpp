// The frame of a launch: dimensions, limits, shared memory, parameters.
#include <algorithm>

#include "codegen/cuda/address.h"
#include "codegen/cuda/emitter.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

constexpr int64_t kMaxBlocksOfCluster = 8;  // that every device with clusters takes

// Does a block wait for another one of the launch? Then all of them must be resident.
bool waits_for_blocks(Stmt body) {
  bool found = false;
  visit(body, [&](Stmt s) {
    const InstrCall* call = as<InstrCall>(s);
    if (call == nullptr) return !found;
    const Instruction& row = instruction(call->instr);
    found = found || (row.behaviour == Behaviour::kMbarrierWait && row.operands[0].scope == Scope::kGlobal);
    return !found;
  });
  return found;
}

}  // namespace

Emitter::Emitter(const Kernel& kernel, const target::Target& target, std::span<const Buffer* const> params)
    : kernel_(kernel),
      target_(target),
      params_(params),
      arena_(std::make_shared<Arena>()),
      b_(*arena_),
      ranges_(kernel) {
  arena_->keep_alive(kernel.arena);
}

void Emitter::fail(std::string message) {
  if (!error_) error_ = Error{ErrorClass::kInput, "no CUDA code for this kernel: " + std::move(message), "", {}};
}

const Buffer& Emitter::buffer(Id id) {
  const Buffer* b = kernel_.buffer(id);
  TCC_CHECK(b != nullptr, "no buffer {}", id);
  return *b;
}

// Letters, digits and underscores of the hint, made unique by the id.
std::string Emitter::name(Id id) const {
  std::string text;
  for (char c : name_hint(kernel_, id))
    text += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) text.insert(0, "v");
  return fmt::format("{}_{}", text, id);
}

void Emitter::find_dimensions(Stmt body) {
  bool linear = false, xyz = false;
  int64_t warps = 1, groups = 1;
  visit(body, [&](Stmt s) {
    if (const Roles* r = as<Roles>(s)) {
      linear = true;
      for (const Role& role : r->roles) {
        warps = std::max<int64_t>(warps, role.first_warp + role.warps);
        budgets_ = budgets_ || role.registers != 0;
      }
    }
    const Loop* l = as<Loop>(s);
    if (l == nullptr || l->loop_kind != LoopKind::kBound || l->axis == Axis::kVthread) return true;
    if (!is_int(l->extent)) {
      fail(fmt::format("the bound loop '{}' has a symbolic extent", name_hint(kernel_, l->id)));
      return false;
    }
    const int64_t n = int_value(l->extent);
    auto widen = [n](int64_t& dimension) { dimension = std::max(dimension, n); };
    switch (l->axis) {
      case Axis::kGridX:
        widen(grid_[0]);
        break;
      case Axis::kGridY:
        widen(grid_[1]);
        break;
      case Axis::kGridZ:
        widen(grid_[2]);
        break;
      case Axis::kThreadX:
        widen(block_[0]), xyz = true;
        break;
      case Axis::kThreadY:
        widen(block_[1]), xyz = true;
        break;
      case Axis::kThreadZ:
        widen(block_[2]), xyz = true;
        break;
      case Axis::kLane:
        linear = true;
        break;
      case Axis::kWarp:
        widen(warps), linear = true;
        break;
      case Axis::kWarpgroup:
        widen(groups), linear = warpgroups_ = true;
        break;
      case Axis::kClusterX:
        widen(cluster_[0]);
        break;
      case Axis::kClusterY:
        widen(cluster_[1]);
        break;
      case Axis::kNone:
      case Axis::kVthread:
        break;
    }
    min_blocks_ = annotation_or(*l, AnnotationKey::kLaunchBounds, min_blocks_);
    return true;
  });
  if (linear && xyz) return fail("it mixes thread.x, y, z with warp and lane axes");
  for (size_t d = 0; d < 3; ++d) grid_[d] *= cluster_[d];
  linear_ = linear;
  if (linear) block_ = {32 * std::max(warps, warpgroups_ ? 4 * groups : warps), 1, 1};
}

analysis::SharedPlan Emitter::plan_shared(Stmt body) {
  visit(body, [&](Stmt s) {
    const Alloc* a = as<Alloc>(s);
    if (a == nullptr) return true;
    for (Id id : a->buffers)
      if ((buffer(id).scope == Scope::kShared || buffer(id).scope == Scope::kClusterShared) &&
          !physical_elements(buffer(id)))
        fail(fmt::format("the shared buffer '{}' has a symbolic shape", name_hint(kernel_, id)));
    return true;
  });
  // A swizzle repeats after eight rows; boxes begin at multiples of 128 bytes.
  Kernel aligned = kernel_;
  std::vector<const Buffer*> buffers;
  for (const Buffer* b : kernel_.buffers) {
    auto swizzle = swizzles_.find(b->id);
    if (swizzle == swizzles_.end()) {
      buffers.push_back(b);
      continue;
    }
    Buffer copy = *b;
    copy.alignment =
        std::max<int32_t>(copy.alignment, std::max<int32_t>(128, 8 * static_cast<int32_t>(swizzle->second)));
    buffers.push_back(b_.buffer(copy));
  }
  aligned.buffers = b_.arena().copy(buffers);
  return analysis::plan_shared(aligned, body);
}

void Emitter::check_limits(const analysis::SharedPlan& shared) {
  const target::CudaInfo& c = target_.cuda;
  const int64_t threads = block_[0] * block_[1] * block_[2];
  const int64_t most = std::max(c.shared_per_block, c.shared_per_block_optin);
  if (threads > c.max_threads_per_block)
    fail(fmt::format("{} threads a block, {} has at most {}", threads, target_.name, c.max_threads_per_block));
  if (block_[2] > 64) fail(fmt::format("{} threads along z, CUDA has at most 64", block_[2]));
  if (shared.total > most)
    fail(fmt::format("{} bytes of shared memory a block, {} has at most {}", shared.total, target_.name, most));
  if (cluster_[0] * cluster_[1] > kMaxBlocksOfCluster)
    fail(
        fmt::format("a cluster of {} x {} blocks, CUDA has at most {}", cluster_[0], cluster_[1], kMaxBlocksOfCluster));
  if (grid_[0] > INT32_MAX || grid_[1] > 65535 || grid_[2] > 65535)
    fail(fmt::format("a grid of {} x {} x {} blocks is beyond CUDA's limits", grid_[0], grid_[1], grid_[2]));
}

// Up to shared_per_block bytes are static arrays; more is one dynamic array, in which buffers follow each other in time
// too.
std::string Emitter::declare_shared(const analysis::SharedPlan& shared, int64_t& dynamic_bytes) {
  const bool dynamic = shared.separate > target_.cuda.shared_per_block;
  dynamic_bytes = dynamic ? shared.total : 0;
  static_shared_bytes_ = dynamic ? 0 : shared.separate;
  std::string text;
  if (dynamic) text += fmt::format("  TCC_SHARED_DYNAMIC({});\n", shared.alignment);
  for (size_t i = 0; i < shared.buffers.size(); ++i) {
    const Buffer& b = *shared.buffers[i];
    const int64_t place = dynamic ? shared.offsets[i] : std::max<int32_t>(b.alignment, 16);
    text += fmt::format("  {}({}, {}, {}, {});\n", dynamic ? "TCC_SHARED_AT" : "TCC_SHARED", memory_type(b.type),
                        name(b.id), std::max<int64_t>(*physical_elements(b), 1), place);
  }
  return text;
}

// What threads that meet in __launch_bounds__ get when no role says otherwise.
int64_t Emitter::registers_at_entry() const {
  const int64_t threads = block_[0] * block_[1] * block_[2] * std::max<int64_t>(min_blocks_, 1);
  return std::min<int64_t>(target_.cuda.registers_per_sm / std::max<int64_t>(threads, 1) / 8 * 8, 256);
}

std::string Emitter::parameters() const {
  std::string text;
  for (const Buffer* b : params_) {
    const bool read_only = b->role == BufferRole::kInput || b->role == BufferRole::kWeight;
    text += fmt::format("{}TCC_GLOBAL({}{}, {})", text.empty() ? "" : ", ", read_only ? "const " : "",
                        memory_type(b->type), name(b->id));
  }
  for (size_t i = 0; i < tensor_maps_.size(); ++i)
    text += fmt::format("{}TCC_TENSOR_MAP(map_{})", text.empty() ? "" : ", ", i);
  return text;
}

// Inputs and weights of one element are read once, into a register: the compiler leaves such a load in its loop where
// asm statements between may write memory.
std::string Emitter::read_scalars(Stmt body) {
  std::vector<const Buffer*> found;
  auto look = [&](Expr root) {
    if (root == nullptr) return;
    visit(root, [&](Expr e) {
      const Load* l = as<Load>(e);
      if (l == nullptr) return true;
      const Buffer& b = buffer(l->buffer);
      const bool read_only = b.role == BufferRole::kInput || b.role == BufferRole::kWeight;
      if (read_only && physical_elements(b) == 1 && scalars_.insert(b.id).second) found.push_back(&b);
      return true;
    });
  };
  visit(body, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) {
      look(store->value), look(store->predicate);
      for (Expr e : store->indices) look(e);
    } else if (const If* branch = as<If>(s)) {
      look(branch->condition);
    } else if (const InstrCall* call = as<InstrCall>(s)) {
      look(call->predicate);
      for (Expr e : call->args) look(e);
    }
    return true;
  });
  std::string text;
  for (const Buffer* b : found)
    text += fmt::format("  const {} {}_value = {}[0];\n", memory_type(b->type), name(b->id), name(b->id));
  return text;
}

Result<std::string> Emitter::statement(Stmt s, std::unordered_map<Id, std::string> scalars) {
  variables_ = std::move(scalars);
  depth_ = 1;
  stmt(s);
  if (error_) return tl::unexpected<Error>(*error_);
  return std::move(text_);
}

Result<std::string> Emitter::emit(Stmt body, const std::string& symbol, Launch& launch) {
  find_dimensions(body);
  plan_tiles(body);
  analysis::SharedPlan shared = plan_shared(body);
  if (!error_) check_limits(shared);
  if (error_) return tl::unexpected<Error>(*error_);
  const std::string declarations = declare_shared(shared, launch.shared_bytes);
  depth_ = 1;
  const std::string scalars = read_scalars(body);
  if (linear_) line("const int tcc_w = tcc_warp();");
  stmt(body);
  if (error_) return tl::unexpected<Error>(*error_);
  launch.symbol = symbol;
  launch.grid = grid_;
  launch.block = block_;
  launch.cluster = cluster_;
  launch.tensor_maps = tensor_maps_;
  launch.cooperative = waits_for_blocks(body);
  // Budgets of roles are heeded only where the registers at entry are known, so the blocks of a multiprocessor are.
  const int64_t blocks = budgets_ ? std::max<int64_t>(min_blocks_, 1) : min_blocks_;
  const std::string bounds =
      fmt::format("{}{}", block_[0] * block_[1] * block_[2], blocks > 0 ? fmt::format(", {}", blocks) : "");
  const std::string cluster = cluster_[0] * cluster_[1] > 1
                                  ? fmt::format("TCC_CLUSTER({}, {}, {}) ", cluster_[0], cluster_[1], cluster_[2])
                                  : "";
  return fmt::format("extern \"C\" __global__ void {}__launch_bounds__({})\n{}({}) {{\n{}{}}}\n", cluster, bounds,
                     symbol, parameters(), declarations + scalars, text_);
}

}  // namespace tcc::codegen::cuda
