// Statements of a launch as CUDA C++ text.
#include <algorithm>
#include <bit>

#include "codegen/cuda/address.h"
#include "codegen/cuda/emitter.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

// Loops are unrolled as plan_unrolling left them: by their annotation, else as their kind says.
std::string unroll_pragma(const Loop& l) {
  const bool serial = l.loop_kind == LoopKind::kSerial;
  if (!is_int(l.extent)) return serial ? "#pragma unroll 1" : "#pragma unroll";
  const int64_t extent = int_value(l.extent);
  const int64_t times = annotation_or(l, AnnotationKey::kUnrollMax, serial ? 1 : extent);
  return times < extent ? fmt::format("#pragma unroll {}", times) : "#pragma unroll";
}

}  // namespace

void Emitter::line(const std::string& text) {
  text_.append(static_cast<size_t>(depth_) * 2, ' ');
  text_ += text;
  text_ += '\n';
}
void Emitter::open(const std::string& text) {
  line(text.empty() ? "{" : text + " {");
  ++depth_;
}
void Emitter::close() {
  --depth_;
  line("}");
}

void Emitter::stmt(Stmt s) {
  if (error_) return;
  switch (s->kind) {
    case StmtKind::kSeq:
      for (Stmt child : as<Seq>(s)->stmts) stmt(child);
      return;
    case StmtKind::kLoop:
      return loop(*as<Loop>(s));
    case StmtKind::kStore:
      return store(*as<Store>(s));
    case StmtKind::kIf:
      return branch(*as<If>(s));
    case StmtKind::kAlloc:
      return alloc(*as<Alloc>(s));
    case StmtKind::kInstrCall:
      return instr(*as<InstrCall>(s));
    case StmtKind::kRoles:
      return roles(*as<Roles>(s));
    case StmtKind::kBlock:
      break;
  }
  TCC_UNREACHABLE("a block in a kernel at Stage::Lowered");
}

void Emitter::branch(const If& s) {
  Expr condition = analysis::simplify(b_, s.condition, ranges_);
  const std::string chosen = s.else_case == nullptr ? elected(condition, s.then_case) : "";
  const bool together = converged_;
  open("if (" + (chosen.empty() ? expr(condition) : chosen) + ")");
  converged_ = together && is_warp_uniform(condition);
  stmt(s.then_case);
  if (s.else_case != nullptr) {
    close();
    open("else");
    stmt(s.else_case);
  }
  converged_ = together;
  close();
}

// Has the expression one value for all lanes of a warp? For the kernels whose threads are warps and lanes.
bool Emitter::is_warp_uniform(Expr e) const {
  bool same = linear_;
  visit(e, [&](Expr part) {
    const Var* v = as<Var>(part);
    same = same && part->kind != ExprKind::kLoad && (v == nullptr || !lanes_.contains(v->id));
    return same;
  });
  return same;
}

// The condition "lane 0 of this warp" by elect.sync, where the body copies boxes: the compiler knows of the elected
// thread, and of no other, that it is alone, and needs no loop over the lanes around each copy. "": another condition,
// or a body that asks for its lane.
std::string Emitter::elected(Expr condition, Stmt body) {
  if (!linear_ || !converged_ || target_.cuda.sm_arch < 90) return "";
  bool copies = false;
  visit(body, [&](Stmt s) {
    const InstrCall* call = as<InstrCall>(s);
    copies = copies || (call != nullptr && instruction(call->instr).family == Family::kTensorCopy);
    return !copies;
  });
  std::vector<Expr> conjuncts;
  split_conjunction(condition, conjuncts);
  const auto first_lane = std::find_if(conjuncts.begin(), conjuncts.end(), [&](Expr e) {
    const Binary* x = e->kind == ExprKind::kEq ? as<Binary>(e) : nullptr;
    if (x == nullptr) return false;
    const Var* v = as<Var>(is_int(x->a, 0) ? x->b : x->a);
    return v != nullptr && lanes_.contains(v->id) && (is_int(x->a, 0) || is_int(x->b, 0));
  });
  if (!copies || first_lane == conjuncts.end()) return "";
  const Expr lane = *first_lane;
  conjuncts.erase(first_lane);
  Substitution zero;
  for (Id id : lanes_)
    if (mentions(lane, id)) zero.set(id, b_.integer(0));
  if (substitute(b_, body, zero) != body ||
      !std::all_of(conjuncts.begin(), conjuncts.end(), [&](Expr e) { return is_warp_uniform(e); }))
    return "";
  std::string text;
  for (Expr e : conjuncts) text += expr(e) + " && ";
  return text + "tcc_elect()";
}

std::string Emitter::index_type(const Loop& l) {
  return is_wide(l.extent) ? "long long" : "int";
}

// The body with the loop's variable printed as `variable`.
void Emitter::body_with(const Loop& l, std::string variable) {
  Expr outer = ranges_.set(l.id, l.extent);
  variables_[l.id] = std::move(variable);
  stmt(l.body);
  variables_.erase(l.id);
  ranges_.set(l.id, outer);
}

void Emitter::loop(const Loop& l) {
  if (l.loop_kind == LoopKind::kBound) return bound_loop(l);
  if (l.loop_kind == LoopKind::kParallel)
    return fail(fmt::format("the parallel loop '{}' is not bound to a grid or thread axis", name_hint(kernel_, l.id)));
  if (is_int(l.extent, 1)) return body_with(l, "0");
  if (l.loop_kind == LoopKind::kVectorized && is_int(l.extent)) return vector_loop(l);
  line(unroll_pragma(l));
  const std::string v = name(l.id);
  open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", index_type(l), v, expr(l.extent)));
  const bool together = converged_;
  converged_ = together && is_warp_uniform(l.extent);
  body_with(l, v);
  converged_ = together;
  close();
}

int64_t Emitter::axis_extent(Axis axis) const {
  const int64_t threads = block_[0] * block_[1] * block_[2];
  switch (axis) {
    case Axis::kGridX:
      return grid_[0] / cluster_[0];
    case Axis::kGridY:
      return grid_[1] / cluster_[1];
    case Axis::kGridZ:
      return grid_[2];
    case Axis::kThreadX:
      return block_[0];
    case Axis::kThreadY:
      return block_[1];
    case Axis::kThreadZ:
      return block_[2];
    case Axis::kLane:
      return 32;
    case Axis::kWarp:
      return warpgroups_ ? 4 : role_warps_ > 0 ? role_warps_ : threads / 32;
    case Axis::kWarpgroup:
      return (role_warps_ > 0 ? role_warps_ : threads / 32) / 4;
    case Axis::kClusterX:
      return cluster_[0];
    case Axis::kClusterY:
      return cluster_[1];
    case Axis::kNone:
    case Axis::kVthread:
      break;
  }
  return 0;
}

std::string Emitter::axis_coordinate(Axis axis) const {
  const std::string to_index = "(int)";
  const std::string warp = role_first_warp_ > 0 ? fmt::format("(tcc_w - {})", role_first_warp_) : "tcc_w";
  // The blocks of a cluster are neighbors in the grid.
  auto block = [&](char d, int64_t cluster, bool inside) {
    const std::string index = fmt::format("blockIdx.{}", d);
    return cluster == 1 ? to_index + index : fmt::format("{}({} {} {})", to_index, index, inside ? '%' : '/', cluster);
  };
  switch (axis) {
    case Axis::kGridX:
      return block('x', cluster_[0], false);
    case Axis::kGridY:
      return block('y', cluster_[1], false);
    case Axis::kClusterX:
      return block('x', cluster_[0], true);
    case Axis::kClusterY:
      return block('y', cluster_[1], true);
    case Axis::kGridZ:
      return to_index + "blockIdx.z";
    case Axis::kThreadX:
      return to_index + "threadIdx.x";
    case Axis::kThreadY:
      return to_index + "threadIdx.y";
    case Axis::kThreadZ:
      return to_index + "threadIdx.z";
    case Axis::kLane:
      return to_index + "(threadIdx.x % 32)";
    case Axis::kWarp:
      return to_index + "(" + warp + (warpgroups_ ? " % 4)" : ")");
    case Axis::kWarpgroup:
      return to_index + "(" + warp + " / 4)";
    case Axis::kNone:
    case Axis::kVthread:
      break;
  }
  return "";
}

void Emitter::bound_loop(const Loop& l) {
  if (l.axis == Axis::kVthread) {
    line("#pragma unroll");
    const std::string v = name(l.id);
    open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", index_type(l), v, expr(l.extent)));
    body_with(l, v);
    return close();
  }
  const int64_t extent = int_value(l.extent), dimension = axis_extent(l.axis);
  if (dimension == 1 && extent == 1) return body_with(l, "0");
  open("");
  line(fmt::format("const int {} = {};", name(l.id), axis_coordinate(l.axis)));
  const bool together = converged_;
  if (l.axis == Axis::kLane) lanes_.insert(l.id);
  converged_ = together && (extent == dimension || l.axis != Axis::kLane);
  if (extent < dimension) open(fmt::format("if ({} < {})", name(l.id), extent));
  body_with(l, name(l.id));
  if (extent < dimension) close();
  converged_ = together;
  lanes_.erase(l.id);
  close();
}

void Emitter::store(const Store& s) {
  const Buffer& target = buffer(s.buffer);
  const std::string text =
      fmt::format("{}[{}] = {};", name(s.buffer), address(target, s.indices), stored(target.type, s.value));
  Expr predicate = s.predicate != nullptr ? analysis::simplify(b_, s.predicate, ranges_) : nullptr;
  line(predicate != nullptr && !is_int(predicate, 1) ? "if (" + expr(predicate) + ") " + text : text);
}

void Emitter::alloc(const Alloc& s) {
  open("");
  for (Id id : s.buffers) {
    const Buffer& b = buffer(id);
    if (b.scope == Scope::kShared || b.scope == Scope::kClusterShared || b.scope == Scope::kWorkspace ||
        b.scope == Scope::kGlobal)
      continue;
    if (b.scope != Scope::kLocal) {
      fail(fmt::format("buffer '{}' of scope {} has no CUDA form", name_hint(kernel_, id), scope_name(b.scope)));
      continue;
    }
    auto elements = physical_elements(b);
    if (!elements) return fail(fmt::format("the local buffer '{}' has a symbolic shape", name_hint(kernel_, id)));
    line(fmt::format("{}{} {}[{}];", type_bytes(b.type) < 4 ? "__align__(16) " : "", memory_type(b.type), name(id),
                     std::max<int64_t>(*elements, 1)));
    if (accumulators_.contains(id)) alive_accumulators_.push_back(id);
  }
  stmt(s.body);
  std::erase_if(alive_accumulators_,
                [&](Id id) { return std::find(s.buffers.begin(), s.buffers.end(), id) != s.buffers.end(); });
  close();
}

void Emitter::roles(const Roles& s) {
  const int64_t entry = registers_at_entry();
  int64_t wanted = 0;
  for (const Role& r : s.roles) {
    wanted += 32 * r.warps * (r.registers != 0 ? r.registers : entry);
    if (r.registers != 0 && (r.first_warp % 4 != 0 || r.warps % 4 != 0))
      return fail("a role with its own number of registers is made of whole warpgroups");
  }
  if (budgets_ && wanted > entry * block_[0] * block_[1] * block_[2])
    return fail(
        fmt::format("the roles want {} registers of a block, {} threads have {} each", wanted, block_[0], entry));
  for (const Role& r : s.roles) {
    open(fmt::format("{}if (tcc_w >= {} && tcc_w < {})", &r == s.roles.data() ? "" : "else ", r.first_warp,
                     r.first_warp + r.warps));
    role_first_warp_ = r.first_warp;
    role_warps_ = r.warps;
    if (r.registers != 0 && r.registers != entry)
      line(fmt::format("tcc_setmaxnreg_{}<{}>();", r.registers < entry ? "dec" : "inc", r.registers));
    stmt(r.body);
    role_first_warp_ = role_warps_ = 0;
    close();
  }
}

// --- vectorized loops ------------------------------------------------------------------------------------------------

// The annotation access_bytes makes lanes of the loop; without it the compiler unrolls the loop.
void Emitter::vector_loop(const Loop& l) {
  const int64_t lanes = int_value(l.extent), bytes = annotation_or(l, AnnotationKey::kAccessBytes, 0);
  std::vector<analysis::LaneStore> stores;
  if (bytes <= 0 || !analysis::lane_stores(b_, l.body, nullptr, stores)) {
    line("#pragma unroll");
    const std::string v = name(l.id);
    open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", v, lanes));
    body_with(l, v);
    return close();
  }
  Expr outer = ranges_.set(l.id, l.extent);
  access_bytes_ = bytes;
  for (const analysis::LaneStore& s : stores) vector_store(s, l, lanes);
  variables_.erase(l.id);
  ranges_.set(l.id, outer);
}

// Elements of one access of the lanes: as many as the annotation allows and alignment permits.
int64_t Emitter::width_of(const Buffer& buffer, std::span<const Expr> indices, Id id, int64_t lanes) {
  const auto most = static_cast<uint64_t>(access_bytes_ / type_bytes(buffer.type));
  if (most < 2 || !analysis::is_gpu_memory(buffer)) return 1;
  const int64_t aligned = vector_width(b_, kernel_, ranges_, buffer, flat_address(b_, buffer, indices), id, lanes);
  return std::min(aligned, static_cast<int64_t>(std::bit_floor(most)));
}

// A bound that moves with the lanes by equal steps holds for all of them where it holds for this one; -1: unknown.
int64_t Emitter::last_lane(Expr condition, Id id, int64_t lanes) {
  if (condition->kind != ExprKind::kLt || as<Binary>(condition)->a->type != Type::kI64) return -1;
  const Expr rest = b_.sub(as<Binary>(condition)->b, as<Binary>(condition)->a);
  auto at = [&](int64_t lane) { return at_lane(b_, ranges_, rest, id, lane); };
  const Expr first = at(0), step = b_.sub(at(1), first);
  if (!is_int(step)) return -1;
  for (int64_t lane = 2; lane < lanes; ++lane)
    if (!is_int(b_.sub(at(lane), first), lane * int_value(step))) return -1;
  return int_value(step) < 0 ? lanes - 1 : 0;
}

// The predicate of every lane as one condition; "" without a predicate, or where it holds always.
std::string Emitter::all_lanes(Expr predicate, Id id, int64_t lanes) {
  if (predicate == nullptr) return "";
  if (Expr same = uniform_predicate(b_, kernel_, ranges_, predicate, id, lanes)) {
    lane_ = 0;
    variables_[id] = "0";
    return is_int(same, 1) ? "" : expr(same);
  }
  std::vector<Expr> conjuncts;
  split_conjunction(predicate, conjuncts);
  Expr all = nullptr;
  for (Expr c : conjuncts) {
    const int64_t last = last_lane(c, id, lanes);
    for (int64_t lane = last < 0 ? 0 : last; lane < (last < 0 ? lanes : last + 1); ++lane)
      all = b_.logical_and(all, at_lane(b_, ranges_, c, id, lane));
  }
  return is_int(all, 1) ? "" : expr(all);
}

// The loads of `value` that are wider than an element.
template <class F>
void Emitter::each_vector_load(Expr value, Id id, int64_t lanes, const F& found) {
  analysis::visit_lane_loads(value, [&](const Load& l) {
    if (vector_loads_.contains(&l)) return;
    if (const int64_t width = width_of(buffer(l.buffer), l.indices, id, lanes); width > 1) found(l, width);
  });
}

bool Emitter::has_vector_loads(Expr value, Id id, int64_t lanes) {
  bool any = false;
  each_vector_load(value, id, lanes, [&](const Load&, int64_t) { any = true; });
  return any;
}

void Emitter::vector_store(const analysis::LaneStore& s, const Loop& l, int64_t lanes) {
  const int64_t width = width_of(buffer(s.store->buffer), s.store->indices, l.id, lanes);
  const std::string condition = all_lanes(s.predicate, l.id, lanes);
  const bool uniform =
      s.predicate == nullptr || uniform_predicate(b_, kernel_, ranges_, s.predicate, l.id, lanes) != nullptr;
  if (!uniform && width == 1 && !has_vector_loads(s.store->value, l.id, lanes)) return scalar_lanes(s, l.id, lanes);
  open(condition.empty() ? "" : "if (" + condition + ")");
  load_vectors(s.store->value, l.id, lanes);
  vector_assign(*s.store, l.id, lanes, width);
  vector_loads_.clear();
  close();
  if (uniform || condition.empty()) return;
  open("else");
  scalar_lanes(s, l.id, lanes);
  close();
}

void Emitter::vector_assign(const Store& s, Id id, int64_t lanes, int64_t width) {
  const Buffer& target = buffer(s.buffer);
  const std::string type = memory_type(target.type);
  for (int64_t base = 0; base < lanes; base += width) {
    std::string vector;
    if (width > 1) {
      vector = fmt::format("t{}", temporaries_++);
      line(fmt::format("tcc_vec<{}, {}> {};", type, width, vector));
    }
    for (lane_ = base; lane_ < base + width; ++lane_) {
      variables_[id] = integer(lane_, Type::kI64);
      const std::string value = stored(target.type, s.value);
      if (width == 1)
        line(fmt::format("{}[{}] = {};", name(s.buffer), address(target, s.indices), value));
      else
        line(fmt::format("{}.v[{}] = {};", vector, lane_ - base, value));
    }
    if (width == 1) continue;
    lane_ = base;
    variables_[id] = integer(base, Type::kI64);
    line(fmt::format("tcc_store<{}>({} + {}, {});", width, name(s.buffer), address(target, s.indices), vector));
  }
}

void Emitter::scalar_lanes(const analysis::LaneStore& s, Id id, int64_t lanes) {
  const Buffer& target = buffer(s.store->buffer);
  for (lane_ = 0; lane_ < lanes; ++lane_) {
    variables_[id] = integer(lane_, Type::kI64);
    const std::string text = fmt::format("{}[{}] = {};", name(s.store->buffer), address(target, s.store->indices),
                                         stored(target.type, s.store->value));
    Expr predicate = at_lane(b_, ranges_, s.predicate, id, lane_);
    if (!is_int(predicate, 0)) line("if (" + expr(predicate) + ") " + text);
  }
}

void Emitter::load_vectors(Expr value, Id id, int64_t lanes) {
  each_vector_load(value, id, lanes, [&](const Load& l, int64_t width) { vector_load(l, id, lanes, width); });
}

void Emitter::vector_load(const Load& l, Id id, int64_t lanes, int64_t width) {
  const Buffer& source = buffer(l.buffer);
  const std::string type = fmt::format("tcc_vec<{}, {}>", memory_type(source.type), width);
  const std::string vector = fmt::format("t{}", temporaries_++);
  const std::string condition = all_lanes(l.predicate, id, lanes);
  for (int64_t base = 0; base < lanes; base += width) line(fmt::format("{} {}_{};", type, vector, base / width));
  if (!condition.empty()) open("if (" + condition + ")");
  for (lane_ = 0; lane_ < lanes; lane_ += width) {
    variables_[id] = integer(lane_, Type::kI64);
    line(fmt::format("{}_{} = tcc_load<{}>({} + {});", vector, lane_ / width, width, name(l.buffer),
                     address(source, l.indices)));
  }
  if (!condition.empty()) {
    close();
    open("else");
    for (lane_ = 0; lane_ < lanes; ++lane_) {
      variables_[id] = integer(lane_, Type::kI64);
      Expr predicate = at_lane(b_, ranges_, l.predicate, id, lane_);
      std::string value = stored(source.type, l.other);
      // With a predicate that all lanes share, this branch runs only where it is false.
      if (uniform_predicate(b_, kernel_, ranges_, l.predicate, id, lanes) == nullptr)
        value = fmt::format("{} ? {}[{}] : ({}){}", expr(predicate), name(l.buffer), address(source, l.indices),
                            memory_type(source.type), value);
      line(fmt::format("{}_{}.v[{}] = {};", vector, lane_ / width, lane_ % width, value));
    }
    close();
  }
  vector_loads_[&l] = {vector, width};
}

}  // namespace tcc::codegen::cuda
