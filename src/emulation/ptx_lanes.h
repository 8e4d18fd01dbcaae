// Instructions as functions of one lane's values, spread over the lanes of a warp.
#pragma once

#include <type_traits>
#include <utility>

#include "emulation/ptx_machine.h"

namespace tcc::emulation {

template <auto Op, class D, class... S>
void run_rows(uint32_t lanes, D* d, const S*... s) {
  for_lanes(lanes, [&](int l) { d[l] = Op(s[l]...); });
}
// d = Op(a, b, ...), of up to three operands.
template <auto Op, class D, class... S>
void run_each(Warp& w, const Ins& i, uint32_t lanes) {
  const int32_t places[] = {i.a, i.b, i.c};
  [&]<size_t... N>(std::index_sequence<N...>) {
    run_rows<Op>(lanes, w.row<D>(i.d), w.source<S>(places[N])...);
  }(std::index_sequence_for<S...>());
}

template <class T>
using UnsignedOf = std::make_unsigned_t<T>;
// Wide enough that products of 16-bit numbers do not overflow as int.
template <class T>
using Modular = std::conditional_t<(sizeof(T) < 4), uint32_t, UnsignedOf<T>>;

// Calls f with a number of the C++ type that holds an integer (or bits) of 16, 32 or 64 bits; nullptr for others.
template <class F>
Handler with_integer(Type type, F f) {
  if (type == Type::kB16 || type == Type::kU16) return f(uint16_t{});
  if (type == Type::kS16) return f(int16_t{});
  if (type == Type::kB32 || type == Type::kU32) return f(uint32_t{});
  if (type == Type::kS32) return f(int32_t{});
  if (type == Type::kB64 || type == Type::kU64) return f(uint64_t{});
  if (type == Type::kS64) return f(int64_t{});
  return nullptr;
}
// The same by width alone.
template <class F>
Handler with_bits(int bytes, F f) {
  return bytes == 2 ? f(uint16_t{}) : bytes == 4 ? f(uint32_t{}) : bytes == 8 ? f(uint64_t{}) : nullptr;
}

// Op on kOperands elements of one type.
template <auto Op, int kOperands, class T>
constexpr Handler elementwise() {
  if constexpr (kOperands == 1) return &run_each<Op, T, T>;
  if constexpr (kOperands == 2) return &run_each<Op, T, T, T>;
  if constexpr (kOperands == 3) return &run_each<Op, T, T, T, T>;
}
template <auto Op, int kOperands>
Handler on_integers(Type type) {
  return with_integer(type, []<class T>(T) { return elementwise<Op, kOperands, T>(); });
}

}  // namespace tcc::emulation
