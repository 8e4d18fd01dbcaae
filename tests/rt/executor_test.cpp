#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tcc/rt/rt.h"

namespace {

constexpr int64_t kRows = 6, kColumns = 5;

// y = relu(x + bias), bias along columns, in two steps through the workspace.
void add_bias(void* const* b, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      static_cast<float*>(b[2])[r * kColumns + c] =
          static_cast<const float*>(b[0])[r * kColumns + c] + static_cast<const float*>(b[1])[c];
    }
  }
}
void relu(void* const* b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    static_cast<float*>(b[1])[i] = std::max(0.0f, static_cast<const float*>(b[0])[i]);
  }
}
void write_constant(void* const* b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = 3;
}
void write_nan(void* const* b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = i % 2 == 0 ? NAN : INFINITY;
}
void skip_last(void* const* b, int64_t begin, int64_t end) {
  relu(b, begin, std::min(end, kRows * kColumns - 1));
}
void count_runs(void* const* b, int64_t begin, int64_t end) {
  static float runs = 0;
  runs += 1;
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = runs + static_cast<float>(i);
}

// To every element: how many CPUs the thread that computes it may use.
void count_cpus(void* const* b, int64_t begin, int64_t end) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = static_cast<float>(CPU_COUNT(&set));
}

alignas(64) const float kBias[16 + kColumns] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, -2, 3, -4, 0.5f};
const int64_t kDims[] = {kRows, kColumns};

// A two-step model whose parts a test may change before it makes contexts.
struct Model {
  tcc_rt_launch launches[2] = {{add_bias, kRows}, {relu, kRows* kColumns}};
  tcc_rt_kernel kernels[2] = {{&launches[0], 1, 3}, {&launches[1], 1, 2}};
  tcc_rt_arg args[5] = {{TCC_RT_ARG_INPUT, 0, 0},
                        {TCC_RT_ARG_WEIGHT, 0, 64},
                        {TCC_RT_ARG_WORKSPACE, 0, 128},
                        {TCC_RT_ARG_WORKSPACE, 0, 128},
                        {TCC_RT_ARG_OUTPUT, 0, 0}};
  tcc_rt_step steps[2] = {{&kernels[0], &args[0]}, {&kernels[1], &args[3]}};
  tcc_tensor_info input{"data", kDims, kRows* kColumns * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, {}};
  tcc_tensor_info output{"result", kDims, kRows* kColumns * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, {}};
  tcc_rt_plan plan{TCC_RT_VERSION, 2, steps, kBias, "{}", 2, 7, 0.0, {}};
  Model() {
    plan.info = {sizeof(tcc_model_info),     0,  "m",          &input, &output, 1, 1,
                 128 + kRows * kColumns * 4, 64, sizeof kBias, 0};
  }
  Model(const Model&) = delete;
};

struct Context {
  tcc_context* context = nullptr;
  explicit Context(const Model& model, int32_t threads = 2, uint32_t flags = 0) {
    const tcc_create_options options{sizeof options, threads, 0, flags};
    const tcc_status status = tcc_rt_context_create(&model.plan, &options, &context);
    INFO(tcc_rt_last_error());
    REQUIRE(status == TCC_OK);
  }
  ~Context() { tcc_rt_context_destroy(context); }
};

struct Tensor {
  std::vector<float> values = std::vector<float>(kRows * kColumns, -1.0f);
  std::vector<int64_t> shape{kRows, kColumns}, strides;
  tcc_dltensor view{};
  Tensor() {
    view.data = values.data();
    view.device = {TCC_DEVICE_CPU, 0};
    view.ndim = 2;
    view.dtype = {TCC_DTYPE_FLOAT, 32, 1};
    view.shape = shape.data();
  }
};

tcc_status run(const Context& c, const Tensor& in, const Tensor& out, void* workspace = nullptr, uint64_t bytes = 0) {
  return tcc_rt_run_plan(c.context, &in.view, 1, &out.view, 1, workspace, bytes, nullptr);
}

std::vector<float> expected(const Tensor& in) {
  std::vector<float> result(in.values.size());
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = std::max(0.0f, in.values[i] + kBias[16 + static_cast<int64_t>(i) % kColumns]);
  }
  return result;
}

void require_error(tcc_status status, tcc_status wanted, const std::string& text) {
  INFO(tcc_rt_last_error());
  REQUIRE(status == wanted);
  REQUIRE(std::string(tcc_rt_last_error()).find(text) != std::string::npos);
}

// What `body` returns in a forked child; -1 where the child hangs or dies.
template <class F>
int in_child(F&& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(10);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a plan runs its steps in order", "[unit]") {
  Model model;
  for (int32_t threads : {1, 2, 5}) {
    Context context(model, threads);
    Tensor in, out;
    for (size_t i = 0; i < in.values.size(); ++i) in.values[i] = static_cast<float>(i) - 12;
    REQUIRE(run(context, in, out) == TCC_OK);
    REQUIRE(out.values == expected(in));
    uint64_t times[2] = {0, 0};
    REQUIRE(tcc_rt_run_plan_timed(context.context, &in.view, 1, &out.view, 1, nullptr, 0, times) == TCC_OK);
    REQUIRE(times[0] > 0);
    REQUIRE(times[1] > 0);
    tcc_context_info info{sizeof info, 0, 0, 0};
    REQUIRE(tcc_rt_context_info(context.context, &info) == TCC_OK);
    REQUIRE(info.threads == threads);
    REQUIRE(info.pinned_threads == 0);
  }
}

TEST_CASE("byte offsets, explicit strides and unaligned bases are taken", "[unit]") {
  Model model;
  Context context(model);
  Tensor in, out;
  std::vector<float> shifted(kRows * kColumns + 1, 2.0f);
  shifted[0] = 1e9f;
  in.values.assign(in.values.size(), 2.0f);
  in.view.data = shifted.data();
  in.view.byte_offset = 4;
  int64_t strides[] = {kColumns, 1};
  in.view.strides = strides;
  REQUIRE(run(context, in, out) == TCC_OK);
  REQUIRE(out.values == expected(in));
}

TEST_CASE("wrong tensors are refused with what to do", "[unit][errors]") {
  Model model;
  Context context(model);
  Tensor in, out;
  SECTION("dtype") {
    in.view.dtype = {TCC_DTYPE_FLOAT, 64, 1};
    require_error(run(context, in, out), TCC_ERROR_TENSOR,
                  "input 0 'data': element type is float64, the model needs float32");
  }
  SECTION("lanes") {
    in.view.dtype.lanes = 4;
    require_error(run(context, in, out), TCC_ERROR_TENSOR, "float32 in vectors of 4");
  }
  SECTION("shape") {
    out.shape = {kRows, kColumns + 1};
    require_error(run(context, in, out), TCC_ERROR_TENSOR,
                  "output 0 'result': shape is [6, 6], the model was built for [6, 5]");
  }
  SECTION("rank") {
    in.view.ndim = 1;
    require_error(run(context, in, out), TCC_ERROR_TENSOR, "shape is [6]");
  }
  SECTION("strides") {
    int64_t strides[] = {1, kRows};
    in.view.strides = strides;
    require_error(run(context, in, out), TCC_ERROR_TENSOR, "strides are [1, 6]");
  }
  SECTION("device") {
    in.view.device = {TCC_DEVICE_CUDA, 0};
    require_error(run(context, in, out), TCC_ERROR_TENSOR, "device type is 2");
  }
  SECTION("null data") {
    in.view.data = nullptr;
    require_error(run(context, in, out), TCC_ERROR_TENSOR, "data is NULL");
  }
  SECTION("alignment") {
    in.view.byte_offset = 2;
    require_error(run(context, in, out), TCC_ERROR_TENSOR, "not aligned to its element size of 4");
  }
  SECTION("missing") {
    require_error(tcc_rt_run_plan(context.context, nullptr, 0, &out.view, 1, nullptr, 0, nullptr), TCC_ERROR_TENSOR,
                  "0 input tensors given, the model has 1");
  }
  SECTION("aliased") {
    out.view.data = in.values.data();
    require_error(run(context, in, out), TCC_ERROR_TENSOR, "shares memory with 'data'");
  }
  // A refusal leaves the context usable.
  Tensor good_in, good_out;
  REQUIRE(run(context, good_in, good_out) == TCC_OK);
  REQUIRE(good_out.values == expected(good_in));
}

TEST_CASE("the caller's workspace", "[unit]") {
  Model model;
  Context context(model, 2, TCC_CREATE_NO_WORKSPACE);
  Tensor in, out;
  const uint64_t bytes = model.plan.info.workspace_bytes;
  std::unique_ptr<char, decltype(&free)> memory(static_cast<char*>(aligned_alloc(64, 1024)), &free);
  require_error(run(context, in, out), TCC_ERROR_WORKSPACE, "made without a workspace");
  require_error(run(context, in, out, memory.get(), bytes - 1), TCC_ERROR_WORKSPACE, "aligned to 64");
  require_error(run(context, in, out, memory.get() + 4, bytes), TCC_ERROR_WORKSPACE, "aligned to 64");
  REQUIRE(run(context, in, out, memory.get(), bytes) == TCC_OK);
  REQUIRE(out.values == expected(in));
  out.view.data = memory.get();
  require_error(run(context, in, out, memory.get(), bytes), TCC_ERROR_TENSOR, "the workspace");
  REQUIRE(tcc_rt_self_test(context.context) == TCC_OK);
}

TEST_CASE("damaged plans and options are refused at create", "[unit][errors]") {
  Model model;
  tcc_context* context = nullptr;
  tcc_create_options options{sizeof options, 1, 0, 0};
  auto create = [&] { return tcc_rt_context_create(&model.plan, &options, &context); };
  SECTION("version") {
    model.plan.rt_version = 99;
    require_error(create(), TCC_ERROR_INTERNAL, "version 99");
  }
  SECTION("argument out of bounds") {
    model.args[1].offset = 1 << 20;
    require_error(create(), TCC_ERROR_INTERNAL, "step 0 has a buffer out of bounds");
  }
  SECTION("unknown argument kind") {
    model.args[4].kind = 4;
    require_error(create(), TCC_ERROR_INTERNAL, "step 1 has a buffer out of bounds");
  }
  SECTION("tensor bytes") {
    model.input.bytes += 4;
    require_error(create(), TCC_ERROR_INTERNAL, "input 0 has 124 bytes, its shape says 120");
  }
  SECTION("weights") {
    model.plan.weights = nullptr;
    require_error(create(), TCC_ERROR_INTERNAL, "weights are missing");
  }
  SECTION("cpu feature") {
    model.plan.info.cpu_features = 1ull << 63;
    require_error(create(), TCC_ERROR_UNSUPPORTED_CPU, "lacks");
  }
  SECTION("flags") {
    options.flags = 0x80;
    require_error(create(), TCC_ERROR_INVALID_ARGUMENT, "0x80");
  }
  SECTION("struct size") {
    options.struct_size = 0;
    require_error(create(), TCC_ERROR_INVALID_ARGUMENT, "sizeof(tcc_create_options)");
  }
  SECTION("threads") {
    options.threads = -3;
    require_error(create(), TCC_ERROR_INVALID_ARGUMENT, "threads is -3");
  }
  REQUIRE(context == nullptr);
}

TEST_CASE("CPU features are those the compiler sees", "[unit]") {
  const uint64_t mask = tcc_rt_cpu_features();
  REQUIRE(tcc_rt_cpu_feature("no-such-feature") == 0);
#if defined(__x86_64__)
  REQUIRE(((mask & tcc_rt_cpu_feature("avx2")) != 0) == (__builtin_cpu_supports("avx2") != 0));
  REQUIRE(((mask & tcc_rt_cpu_feature("fma")) != 0) == (__builtin_cpu_supports("fma") != 0));
  REQUIRE(((mask & tcc_rt_cpu_feature("avx512f")) != 0) == (__builtin_cpu_supports("avx512f") != 0));
  REQUIRE(((mask & tcc_rt_cpu_feature("avx512vnni")) != 0) == (__builtin_cpu_supports("avx512vnni") != 0));
  REQUIRE(((mask & tcc_rt_cpu_feature("bmi2")) != 0) == (__builtin_cpu_supports("bmi2") != 0));
#endif
  REQUIRE(tcc_rt_require_cpu(0) == TCC_OK);
}

TEST_CASE("two contexts run one model in two threads", "[unit]") {
  Model model;
  auto work = [&model](float start, bool* good) {
    tcc_context* context = nullptr;
    const tcc_create_options options{sizeof options, 2, 0, 0};
    if (tcc_rt_context_create(&model.plan, &options, &context) != TCC_OK) return;
    bool all = true;
    Tensor in, out;
    for (int i = 0; i < 300 && all; ++i) {
      for (size_t e = 0; e < in.values.size(); ++e)
        in.values[e] = start + static_cast<float>(i) - static_cast<float>(e);
      all = tcc_rt_run_plan(context, &in.view, 1, &out.view, 1, nullptr, 0, nullptr) == TCC_OK &&
            out.values == expected(in);
    }
    tcc_rt_context_destroy(context);
    *good = all;
  };
  bool good[2] = {false, false};
  std::thread first(work, 0.0f, &good[0]), second(work, 1000.0f, &good[1]);
  first.join();
  second.join();
  REQUIRE(good[0]);
  REQUIRE(good[1]);
}

TEST_CASE("a forked child is told that its parent made the context", "[unit][errors]") {
  Model model;
  Context context(model, 2);
  Tensor in, out;
  REQUIRE(run(context, in, out) == TCC_OK);
  CHECK(in_child([&] {
          if (run(context, in, out) != TCC_ERROR_INVALID_ARGUMENT) return 1;
          if (std::string(tcc_rt_last_error()).find("fork") == std::string::npos) return 2;
          if (tcc_rt_self_test(context.context) != TCC_ERROR_INVALID_ARGUMENT) return 3;
          tcc_rt_context_destroy(context.context);
          context.context = nullptr;
          // One of its own works.
          const tcc_create_options options{sizeof options, 2, 0, 0};
          if (tcc_rt_context_create(&model.plan, &options, &context.context) != TCC_OK) return 4;
          if (run(context, in, out) != TCC_OK || out.values != expected(in)) return 5;
          tcc_rt_context_destroy(context.context);
          return 0;
        }) == 0);
  REQUIRE(run(context, in, out) == TCC_OK);
}

TEST_CASE("with bound threads a run binds its caller as long as it lasts", "[unit]") {
  cpu_set_t before, after;
  CPU_ZERO(&before);
  CPU_ZERO(&after);
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  Model model;
  model.launches[1].fn = count_cpus;
  Context context(model, 2, TCC_CREATE_PIN_THREADS);
  Tensor in, out;
  REQUIRE(run(context, in, out) == TCC_OK);
  CHECK(out.values == std::vector<float>(out.values.size(), 1.0f));
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("last error belongs to the thread", "[unit]") {
  tcc_rt_fail(TCC_ERROR_INTERNAL, "here %d", 5);
  std::string other = "unset";
  std::thread([&other] { other = tcc_rt_last_error(); }).join();
  REQUIRE(other.empty());
  REQUIRE(std::string(tcc_rt_last_error()) == "here 5");
  for (tcc_status s = TCC_OK; s <= TCC_ERROR_INTERNAL; ++s) {
    REQUIRE(std::string(tcc_rt_status_string(s)) != "unknown status");
  }
  REQUIRE(std::string(tcc_rt_status_string(1000)) == "unknown status");
}

TEST_CASE("the self test finds results that are not sane", "[unit]") {
  Model model;
  SECTION("a sane model passes") {
    Context context(model);
    const tcc_status status = tcc_rt_self_test(context.context);
    INFO(tcc_rt_last_error());
    REQUIRE(status == TCC_OK);
  }
  SECTION("outputs that are the same everywhere, or no numbers, may be what the model says") {
    model.launches[1].fn = GENERATE(write_constant, write_nan);
    Context context(model);
    REQUIRE(tcc_rt_self_test(context.context) == TCC_OK);
  }
  SECTION("an element nobody writes") {
    model.launches[1].fn = skip_last;
    Context context(model, 1);
    require_error(tcc_rt_self_test(context.context), TCC_ERROR_SELF_TEST, "element 29 is written by no kernel");
  }
  SECTION("different from run to run") {
    model.launches[1].fn = count_runs;
    Context context(model, 1);
    require_error(tcc_rt_self_test(context.context), TCC_ERROR_SELF_TEST, "in the next");
  }
}
