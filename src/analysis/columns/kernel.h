// The loops of ColumnProgram for the level that is compiled: included by level_*.cpp only, with TCC_COLUMN_LEVEL
// defined. Nothing here is a function template of the standard library, and all is in an unnamed namespace: the linker
// merges inline functions of one name, and a merged one with AVX-512 would then run on machines without it.
#pragma once

#include "analysis/columns/levels.h"

namespace tcc::analysis::TCC_COLUMN_LEVEL {
namespace {

// Eight candidates; narrower machines take several registers for them.
typedef double V __attribute__((vector_size(64)));
typedef int64_t I __attribute__((vector_size(64)));
typedef uint64_t U __attribute__((vector_size(64)));
typedef V Unaligned __attribute__((aligned(8), may_alias));
constexpr int64_t kLanes = 8;

inline V load(const double* p) {
  return *reinterpret_cast<const Unaligned*>(p);
}
inline void store(double* p, V v) {
  *reinterpret_cast<Unaligned*>(p) = v;
}
inline V splat(double x) {
  return V{} + x;
}
inline V one_where(I condition) {
  return condition ? splat(1) : V{};
}
// Adding 1.5 * 2^52 rounds to an integer, to nearest; what was rounded up is one too large.
inline V floor_of(V x) {
  const V magic = splat(6755399441055744.0);
  const V near = (x + magic) - magic;
  return near - one_where(near > x);
}

struct Add {
  V operator()(V a, V b) const { return a + b; }
};
struct Sub {
  V operator()(V a, V b) const { return a - b; }
};
struct Mul {
  V operator()(V a, V b) const { return a * b; }
};
struct Div {
  V operator()(V a, V b) const { return a / b; }
};
struct FloorDiv {
  V operator()(V a, V b) const { return floor_of(a / b); }
};
struct FloorMod {
  V operator()(V a, V b) const { return a - b * floor_of(a / b); }
};
struct Min {
  V operator()(V a, V b) const { return a < b ? a : b; }
};
struct Max {
  V operator()(V a, V b) const { return a > b ? a : b; }
};
struct Less {
  V operator()(V a, V b) const { return one_where(a < b); }
};
struct LessEqual {
  V operator()(V a, V b) const { return one_where(a <= b); }
};
struct Equal {
  V operator()(V a, V b) const { return one_where(a == b); }
};
struct Mix {
  V operator()(V hash, V a) const {
    U h = reinterpret_cast<U>(hash) ^ reinterpret_cast<U>(a);
    h = (h ^ (h >> 32)) * uint64_t{0x2545f4914f6cdd1d};
    return reinterpret_cast<V>(h ^ (h >> 29));
  }
};
struct BitCeil {
  V operator()(V a, V) const {
    const I below = (reinterpret_cast<I>(a) - 1) >> 52;
    const I exponent = (below + 1) << 52;
    return a > splat(1) ? reinterpret_cast<V>(exponent) : splat(1);
  }
};

template <class F>
void binary(const ColumnStep& s, double* const* places, int64_t n, F f) {
  double* to = places[s.to];
  if (s.constants == 0) {
    const double *a = places[s.a], *b = places[s.b];
    for (int64_t i = 0; i < n; i += kLanes) store(to + i, f(load(a + i), load(b + i)));
  } else if (s.constants == 2) {
    const double* a = places[s.a];
    const V b = splat(s.y);
    for (int64_t i = 0; i < n; i += kLanes) store(to + i, f(load(a + i), b));
  } else if (s.constants == 1) {
    const double* b = places[s.b];
    const V a = splat(s.x);
    for (int64_t i = 0; i < n; i += kLanes) store(to + i, f(a, load(b + i)));
  } else {
    const V value = f(splat(s.x), splat(s.y));
    for (int64_t i = 0; i < n; i += kLanes) store(to + i, value);
  }
}

void select(const ColumnStep& s, double* const* places, int64_t n) {
  double* to = places[s.to];
  const double* condition = places[s.a];
  const bool fixed_b = (s.constants & 2) != 0, fixed_c = (s.constants & 4) != 0;
  const V y = splat(s.y), z = splat(s.z);
  for (int64_t i = 0; i < n; i += kLanes) {
    const V b = fixed_b ? y : load(places[s.b] + i), c = fixed_c ? z : load(places[s.c] + i);
    store(to + i, load(condition + i) != V{} ? b : c);
  }
}

void lookup(const ColumnStep& s, double* const* places, int64_t n) {
  double* to = places[s.to];
  const double* a = places[s.a];
  const double last = static_cast<double>(s.entries - 1);
  for (int64_t i = 0; i < n; ++i) {
    // In this form NaN finds an entry, too.
    const double at = a[i] > 0 ? (a[i] < last ? a[i] : last) : 0;
    to[i] = s.table[static_cast<int64_t>(at)];
  }
}

void run(const ColumnStep* steps, int64_t count, double* const* places, int64_t n) {
  for (const ColumnStep* s = steps; s != steps + count; ++s) {
    switch (s->op) {
#define TCC_BINARY(name)           \
  case ColumnOp::k##name:          \
    binary(*s, places, n, name()); \
    break;
      TCC_BINARY(Add)
      TCC_BINARY(Sub)
      TCC_BINARY(Mul)
      TCC_BINARY(Div)
      TCC_BINARY(FloorDiv)
      TCC_BINARY(FloorMod)
      TCC_BINARY(Min)
      TCC_BINARY(Max)
      TCC_BINARY(Less)
      TCC_BINARY(LessEqual)
      TCC_BINARY(Equal)
      TCC_BINARY(Mix)
      TCC_BINARY(BitCeil)
#undef TCC_BINARY
      case ColumnOp::kSelect:
        select(*s, places, n);
        break;
      case ColumnOp::kLookup:
        lookup(*s, places, n);
        break;
    }
  }
}

}  // namespace

const RunColumns kRun = run;

}  // namespace tcc::analysis::TCC_COLUMN_LEVEL
