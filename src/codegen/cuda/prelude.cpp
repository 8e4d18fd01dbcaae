#include "codegen/cuda/prelude.h"

#include <algorithm>
#include <map>
#include <vector>

#include "codegen/cuda/emitter.h"
#include "tcc/support/check.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

// Values of f16 and bf16 are floats in registers, rounded after every operation, and 16-bit words in memory.
//
// tcc_exp: 2^(x log2 e) by the hardware's exponential, whose relative error is 2^-22; the product's rounding adds
// 1.3 |x| 2^-24. Quotients of floats are rounded to 2 ulp (--prec-div=false), square roots to 1 ulp
// (--prec-sqrt=false).
//
// tcc_erf_near: an absolute error of 2^-21, for results that are rounded to 16 bits; 1 - 2^(t P(t)) with P the
// polynomial of degree 6 whose largest absolute error on [0, 4] is the smallest, by weighted least squares.
//
// tcc_gelu_near: x/2 (1 + erf(x / sqrt(2))) = max(x, 0) - t Q(t), for results that are rounded to 16 bits, with
// t = |x| and Q(t) = erfc(t / sqrt(2)) / 2 = 2^P(t). P is the polynomial of degree 6 on [0, 5.8] whose largest error is
// the smallest, by weighted least squares: ln(2) |P - log2 Q| <= 2^-17.5, and more where t Q(t) < 2^-14 in the ratio of
// both, because numbers of f16 are as far apart there. Horner's rule in single precision adds 2^-20. A positive result
// is at least t Q(t), so the error is at most 2^-17 max(|result|, 2^-14). Beyond 5.8 the result is
// max(x, 0) - 5.8 Q(5.8), at most 2^-25 from the function, which is half of the least number of f16.
constexpr char kHead[] = R"cuda(#define TCC_DEVICE static __device__ __forceinline__
#define TCC_GLOBAL(type, name) type* __restrict__ name
#define TCC_SHARED(type, name, elements, alignment) __shared__ __align__(alignment) type name[elements]
#define TCC_SHARED_DYNAMIC(alignment) extern __shared__ __align__(alignment) unsigned char tcc_shared[]
#define TCC_SHARED_AT(type, name, elements, offset) type* const name = (type*)(tcc_shared + offset)
template <class T, int N>
struct alignas(sizeof(T) * N) tcc_vec {
  T v[N];
};
template <int N, class T>
TCC_DEVICE tcc_vec<T, N> tcc_load(const T* p) { return *(const tcc_vec<T, N>*)p; }
template <int N, class T>
TCC_DEVICE void tcc_store(T* p, tcc_vec<T, N> value) { *(tcc_vec<T, N>*)p = value; }
template <class T>
TCC_DEVICE T tcc_min(T a, T b) { return b < a ? b : a; }
template <class T>
TCC_DEVICE T tcc_max(T a, T b) { return a < b ? b : a; }
template <class T>
TCC_DEVICE T tcc_floor_div(T a, T b) { return a / b - (a % b != 0 && ((a < 0) != (b < 0)) ? 1 : 0); }
template <class T>
TCC_DEVICE T tcc_floor_mod(T a, T b) { return a - tcc_floor_div(a, b) * b; }
template <class T>
TCC_DEVICE T tcc_xor(T a, int from, T mask, int to) { return a ^ (((a >> from) & mask) << to); }
TCC_DEVICE float tcc_f32_bits(unsigned bits) { return __uint_as_float(bits); }
TCC_DEVICE double tcc_f64_bits(long long bits) { return __longlong_as_double(bits); }
TCC_DEVICE float tcc_from_f16(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
TCC_DEVICE unsigned short tcc_to_f16(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
TCC_DEVICE float tcc_round_f16(float f) { return tcc_from_f16(tcc_to_f16(f)); }
TCC_DEVICE float tcc_from_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
#if __CUDA_ARCH__ >= 800
TCC_DEVICE unsigned short tcc_to_bf16(float f) {
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
#else
TCC_DEVICE unsigned short tcc_to_bf16(float f) {
  unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
#endif
TCC_DEVICE float tcc_round_bf16(float f) { return tcc_from_bf16(tcc_to_bf16(f)); }
TCC_DEVICE int tcc_to_i32(float x) { return __float2int_rz(x); }
TCC_DEVICE int tcc_to_i32(double x) { return __double2int_rz(x); }
TCC_DEVICE long long tcc_to_i64(float x) { return __float2ll_rz(x); }
TCC_DEVICE long long tcc_to_i64(double x) { return __double2ll_rz(x); }
TCC_DEVICE float tcc_fmin(float a, float b) { return fminf(a, b); }
TCC_DEVICE double tcc_fmin(double a, double b) { return fmin(a, b); }
TCC_DEVICE float tcc_fmax(float a, float b) { return fmaxf(a, b); }
TCC_DEVICE double tcc_fmax(double a, double b) { return fmax(a, b); }
TCC_DEVICE float tcc_pow(float a, float b) { return powf(a, b); }
TCC_DEVICE double tcc_pow(double a, double b) { return pow(a, b); }
TCC_DEVICE float tcc_fma(float a, float b, float c) { return fmaf(a, b, c); }
TCC_DEVICE double tcc_fma(double a, double b, double c) { return fma(a, b, c); }
#define TCC_MATH(name, narrow, wide) \
  TCC_DEVICE float name(float x) { return narrow(x); } \
  TCC_DEVICE double name(double x) { return wide(x); }
TCC_DEVICE float tcc_exp(float x) { return exp2f(x * 1.44269504f); }
TCC_DEVICE double tcc_exp(double x) { return exp(x); }
TCC_MATH(tcc_log, logf, log)
TCC_MATH(tcc_tanh, tanhf, tanh)
TCC_MATH(tcc_erf, erff, erf)
TCC_MATH(tcc_sqrt, sqrtf, sqrt)
TCC_MATH(tcc_rsqrt, rsqrtf, rsqrt)
TCC_MATH(tcc_abs, fabsf, fabs)
TCC_MATH(tcc_floor, floorf, floor)
TCC_MATH(tcc_ceil, ceilf, ceil)
TCC_MATH(tcc_round, rintf, rint)
TCC_MATH(tcc_sin, sinf, sin)
TCC_MATH(tcc_cos, cosf, cos)
TCC_DEVICE float tcc_erf_near(float x) {
  const float t = fabsf(x) > 4.0f ? 4.0f : fabsf(x);
  float p = fmaf(1.00220888e-4f, t, -4.61570977e-4f);
  p = fmaf(p, t, -2.30224105e-3f);
  p = fmaf(p, t, 2.94525158e-2f);
  p = fmaf(p, t, -1.48963675e-1f);
  p = fmaf(p, t, -9.18328643e-1f);
  p = fmaf(p, t, -1.62791371f);
  return copysignf(1.0f - exp2f(p * t), x);
}
#if __CUDA_ARCH__ >= 800
TCC_DEVICE float tcc_relu(float x) {
  float y;
  asm("max.NaN.ftz.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
}
#else
TCC_DEVICE float tcc_relu(float x) { return x < 0.0f ? 0.0f : x; }
#endif
TCC_DEVICE float tcc_gelu_near(float x) {
  const float t = fminf(fabsf(x), 5.8f);
  float p = fmaf(3.24451794e-5f, t, -7.48426421e-4f);
  p = fmaf(p, t, 7.9422975e-3f);
  p = fmaf(p, t, -5.30518778e-2f);
  p = fmaf(p, t, -4.59170371e-1f);
  p = fmaf(p, t, -1.15103674f);
  p = fmaf(p, t, -1.00000763f);
  return fmaf(-t, exp2f(p), tcc_relu(x));
}
TCC_DEVICE float tcc_sigmoid(float x) { return __fdividef(1.0f, 1.0f + tcc_exp(-x)); }
TCC_DEVICE double tcc_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
TCC_DEVICE unsigned tcc_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
#ifdef TCC_WAIT_LIMIT
#define TCC_TEXT_OF(x) #x
#define TCC_TEXT(x) TCC_TEXT_OF(x)
#define TCC_WAIT(test) \
  ".reg .u64 now, end; " test "@done bra passed; mov.u64 end, %%globaltimer; add.u64 end, end, " \
  TCC_TEXT(TCC_WAIT_LIMIT) "; again: " test "@done bra passed; mov.u64 now, %%globaltimer; " \
  "setp.lt.u64 done, now, end; @done bra again; trap; passed:"
#else
#define TCC_WAIT(test) "again: " test "@!done bra again;"
#endif
struct alignas(64) tcc_tensor_map {
  unsigned char opaque[128];
};
// The warp's number, the same register for all of its threads; one thread of the warp, whose threads all come here.
TCC_DEVICE int tcc_warp() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }
#if __CUDA_ARCH__ >= 900
TCC_DEVICE bool tcc_elect() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}
#endif
#define TCC_TENSOR_MAP(name) const __grid_constant__ tcc_tensor_map name
#define TCC_CLUSTER(x, y, z) __cluster_dims__(x, y, z)
typedef unsigned long long tcc_matrix;
// The descriptor of the tile that begins `pieces` times 16 bytes behind p. The sum of both places fits in the 14 bits of
// the address, so the descriptors of neighboring tiles differ by an addition.
template <int Swizzle, int Leading, int Stride, class T>
TCC_DEVICE tcc_matrix tcc_tile(const T* p, int pieces) {
  const unsigned low = ((tcc_shared_address(p) & 0x3ffffu) >> 4 | (unsigned)(Leading / 16) << 16) + (unsigned)pieces;
  const unsigned high = (unsigned)(Stride / 16) | (unsigned)(Swizzle == 128 ? 1 : Swizzle == 64 ? 2 : 3) << 30;
  return (tcc_matrix)high << 32 | low;
}
template <int N>
TCC_DEVICE void tcc_pin(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i]) : : "memory");
}
)cuda";

bool is_word(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& p : parts) text += (text.empty() ? "" : ", ") + p;
  return text;
}

constexpr std::string_view kPitch = "_pitch";

bool in_shared(Scope scope) {
  return scope == Scope::kShared || scope == Scope::kClusterShared;
}

// Products of single precision read the upper 19 bits of their operands: without rounding they would be cut off.
bool rounds_to_tf32(const Instruction& row, const OperandSpec& spec) {
  return row.family == Family::kMma && spec.type == Type::kF32 && spec.access == Access::kRead;
}
std::string rounded_name(const OperandSpec& spec) {
  return fmt::format("{}_tf32", spec.name);
}
// Not volatile: a fragment that several products read is rounded once.
std::string round_operand(const OperandSpec& spec) {
  return fmt::format(
      "  unsigned {0}[{1}];\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < {1}; ++i) asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"({0}[i]) : \"f\"({2}[i]));\n",
      rounded_name(spec), registers_per_lane(spec), spec.name);
}

// One asm statement. In a row's text `$n` is the n-th argument and `%NAME` an operand: a 32-bit address for shared
// memory, a 64-bit one for global memory, the list of its .b32 registers for a `local` operand (elements smaller than
// 4 bytes share registers in order).
class AsmStatement {
 public:
  // mode: what a shuffle's argument 0 is; run_time: arguments that may be registers are; rank: of tensor maps.
  AsmStatement(const Instruction& row, bool run_time, int mode, size_t rank)
      : row_(row), run_time_(run_time), mode_(mode), rank_(rank) {
    // Outputs are numbered first.
    for (const OperandSpec& o : row.operands)
      if (o.scope == Scope::kLocal && o.access != Access::kRead) operand(o);
    for (const OperandSpec& o : row.operands)
      if (o.scope != Scope::kLocal || o.access == Access::kRead) operand(o);
  }

  std::string text() {
    std::string body;
    for (size_t i = 0; i < row_.ptx.size();) {
      const char c = row_.ptx[i];
      size_t end = i + 1;
      while ((c == '$' || c == '%') && end < row_.ptx.size() && is_word(row_.ptx[end])) ++end;
      const std::string_view word = row_.ptx.substr(i + 1, end - i - 1);
      if (c == '$') {
        TCC_CHECK(word.size() == 1 && word[0] - '0' < row_.num_args, "{}: {}", row_.name, row_.ptx);
        body += argument(static_cast<size_t>(word[0] - '0'));
      } else if (c == '%') {
        const bool pitch = word.ends_with(kPitch);
        auto found = (pitch ? pitches_ : operands_).find(pitch ? word.substr(0, word.size() - kPitch.size()) : word);
        TCC_CHECK(found != (pitch ? pitches_ : operands_).end(), "{}: no operand '{}'", row_.name, word);
        body += found->second;
      } else {
        body += c;
      }
      i = end;
    }
    if (rank_ > 0) {
      const size_t at = body.find(".2d.");
      TCC_CHECK(at != std::string::npos, "{}: {}", row_.name, row_.ptx);
      body[at + 1] = static_cast<char>('0' + rank_);
    }
    return fmt::format("asm volatile(\"{}\" : {} : {} : \"memory\");", body, join(outputs_), join(inputs_));
  }

 private:
  std::string place(std::vector<std::string>& list, std::string constraint) {
    list.push_back(std::move(constraint));
    return fmt::format("%{}", outputs_.size() + inputs_.size() - 1);
  }

  void operand(const OperandSpec& spec) {
    if (is_tensor_map(row_, spec)) {
      std::string box = "[" + place(inputs_, fmt::format("\"l\"(&{})", spec.name)) + ", {";
      for (size_t d = 0; d < rank_; ++d)
        box += (d == 0 ? "" : ", ") + place(inputs_, fmt::format("\"r\"({}{})", spec.name, d));
      operands_[spec.name] = box + "}]";
      return;
    }
    if (is_matrix(row_, spec)) {
      operands_[spec.name] = place(inputs_, fmt::format("\"l\"({})", spec.name));
      return;
    }
    if (spec.scope != Scope::kLocal) {
      operands_[spec.name] =
          place(inputs_, in_shared(spec.scope) ? fmt::format("\"r\"(tcc_shared_address({}))", spec.name)
                                               : fmt::format("\"l\"({})", spec.name));
      if (has_pitch(row_, spec)) pitches_[spec.name] = place(inputs_, fmt::format("\"r\"({}{})", spec.name, kPitch));
      return;
    }
    const int64_t bytes = type_bytes(spec.type);
    const int64_t words = std::max<int64_t>(registers_per_lane(spec) * bytes / 4, 1);
    // Fragments that are only read are .b32 whatever their type.
    const bool as_bits = bytes < 4 || (spec.type == Type::kF32 && !spec.layout.empty() && spec.access == Access::kRead);
    const char constraint = spec.type == Type::kF32 && !as_bits ? 'f' : 'r';
    const std::string pointer =
        rounds_to_tf32(row_, spec) ? rounded_name(spec)
        : !as_bits                 ? std::string(spec.name)
                   : fmt::format("(({}unsigned*){})", spec.access == Access::kRead ? "const " : "", spec.name);
    std::string list;
    for (int64_t w = 0; w < words; ++w) {
      const char* kind = spec.access == Access::kRead ? "" : spec.access == Access::kWrite ? "=" : "+";
      std::string text = fmt::format("\"{}{}\"({}[{}])", kind, constraint, pointer, w);
      list += list.empty() ? "" : ", ";
      list += place(spec.access == Access::kRead ? inputs_ : outputs_, std::move(text));
    }
    operands_[spec.name] = words == 1 && spec.layout.empty() ? list : "{" + list + "}";
  }

  std::string argument(size_t n) {
    static constexpr const char* kModes[] = {"idx", "up", "down", "bfly"};
    if (row_.behaviour == Behaviour::kShuffle && n == 0) return kModes[mode_];
    const bool immediate = !run_time_ || is_immediate(row_, n);
    std::string value = fmt::format("{}{}", immediate ? 'I' : 'a', n);
    // A width becomes the clamp and segment mask of the PTX manual, "shfl.sync".
    if (row_.behaviour == Behaviour::kShuffle && n == 2)
      value = fmt::format("((32 - {}) << 8) | {}", value, mode_ == 1 ? 0 : 31);
    // A mask of blocks is a register of 16 bits.
    if (row_.multicast_arg == static_cast<int32_t>(n))
      return place(inputs_, fmt::format("\"h\"((unsigned short){})", value));
    // PTX counts whole warps.
    if (row_.behaviour == Behaviour::kBarSync && n == 1) value = fmt::format("({} + 31) / 32 * 32", value);
    return place(inputs_, fmt::format("\"{}\"({})", immediate ? 'n' : 'r', value));
  }

  const Instruction& row_;
  bool run_time_;
  int mode_;
  size_t rank_;
  std::vector<std::string> outputs_, inputs_;
  std::map<std::string_view, std::string> operands_, pitches_;
};

// A loop that waits ends after TCC_WAIT_LIMIT nanoseconds where that is defined: code that is tried out must not hang.
// The clock is read once the first test has failed: what needs no wait takes the time that it takes without a limit.
void limit_wait(std::string& statement) {
  constexpr std::string_view kBegin = "again: ", kEnd = "@!done bra again;";
  const size_t begin = statement.find(kBegin), end = statement.find(kEnd);
  if (begin == std::string::npos) return;
  TCC_CHECK(end != std::string::npos, "a wait without an end: {}", statement);
  const std::string test = statement.substr(begin + kBegin.size(), end - begin - kBegin.size());
  statement.replace(begin, end + kEnd.size() - begin, fmt::format("\" TCC_WAIT(\"{}\") \"", test));
}

// The function with all arguments as template arguments, or with those at run time that may be.
std::string function(const Instruction& row, bool run_time, size_t rank) {
  std::vector<std::string> immediates, parameters;
  for (const OperandSpec& o : row.operands) {
    if (is_tensor_map(row, o)) {
      parameters.push_back(fmt::format("const tcc_tensor_map& {}", o.name));
      for (size_t d = 0; d < rank; ++d) parameters.push_back(fmt::format("int {}{}", o.name, d));
    } else {
      parameters.push_back(fmt::format("{} {}", is_matrix(row, o) ? "tcc_matrix" : operand_pointer(o), o.name));
      if (has_pitch(row, o)) parameters.push_back(fmt::format("int {}{}", o.name, kPitch));
    }
  }
  for (size_t n = 0; n < static_cast<size_t>(row.num_args); ++n) {
    if (run_time && !is_immediate(row, n))
      parameters.push_back(fmt::format("{} a{}", argument_type(row), n));
    else
      immediates.push_back(fmt::format("{} I{}", argument_type(row), n));
  }
  std::string text = immediates.empty() ? "" : fmt::format("template <{}>\n", join(immediates));
  text += fmt::format("TCC_DEVICE void {}({}) {{\n", row_function(row), join(parameters));
  for (const OperandSpec& o : row.operands)
    if (rounds_to_tf32(row, o)) text += round_operand(o);
  std::string statement =
      row.behaviour == Behaviour::kShuffle ? "" : "  " + AsmStatement(row, run_time, 0, rank).text() + "\n";
  limit_wait(statement);
  if (const size_t test = statement.find("test_wait"); test != std::string::npos) {
    // From 9.0 on the thread sleeps while it waits.
    std::string sleeping = statement;
    sleeping.replace(test, 9, "try_wait");
    text += "#if __CUDA_ARCH__ >= 900\n" + sleeping + "#else\n" + statement + "#endif\n";
  } else if (row.behaviour == Behaviour::kShuffle) {
    for (int mode = 0; mode < 4; ++mode)
      text += fmt::format("  if (I0 == {}) {}\n", mode, AsmStatement(row, run_time, mode, rank).text());
  } else {
    text += statement;
  }
  return text + "}\n";
}

// The functions of the instructions by their names, those of a row together.
std::vector<std::pair<std::string, std::string>> make_functions() {
  std::vector<std::pair<std::string, std::string>> functions;
  for (const Instruction& row : instruction_table()) {
    if (row.ptx.empty()) continue;
    const bool maps = std::any_of(row.operands.begin(), row.operands.end(),
                                  [&](const OperandSpec& o) { return is_tensor_map(row, o); });
    std::string text;
    for (size_t rank = maps ? kMinMapRank : 0; rank <= (maps ? kMaxMapRank : 0); ++rank) {
      text += function(row, false, rank);
      for (size_t n = 0; n < static_cast<size_t>(row.num_args); ++n) {
        if (is_immediate(row, n)) continue;
        text += function(row, true, rank);
        break;
      }
    }
    functions.emplace_back(row_function(row), std::move(text));
  }
  return functions;
}

const std::vector<std::pair<std::string, std::string>>& instruction_functions() {
  static const std::vector<std::pair<std::string, std::string>> functions = make_functions();
  return functions;
}

std::string make_prelude() {
  std::string text = kHead;
  for (const auto& [name, function] : instruction_functions()) text += function;
  return text;
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

}  // namespace

const std::string& prelude() {
  static const std::string text = make_prelude();
  return text;
}

std::string without_unused(const std::string& source) {
  TCC_CHECK(source.starts_with(prelude()), "a source without the prelude");
  const std::string_view kernels = std::string_view(source).substr(prelude().size());
  std::string text = kHead;
  for (const auto& [name, function] : instruction_functions())
    if (has_word(kernels, name)) text += function;
  return text.append(kernels);
}

std::string row_function(const Instruction& row) {
  std::string name = "tcc_" + std::string(row.name);
  for (char& c : name)
    if (c == '.') c = '_';
  return name;
}

bool is_immediate(const Instruction& row, size_t argument) {
  switch (row.behaviour) {
    case Behaviour::kShuffle:
      return argument != 1;
    case Behaviour::kCopyWait:
    case Behaviour::kCopyWaitRead:
    case Behaviour::kWgmmaWait:
    case Behaviour::kSetMaxRegisters:
      return true;
    case Behaviour::kCompute:
      // The box is part of the tensor map.
      return static_cast<int32_t>(argument) != row.multicast_arg &&
             std::any_of(row.operands.begin(), row.operands.end(),
                         [&](const OperandSpec& o) { return is_tensor_map(row, o); });
    case Behaviour::kBarSync:
    case Behaviour::kWarpSync:
    case Behaviour::kCopyCommit:
    case Behaviour::kMbarrierInit:
    case Behaviour::kMbarrierArrive:
    case Behaviour::kMbarrierExpectTx:
    case Behaviour::kMbarrierWait:
    case Behaviour::kFenceProxyAsync:
    case Behaviour::kFenceMbarrierInit:
    case Behaviour::kWgmmaFence:
    case Behaviour::kWgmmaCommit:
    case Behaviour::kClusterSync:
    case Behaviour::kThreadFence:
    case Behaviour::kAtomicAdd:
    case Behaviour::kTileConfig:
      return false;
  }
  return false;
}

bool is_tensor_map(const Instruction& row, const OperandSpec& spec) {
  return row.behaviour == Behaviour::kCompute && row.proxy == Proxy::kAsync && spec.scope == Scope::kGlobal;
}

bool is_matrix(const Instruction& row, const OperandSpec& spec) {
  return row.completion == Completion::kWgmmaGroup && in_shared(spec.scope);
}

bool has_pitch(const Instruction& row, const OperandSpec& spec) {
  return row.participants == Participants::kWarp && row.proxy == Proxy::kGeneric && spec.scope == Scope::kShared &&
         spec.rank == 2 && spec.layout.empty();
}

const char* argument_type(const Instruction& row) {
  return row.behaviour == Behaviour::kWarpSync ? "unsigned" : "int";
}

int64_t registers_per_lane(const OperandSpec& spec) {
  if (spec.layout.empty()) {
    int64_t n = 1;
    for (int32_t i = 0; i < spec.rank; ++i) n *= spec.tile[i];
    return n;
  }
  Arena arena;
  auto layout = parse_layout(arena, spec.layout);
  TCC_CHECK(layout.has_value(), "operand layout '{}'", spec.layout);
  if (spec.opaque) return (*layout)->size / 32;
  int64_t n = 1;
  for (const Digit& d : (*layout)->digits)
    if (d.place == Place::kRegister) n *= d.extent;
  return n;
}

std::string operand_pointer(const OperandSpec& spec) {
  return (spec.access == Access::kRead ? "const " : "") + memory_type(spec.type) + "*";
}

}  // namespace tcc::codegen::cuda
