// Names of enumerators, and the numbers under which the first record files hashed them.
#include "tcc/ir/instr.h"
#include "tcc/ir/names.h"
#include "tcc/support/hash.h"

namespace tcc::ir {
namespace {

constexpr std::string_view kExprKinds[] = {
#define TCC_X(kind, type) #kind,
    TCC_IR_EXPR_KINDS(TCC_X)
#undef TCC_X
};
constexpr std::string_view kStmtKinds[] = {
#define TCC_X(kind) #kind,
    TCC_IR_STMT_KINDS(TCC_X)
#undef TCC_X
};
constexpr std::string_view kScalarRoles[] = {"parameter", "decision"};
constexpr std::string_view kPlaces[] = {"address", "warp", "lane", "register"};

// X(enumeration, last enumerator, name of e, names of the first files). The names of the first files are in their order
// of that time, with "-" where one has been removed. A renamed enumerator takes the place of its former name. New names
// are not added: they count with the hash of their text.
// clang-format off
#define TCC_ENUMERATIONS(X) \
  X(Stage, kLowered, stage_name(e), "built scheduled nest lowered") \
  X(Scope, kAmxTile, scope_name(e), "global workspace const shared cluster_shared - - local amx_tile") \
  X(BufferRole, kTemp, buffer_role_name(e), "input weight output temp") \
  X(ScalarRole, kDecision, kScalarRoles[static_cast<size_t>(e)], "parameter - decision") \
  X(Type, kU16, type_name(e), "bool i8 u8 i32 i64 f16 bf16 f32 f64 barrier tensor_map") \
  X(ExprKind, kCall, kExprKinds[static_cast<size_t>(e)], \
    "IntConst FloatConst Var Sum Prod FloorDiv FloorMod Min Max Add Sub Mul Div Lt Le Eq Ne And Or Not Cast Select " \
    "Load Call") \
  X(Intrinsic, kShiftRight, intrinsic_name(e), \
    "exp log tanh erf sqrt rsqrt sigmoid abs floor ceil round sin cos pow fma") \
  X(StmtKind, kRoles, kStmtKinds[static_cast<size_t>(e)], "Seq Loop Block Store If Alloc InstrCall Roles") \
  X(LoopKind, kBound, loop_kind_name(e), "serial unrolled vectorized parallel bound") \
  X(Axis, kVthread, e == Axis::kNone ? "none" : axis_name(e), \
    "none grid.x grid.y grid.z cluster.x cluster.y warpgroup warp lane thread.x thread.y thread.z vthread") \
  X(IterKind, kCarried, iter_kind_name(e), "spatial reduce carried") \
  X(ReducerKind, kMin, reducer_name(e), "none sum prod max min") \
  X(AnnotationKey, kPrefetchBlock, annotation_name(e), \
    "- - pipeline_async pipeline_role pipeline_depth unroll_max persistent_blocks - cooperative_fetch min_threads " \
    "prefetch nontemporal launch_bounds tail tree_reduce") \
  X(Place, kRegister, kPlaces[static_cast<size_t>(e)], "address warp lane register")
// clang-format on

constexpr std::string_view kFirstInstructions =
    "zmm.load.f32 zmm.store.f32 zmm.fma.f32 zmm.fma.broadcast.f32 zmm.dpbf16ps zmm.vpdpbusd amx.config "
    "amx.zero.f32 amx.zero.i32 amx.load.bf16 amx.load.i8 amx.load.f32 amx.load.i32 amx.store.f32 amx.store.i32 "
    "amx.tdpbf16ps amx.tdpbssd amx.load.bf16.pairs amx.load.i8.quads amx.tdpbf16ps.kn amx.tdpbssd.kn "
    "mma.m16n8k16.f32.f16 mma.m16n8k8.f32.f16 mma.m16n8k8.f32.f16.bt mma.m16n8k16.f32.bf16 mma.m16n8k16.f16.f16 "
    "mma.m16n8k8.f32.tf32 mma.m16n8k32.i32.i8 mma.m16n8k16.f32.f16.bt mma.m16n8k16.f32.bf16.bt "
    "mma.m16n8k8.f32.tf32.bt mma.m16n8k32.i32.i8.bt ldmatrix.x4.f16 ldmatrix.x4.trans.f16 ldmatrix.x2.f16 "
    "ldmatrix.x2.trans.f16 ldmatrix.x4.bf16 ldmatrix.x4.trans.bf16 ldmatrix.x2.bf16 ldmatrix.x2.trans.bf16 "
    "ldmatrix.x4.f32 ldmatrix.x2.f32 ldmatrix.x4.i8 ldmatrix.x2.i8 cp.async.16.f32 cp.async.8.f32 cp.async.4.f32 "
    "cp.async.16.f16 cp.async.8.f16 cp.async.4.f16 cp.async.16.bf16 cp.async.8.bf16 cp.async.4.bf16 "
    "cp.async.16.i8 cp.async.8.i8 cp.async.4.i8 cp.async.commit cp.async.wait shfl.f32 shfl.i32 warp.sync "
    "fence.device atomic.add.f32 atomic.add.i32 bar.sync mbarrier.init mbarrier.arrive mbarrier.arrive.cluster "
    "mbarrier.expect_tx mbarrier.wait flag.init flag.arrive flag.wait fence.mbarrier_init fence.proxy.async "
    "cluster.sync setmaxnreg.inc setmaxnreg.dec wgmma.m64n8k16.f32.f16 wgmma.m64n64k16.f32.f16 "
    "wgmma.m64n128k16.f32.f16 wgmma.m64n256k16.f32.f16 wgmma.m64n8k16.f32.bf16 wgmma.m64n64k16.f32.bf16 "
    "wgmma.m64n128k16.f32.bf16 wgmma.m64n256k16.f32.bf16 wgmma.m64n64k16.f32.f16.trans_b "
    "wgmma.m64n128k16.f32.f16.trans_b wgmma.m64n256k16.f32.f16.trans_b wgmma.m64n64k16.f32.bf16.trans_b "
    "wgmma.m64n128k16.f32.bf16.trans_b wgmma.m64n256k16.f32.bf16.trans_b wgmma.fence wgmma.commit wgmma.wait "
    "tma.load.f16 tma.load.bf16 tma.load.f32 tma.load.multicast.f16 tma.load.multicast.bf16 tma.store.f16 "
    "tma.store.bf16 tma.store.f32 tma.commit tma.wait tma.wait_read wmma.load.a.f16 wmma.load.a.col.f16 "
    "wmma.load.b.f16 wmma.load.b.col.f16 wmma.m16n16k16.f32.f16 wmma.m16n16k16.f32.f16.bt "
    "wmma.m16n16k16.f32.f16.at wmma.m16n16k16.f32.f16.at.bt wmma.store.d.f32 ";

constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"tiled", "min_threads"},
    {"max_parallel", "persistent_blocks"},
    {"tree", "tree_reduce"},
};

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (end > at) out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

template <class E>
constexpr E kLast{};
template <class E>
constexpr std::string_view kFirst{};
template <class E>
std::string_view name_of(E e);
#define TCC_X(E, last, name, first)             \
  template <>                                   \
  constexpr E kLast<E> = E::last;               \
  template <>                                   \
  constexpr std::string_view kFirst<E> = first; \
  template <>                                   \
  std::string_view name_of<E>(E e) {            \
    return name;                                \
  }
TCC_ENUMERATIONS(TCC_X)
#undef TCC_X

}  // namespace

uint64_t stored_code(std::string_view first, std::string_view name) {
  const std::vector<std::string_view> words = words_of(first);
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == name) return i;
  return hash_bytes(name);
}

template <class E>
const std::vector<std::string_view>& names() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> out;
    for (size_t i = 0; i <= static_cast<size_t>(kLast<E>); ++i) out.push_back(name_of(static_cast<E>(i)));
    return out;
  }();
  return all;
}

template <class E>
std::optional<E> from_name(std::string_view name) {
  for (const auto& [former, now] : kRenamed)
    if (name == former) name = now;
  for (size_t i = 0; i < names<E>().size(); ++i)
    if (names<E>()[i] == name) return static_cast<E>(i);
  return std::nullopt;
}

template <class E>
const uint64_t* stored_codes() {
  static const std::vector<uint64_t> codes = [] {
    std::vector<uint64_t> out;
    for (std::string_view name : names<E>()) out.push_back(stored_code(kFirst<E>, name));
    return out;
  }();
  return codes.data();
}
template <class E>
uint64_t stored_code(E e) {
  return stored_codes<E>()[static_cast<size_t>(e)];
}

template <class E>
std::optional<E> from_stored_code(int64_t code) {
  const std::vector<std::string_view> words = words_of(kFirst<E>);
  if (code < 0 || static_cast<size_t>(code) >= words.size()) return std::nullopt;
  return from_name<E>(words[static_cast<size_t>(code)]);
}

uint64_t stored_code_of_instruction(int32_t row) {
  static const std::vector<uint64_t> codes = [] {
    std::vector<uint64_t> out;
    for (const Instruction& in : instruction_table()) out.push_back(stored_code(kFirstInstructions, in.name));
    return out;
  }();
  return codes[static_cast<size_t>(row)];
}

#define TCC_X(E, last, name, first)                         \
  template const std::vector<std::string_view>& names<E>(); \
  template std::optional<E> from_name(std::string_view);    \
  template const uint64_t* stored_codes<E>();               \
  template uint64_t stored_code(E);                         \
  template std::optional<E> from_stored_code(int64_t);
TCC_ENUMERATIONS(TCC_X)
#undef TCC_X

}  // namespace tcc::ir
