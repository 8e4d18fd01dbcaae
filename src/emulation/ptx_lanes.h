// Instructions as functions of one lane's values, spread over the lanes of a warp.
#pragma once

#include <type_traits>

#include "emulation/ptx_machine.h"

namespace tcc::emulation {

// Op(a) -> D, and so on.
template <class D, class A, auto Op>
void run_unary(Warp& w, const Ins& i, uint32_t lanes) {
  D* d = w.row<D>(i.d);
  const A* a = w.source<A>(i.a);
  for_lanes(lanes, [&](int l) { d[l] = Op(a[l]); });
}
template <class D, class A, class B, auto Op>
void run_binary(Warp& w, const Ins& i, uint32_t lanes) {
  D* d = w.row<D>(i.d);
  const A* a = w.source<A>(i.a);
  const B* b = w.source<B>(i.b);
  for_lanes(lanes, [&](int l) { d[l] = Op(a[l], b[l]); });
}
template <class D, class A, class B, class C, auto Op>
void run_ternary(Warp& w, const Ins& i, uint32_t lanes) {
  D* d = w.row<D>(i.d);
  const A* a = w.source<A>(i.a);
  const B* b = w.source<B>(i.b);
  const C* c = w.source<C>(i.c);
  for_lanes(lanes, [&](int l) { d[l] = Op(a[l], b[l], c[l]); });
}

template <class T>
using UnsignedOf = std::make_unsigned_t<T>;
// Wide enough that products of 16-bit numbers do not overflow as int.
template <class T>
using Modular = std::conditional_t<(sizeof(T) < 4), uint32_t, UnsignedOf<T>>;

template <class T>
struct TypeTag {
  using type = T;
};
// Calls f with a TypeTag of the C++ type that holds an integer (or bits) of 16, 32 or 64 bits; nullptr for others.
template <class F>
Handler with_integer(Type type, F f) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return f(TypeTag<uint16_t>());
    case Type::kS16:
      return f(TypeTag<int16_t>());
    case Type::kB32:
    case Type::kU32:
      return f(TypeTag<uint32_t>());
    case Type::kS32:
      return f(TypeTag<int32_t>());
    case Type::kB64:
    case Type::kU64:
      return f(TypeTag<uint64_t>());
    case Type::kS64:
      return f(TypeTag<int64_t>());
    case Type::kPred:
    case Type::kB8:
    case Type::kB128:
    case Type::kU8:
    case Type::kS8:
    case Type::kF16:
    case Type::kBF16:
    case Type::kF16x2:
    case Type::kBF16x2:
    case Type::kF32:
    case Type::kTF32:
    case Type::kF64:
      return nullptr;
  }
  return nullptr;
}

template <auto Op>
Handler integer_unary(Type type) {
  return with_integer(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::type;
    return &run_unary<T, T, Op>;
  });
}
template <auto Op>
Handler integer_binary(Type type) {
  return with_integer(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::type;
    return &run_binary<T, T, T, Op>;
  });
}

}  // namespace tcc::emulation
