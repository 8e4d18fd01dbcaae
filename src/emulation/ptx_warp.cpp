// Exchange inside a warp, and the instructions that wait: barriers of the block and of warps.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_select.h"

namespace tcc::emulation {
namespace {

// The manual's pseudo-code of shfl.sync. mode: 0 up, 1 down, 2 bfly, 3 idx; extra: place of c, predicate or -1.
void run_shuffle(Warp& w, const Ins& i, uint32_t lanes) {
  uint32_t* d = w.row<uint32_t>(i.d);
  const uint32_t* a = w.source<uint32_t>(i.a);
  const uint32_t* b = w.source<uint32_t>(i.b);
  const uint32_t* c = w.source<uint32_t>(w.extra[i.extra]);
  std::array<uint32_t, kLanes> result;
  uint32_t in_range = 0;
  for (const int lane : LanesOf(lanes)) {
    const int by = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31),
              segment = static_cast<int>((c[lane] >> 8) & 31);
    const int last = (lane & segment) | (clamp & ~segment & 31), first = lane & segment;
    int source = i.mode == 0   ? lane - by
                 : i.mode == 1 ? lane + by
                 : i.mode == 2 ? lane ^ by
                               : first | (by & ~segment & 31);
    const bool inside = i.mode == 0 ? source >= last : source <= last;
    if (!inside) source = lane;
    in_range |= static_cast<uint32_t>(inside) << lane;
    if (((lanes >> source) & 1) == 0) {
      w.machine->report(FindingKind::kWrongParticipants, w, lane, i,
                        fmt::format("the shuffle reads lane {}, which takes no part", source));
      source = lane;
    }
    result[static_cast<size_t>(lane)] = a[source];
  }
  for_lanes(lanes, [&](int l) { d[l] = result[static_cast<size_t>(l)]; });
  if (const int32_t p = w.extra[i.extra + 1]; p >= 0) w.preds[p] = (w.preds[p] & ~lanes) | (in_range & lanes);
}

// mode: 0 all, 1 any, 2 uni, 3 ballot; bit 2: the predicate is negated.
void run_vote(Warp& w, const Ins& i, uint32_t lanes) {
  const uint32_t p = ((i.mode & 4) != 0 ? ~w.preds[i.a] : w.preds[i.a]) & lanes;
  const int mode = i.mode & 3;
  if (mode == 3) {
    uint32_t* d = w.row<uint32_t>(i.d);
    for_lanes(lanes, [&](int l) { d[l] = p; });
    return;
  }
  const bool r = mode == 0 ? p == lanes : mode == 1 ? p != 0 : p == 0 || p == lanes;
  w.preds[i.d] = (w.preds[i.d] & ~lanes) | (r ? lanes : 0);
}
template <class T, bool kAll>
void run_match(Warp& w, const Ins& i, uint32_t lanes) {
  const T* a = w.source<T>(i.a);
  std::array<uint32_t, kLanes> result{};
  for (const int l : LanesOf(lanes)) {
    for (const int o : LanesOf(lanes)) {
      result[static_cast<size_t>(l)] |= static_cast<uint32_t>(a[o] == a[l]) << o;
    }
    if (kAll && result[static_cast<size_t>(l)] != lanes) result[static_cast<size_t>(l)] = 0;
  }
  uint32_t* d = w.row<uint32_t>(i.d);
  for_lanes(lanes, [&](int l) { d[l] = result[static_cast<size_t>(l)]; });
}
// mode: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor
template <class T>
void run_redux(Warp& w, const Ins& i, uint32_t lanes) {
  const T* a = w.source<T>(i.a);
  T r = a[std::countr_zero(lanes)];
  for (const int l : LanesOf(lanes & (lanes - 1))) {
    const T v = a[l];
    r = i.mode == 0   ? static_cast<T>(static_cast<uint32_t>(r) + static_cast<uint32_t>(v))
        : i.mode == 1 ? std::min(r, v)
        : i.mode == 2 ? std::max(r, v)
        : i.mode == 3 ? r & v
        : i.mode == 4 ? r | v
                      : r ^ v;
  }
  T* d = w.row<T>(i.d);
  for_lanes(lanes, [&](int l) { d[l] = r; });
}
void run_active(Warp& w, const Ins& i, uint32_t lanes) {
  uint32_t* d = w.row<uint32_t>(i.d);
  for_lanes(lanes, [&](int l) { d[l] = lanes; });
}
void run_nothing(Warp&, const Ins&, uint32_t) {}

void collective(Selector& x, size_t mask_at, Handler handler) {
  x.ins.kind = Kind::kCollective;
  x.ins.run = handler;
  x.ins.members = x.value(mask_at, 4);
}

void select_shuffle(Selector& x) {
  const int mode = x.op.take_one({"up", "down", "bfly", "idx"});
  if (!x.op.take("sync") || !x.op.take("b32") || mode < 0 || !x.op.done()) return;
  x.need(5);
  collective(x, 4, &run_shuffle);
  x.ins.mode = static_cast<uint8_t>(mode);
  x.ins.d = x.result(0, 4);
  x.ins.a = x.value(1, 4);
  x.ins.b = x.value(2, 4);
  x.begin_extra();
  x.code.extra.push_back(x.value(3, 4));
  x.code.extra.push_back(x.second_predicate(0));
}

void select_vote(Selector& x) {
  const int mode = x.op.take_one({"all", "any", "uni", "ballot"});
  if (!x.op.take("sync") || mode < 0 || !x.op.take(mode == 3 ? "b32" : "pred") || !x.op.done()) return;
  x.need(3);
  collective(x, 2, &run_vote);
  bool negated = false;
  x.ins.d = mode == 3 ? x.result(0, 4) : x.predicate_result(0);
  x.ins.a = x.predicate(1, negated);
  x.ins.mode = static_cast<uint8_t>(mode | (negated ? 4 : 0));
}

void select_match(Selector& x) {
  const int mode = x.op.take_one({"any", "all"});
  const auto type = x.op.take_type();
  if (!x.op.take("sync") || mode < 0 || !type || (*type != Type::kB32 && *type != Type::kB64) || !x.op.done()) return;
  x.need(3);
  const bool wide = *type == Type::kB64;
  collective(x, 2,
             mode == 0 ? (wide ? &run_match<uint64_t, false> : &run_match<uint32_t, false>)
                       : (wide ? &run_match<uint64_t, true> : &run_match<uint32_t, true>));
  if (!x.at(0).second.empty()) x.fail("match with a predicate is not supported");
  x.ins.d = x.result(0, 4);
  x.ins.a = x.value(1, wide ? 8 : 4);
}

void select_redux(Selector& x) {
  const int mode = x.op.take_one({"add", "min", "max", "and", "or", "xor"});
  const auto type = x.op.take_type();
  if (!x.op.take("sync") || mode < 0 || !type || is_real(*type) || type_bytes(*type) != 4 || !x.op.done()) return;
  x.need(3);
  collective(x, 2, is_signed(*type) ? &run_redux<int32_t> : &run_redux<uint32_t>);
  x.ins.mode = static_cast<uint8_t>(mode);
  x.ins.d = x.result(0, 4);
  x.ins.a = x.value(1, 4);
}

// bar.sync n {, threads}; barrier.sync the same, without the demand that warps come whole; bar.warp.sync mask.
void select_barrier(Selector& x) {
  if (x.op.base() == "barrier" && x.op.take("cluster")) return select_mbarrier(x);
  const bool aligned = x.op.base() == "bar" || x.op.take("aligned");
  x.op.take("cta");
  if (x.op.take("warp")) {
    if (!x.op.take("sync") || !x.op.done()) return;
    x.need(1);
    x.ins.kind = Kind::kWarpBarrier;
    x.ins.members = x.value(0, 4);
    return;
  }
  if (!x.op.take("sync") || !x.op.done()) return;
  x.need(1, 2);
  x.ins.kind = Kind::kBarrier;
  x.ins.aligned = aligned;
  x.ins.a = x.value(0, 4);
  x.ins.b = x.operands() == 2 ? x.value(1, 4) : kNone;
}

}  // namespace

void select_warp(Selector& x) {
  const std::string_view base = x.op.base();
  if (base == "shfl") return select_shuffle(x);
  if (base == "vote") return select_vote(x);
  if (base == "match") return select_match(x);
  if (base == "redux") return select_redux(x);
  if (base == "bar" || base == "barrier") return select_barrier(x);
  if (base == "activemask" && x.op.take("b32") && x.op.done()) {
    x.need(1);
    x.ins.run = &run_active;
    x.ins.d = x.result(0, 4);
  }
  if (base == "nanosleep" && x.op.take("u32") && x.op.done()) {
    x.need(1);
    x.ins.run = &run_nothing;
  }
}

}  // namespace tcc::emulation
