// The executor for GPUs over a driver that is not one.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "rt/fake_cuda_driver.h"
#include "tcc/rt/cuda_driver.h"
#include "tcc/rt/rt.h"

// Private to rt, whose own headers are C.
extern "C" const tcc_rt_gpu_code* tcc_rt_cuda_choose_code(const tcc_rt_gpu* gpu, uint32_t capability);

namespace {

constexpr int64_t kCount = 40;

constexpr char kAddImage[] =
    ".version 8.0\n.target sm_80\n.visible .entry add(.param .u64 x, .param .u64 w, .param .u64 y)\n{ ret; }\n";
constexpr char kReluImages[] =
    ".version 8.0\n.target sm_80\n.visible .entry halve(.param .u64 x, .param .u64 y)\n{ ret; }\n"
    ".visible .entry relu(.param .u64 x, .param .u64 y)\n{ ret; }\n";

float* pointer(void** parameters, int index) {
  return *static_cast<float**>(parameters[index]);
}
void add(void** p) {
  for (int64_t i = 0; i < kCount; ++i) pointer(p, 2)[i] = pointer(p, 0)[i] + pointer(p, 1)[i % 5];
}
void halve(void** p) {
  for (int64_t i = 0; i < kCount; ++i) pointer(p, 1)[i] = pointer(p, 0)[i] / 2;
}
void relu(void** p) {
  for (int64_t i = 0; i < kCount; ++i) pointer(p, 1)[i] = std::max(0.0f, pointer(p, 1)[i]);
}

alignas(64) const float kWeights[16 + 5] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, -2, 3, -4, 0.5f};
const int64_t kDims[] = {kCount};

// y = relu((x + w) / 2) in two steps through the workspace; the second has two launches.
struct Model {
  tcc_rt_gpu_launch launches[3] = {{"add", {2, 1, 1}, {32, 1, 1}, 0, 0},
                                   {"halve", {1, 1, 1}, {64, 1, 1}, 60000, 0},
                                   {"relu", {1, 1, 1}, {64, 1, 1}, 0, TCC_RT_GPU_COOPERATIVE}};
  tcc_rt_gpu_kernel kernels[2] = {{kAddImage, sizeof kAddImage, &launches[0], 1, 3},
                                  {kReluImages, sizeof kReluImages, &launches[1], 2, 2}};
  tcc_rt_arg args[5] = {{TCC_RT_ARG_INPUT, 0, 0},
                        {TCC_RT_ARG_WEIGHT, 0, 64},
                        {TCC_RT_ARG_WORKSPACE, 0, 128},
                        {TCC_RT_ARG_WORKSPACE, 0, 128},
                        {TCC_RT_ARG_OUTPUT, 0, 0}};
  tcc_rt_gpu_step steps[2] = {{0, 0, &args[0]}, {1, 0, &args[3]}};
  tcc_rt_gpu_code code{80, TCC_RT_GPU_PTX, 2, 2, kernels, steps, "sm_80"};
  tcc_rt_gpu gpu{&tcc_rt_cuda_ops, &code, 1, 13000};
  tcc_tensor_info input{"data", kDims, kCount * 4, {TCC_DTYPE_FLOAT, 32, 1}, 1, 16, 0};
  tcc_tensor_info output{"result", kDims, kCount * 4, {TCC_DTYPE_FLOAT, 32, 1}, 1, 0, 0};
  tcc_rt_plan plan{};
  Model() {
    plan.rt_version = TCC_RT_VERSION;
    plan.num_steps = 2;
    plan.weights = kWeights;
    plan.metadata_json = "{}";
    plan.metadata_bytes = 2;
    plan.self_test_seed = 7;
    plan.info = {sizeof(tcc_model_info), 0, "m", &input, &output, 1, 1, 128 + kCount * 4, 64, sizeof kWeights, 0,
                 TCC_DEVICE_CUDA,        0};
    plan.gpu = &gpu;
  }
  Model(const Model&) = delete;

  tcc_status create(tcc_context** context, uint32_t flags = 0, int32_t device = 0) const {
    tcc_create_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    options.device = device;
    options.cuda_driver = FakeCuda::path();
    return tcc_rt_context_create(&plan, &options, context);
  }
};

FakeCuda& start_with_kernels(const char* settings = "") {
  FakeCuda& fake = FakeCuda::start(settings);
  fake.register_kernel("add", add);
  fake.register_kernel("halve", halve);
  fake.register_kernel("relu", relu);
  return fake;
}

const tcc_cuda_driver& driver() {
  const tcc_cuda_driver* driver = nullptr;
  REQUIRE(tcc_cuda_driver_open(FakeCuda::path(), &driver) == TCC_OK);
  return *driver;
}

struct Context {
  tcc_context* context = nullptr;
  explicit Context(const Model& model, uint32_t flags = 0) {
    const tcc_status status = model.create(&context, flags);
    INFO(tcc_rt_last_error());
    REQUIRE(status == TCC_OK);
  }
  ~Context() { tcc_rt_context_destroy(context); }
};

std::vector<float> some_input() {
  std::vector<float> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 11 - 5);
  return x;
}
std::vector<float> expected(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = std::max(0.0f, (x[i] + kWeights[16 + i % 5]) / 2);
  return y;
}

tcc_dltensor view(void* data, int32_t device_type, int32_t device = 0) {
  return {data, {device_type, device}, 1, {TCC_DTYPE_FLOAT, 32, 1}, const_cast<int64_t*>(kDims), nullptr, 0};
}

// Tensors on the fake device, the user's CUDA context current meanwhile.
struct OnDevice {
  const tcc_cuda_driver& cuda = driver();
  tcc_cu_context context = nullptr;
  tcc_cu_stream stream = nullptr;
  tcc_cu_ptr x = 0, y = 0;
  OnDevice() {
    REQUIRE(cuda.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(cuda.cuCtxSetCurrent(context) == 0);
    REQUIRE(cuda.cuStreamCreate(&stream, TCC_CU_STREAM_NON_BLOCKING) == 0);
    REQUIRE(cuda.cuMemAlloc(&x, kCount * 4) == 0);
    REQUIRE(cuda.cuMemAlloc(&y, kCount * 4) == 0);
    REQUIRE(cuda.cuMemcpyHtoD(x, some_input().data(), kCount * 4) == 0);
  }
  ~OnDevice() {
    cuda.cuMemFree(x);
    cuda.cuMemFree(y);
    cuda.cuStreamDestroy(stream);
    cuda.cuCtxSetCurrent(nullptr);
    cuda.cuDevicePrimaryCtxRelease(0);
  }
  tcc_dltensor input() const { return view(reinterpret_cast<void*>(x), TCC_DEVICE_CUDA); }
  tcc_dltensor output() const { return view(reinterpret_cast<void*>(y), TCC_DEVICE_CUDA); }
  std::vector<float> result() const {
    std::vector<float> values(kCount);
    REQUIRE(cuda.cuMemcpyDtoH(values.data(), y, kCount * 4) == 0);
    return values;
  }
  tcc_status run(tcc_context* c) const {
    const tcc_dltensor in = input(), out = output();
    return tcc_rt_run_plan(c, &in, 1, &out, 1, nullptr, 0, stream);
  }
};

void require_error(tcc_status status, tcc_status wanted, const std::string& text) {
  INFO(tcc_rt_last_error());
  REQUIRE(status == wanted);
  REQUIRE(std::string(tcc_rt_last_error()).find(text) != std::string::npos);
}

}  // namespace

TEST_CASE("a plan for GPUs enqueues its launches and nothing else") {
  FakeCuda& fake = start_with_kernels();
  const Model model;
  {
    OnDevice memory;
    {
      Context c(model);
      fake.clear();
      REQUIRE(memory.run(c.context) == TCC_OK);
      INFO(fake.log());
      REQUIRE(std::string(fake.log()) ==
              "cuCtxGetCurrent cuLaunchKernel add cuLaunchKernel halve cuLaunchCooperativeKernel relu");
      // Nobody has waited yet: the output is as the allocation left it.
      unsigned char first;
      std::memcpy(&first, reinterpret_cast<void*>(memory.y), 1);
      REQUIRE(first == 0xcd);
      REQUIRE(memory.cuda.cuStreamSynchronize(memory.stream) == 0);
      REQUIRE(memory.result() == expected(some_input()));
    }
    REQUIRE(std::string(fake.violation()).empty());
  }
  REQUIRE(fake.live() == 0);
}

TEST_CASE("a run is captured in a graph, and the graph runs on new data") {
  start_with_kernels();
  const Model model;
  OnDevice memory;
  Context c(model);
  tcc_cu_graph graph = nullptr;
  tcc_cu_graph_exec exec = nullptr;
  REQUIRE(memory.cuda.cuStreamBeginCapture(memory.stream, TCC_CU_CAPTURE_THREAD_LOCAL) == 0);
  REQUIRE(memory.run(c.context) == TCC_OK);  // the fake refuses what may wait or allocate meanwhile
  REQUIRE(memory.cuda.cuStreamEndCapture(memory.stream, &graph) == 0);
  REQUIRE(memory.cuda.cuGraphInstantiate(&exec, graph, 0) == 0);
  std::vector<float> x = some_input();
  x[0] = 100;
  REQUIRE(memory.cuda.cuMemcpyHtoD(memory.x, x.data(), kCount * 4) == 0);
  REQUIRE(memory.cuda.cuGraphLaunch(exec, memory.stream) == 0);
  REQUIRE(memory.cuda.cuStreamSynchronize(memory.stream) == 0);
  REQUIRE(memory.result() == expected(x));
  memory.cuda.cuGraphExecDestroy(exec);
  memory.cuda.cuGraphDestroy(graph);
}

TEST_CASE("contexts share code and weights, which go with the last one") {
  FakeCuda& fake = start_with_kernels();
  const Model model, other;
  {
    Context a(model);
    const int loaded = fake.calls("cuModuleLoadData");
    REQUIRE(loaded == 2);
    {
      Context b(model);
      REQUIRE(fake.calls("cuModuleLoadData") == loaded);
      Context c(other);
      REQUIRE(fake.calls("cuModuleLoadData") == 2 * loaded);
      REQUIRE(fake.calls("cuModuleUnload") == 0);
    }
    REQUIRE(fake.calls("cuModuleUnload") == loaded);
    tcc_context_info info{};
    info.struct_size = sizeof info;
    REQUIRE(tcc_rt_context_info(a.context, &info) == TCC_OK);
    REQUIRE(info.capability == 80);
    REQUIRE(info.code_architecture == 80);
    REQUIRE(info.jit == 1);
    REQUIRE(info.device_weight_bytes == sizeof kWeights);
    REQUIRE(info.device_context_bytes == 128 + kCount * 4);
  }
  REQUIRE(fake.live() == 0);
  tcc_cu_context current = nullptr;
  REQUIRE(driver().cuCtxGetCurrent(&current) == 0);
  REQUIRE(current == nullptr);  // as it was before
}

TEST_CASE("tensors in host memory are copied where the context has room for them") {
  FakeCuda& fake = start_with_kernels();
  const Model model;
  std::vector<float> x = some_input(), y(kCount, -1.0f);
  const tcc_dltensor in = view(x.data(), TCC_DEVICE_CPU), out = view(y.data(), TCC_DEVICE_CPU);
  {
    Context c(model, TCC_CREATE_HOST_TENSORS);
    REQUIRE(tcc_rt_run_plan(c.context, &in, 1, &out, 1, nullptr, 0, nullptr) == TCC_OK);
    REQUIRE(y == expected(x));
    REQUIRE(tcc_rt_self_test(c.context) == TCC_OK);
    uint64_t ns[2] = {};
    REQUIRE(tcc_rt_run_plan_timed(c.context, &in, 1, &out, 1, nullptr, 0, ns) == TCC_OK);
    REQUIRE(ns[0] == 2020);  // by the fake's clock: 2 us a launch and 10 ns a block
    REQUIRE(ns[1] == 4020);
  }
  {
    Context c(model);
    require_error(tcc_rt_run_plan(c.context, &in, 1, &out, 1, nullptr, 0, nullptr), TCC_ERROR_TENSOR,
                  "TCC_CREATE_HOST_TENSORS");
    const int before = fake.live();
    REQUIRE(tcc_rt_self_test(c.context) == TCC_OK);  // which makes room for itself
    REQUIRE(fake.live() == before);
  }
  REQUIRE(fake.live() == 0);
  REQUIRE(std::string(fake.violation()).empty());
}

TEST_CASE("a caller's workspace is used, and a context may have none") {
  FakeCuda& fake = start_with_kernels();
  const Model model;
  OnDevice memory;
  Context c(model, TCC_CREATE_NO_WORKSPACE);
  require_error(memory.run(c.context), TCC_ERROR_WORKSPACE, "without a workspace");
  REQUIRE(tcc_rt_self_test(c.context) == TCC_OK);
  require_error(memory.run(c.context), TCC_ERROR_WORKSPACE, "without a workspace");
  tcc_cu_ptr workspace = 0;
  REQUIRE(memory.cuda.cuMemAlloc(&workspace, model.plan.info.workspace_bytes) == 0);
  const tcc_dltensor in = memory.input(), out = memory.output();
  REQUIRE(tcc_rt_run_plan(c.context, &in, 1, &out, 1, reinterpret_cast<void*>(workspace),
                          model.plan.info.workspace_bytes, memory.stream) == TCC_OK);
  REQUIRE(memory.cuda.cuStreamSynchronize(memory.stream) == 0);
  REQUIRE(memory.result() == expected(some_input()));
  REQUIRE(memory.cuda.cuMemFree(workspace) == 0);
  REQUIRE(std::string(fake.violation()).empty());
}

TEST_CASE("tensors that a GPU model cannot take are refused with what to do", "[errors]") {
  start_with_kernels("devices=2");
  const Model model;
  OnDevice memory;
  Context c(model);
  auto run = [&](tcc_dltensor in, tcc_dltensor out) {
    return tcc_rt_run_plan(c.context, &in, 1, &out, 1, nullptr, 0, memory.stream);
  };
  tcc_dltensor in = memory.input();
  in.device.device_id = 1;
  require_error(run(in, memory.output()), TCC_ERROR_TENSOR, "on CUDA device 1, the context on device 0");
  in.device = {10, 0};
  require_error(run(in, memory.output()), TCC_ERROR_TENSOR, "device type is 10");
  in = memory.input();
  in.byte_offset = 4;
  require_error(run(in, memory.output()), TCC_ERROR_TENSOR, "not aligned to the 16 bytes");
  tcc_dltensor out = memory.output();
  out.data = in.data;
  require_error(run(memory.input(), out), TCC_ERROR_TENSOR, "shares memory");
  in = memory.input();
  in.device.device_type = TCC_DEVICE_CUDA_MANAGED;
  REQUIRE(run(in, memory.output()) == TCC_OK);
}

TEST_CASE("the context is made on the device that is asked for") {
  FakeCuda& fake = start_with_kernels("devices=2");
  const Model model;
  tcc_context* context = nullptr;
  REQUIRE(model.create(&context, TCC_CREATE_ON_DEVICE, 1) == TCC_OK);
  tcc_context_info info{};
  info.struct_size = sizeof info;
  REQUIRE(tcc_rt_context_info(context, &info) == TCC_OK);
  REQUIRE(info.device == 1);
  tcc_rt_context_destroy(context);
  require_error(model.create(&context, TCC_CREATE_ON_DEVICE, 2), TCC_ERROR_DEVICE, "no CUDA device 2");
  require_error(model.create(&context, TCC_CREATE_KEEP_DENORMALS, 0), TCC_ERROR_INVALID_ARGUMENT, "on a CPU");
  REQUIRE(context == nullptr);
  // Without being asked, where the caller is.
  tcc_cu_context second = nullptr;
  REQUIRE(driver().cuDevicePrimaryCtxRetain(&second, 1) == 0);
  REQUIRE(driver().cuCtxSetCurrent(second) == 0);
  REQUIRE(model.create(&context) == TCC_OK);
  REQUIRE(tcc_rt_context_info(context, &info) == TCC_OK);
  REQUIRE(info.device == 1);
  tcc_cu_context current = nullptr;
  REQUIRE(driver().cuCtxGetCurrent(&current) == 0);
  REQUIRE(current == second);
  tcc_rt_context_destroy(context);
  driver().cuCtxSetCurrent(nullptr);
  driver().cuDevicePrimaryCtxRelease(1);
  REQUIRE(fake.live() == 0);
}

TEST_CASE("failures of a driver or device come with advice", "[errors]") {
  const Model model;
  tcc_context* context = nullptr;
  auto refuse = [&](const char* settings, tcc_status status, const std::string& text) {
    FakeCuda& fake = FakeCuda::start(settings);
    INFO(settings);
    require_error(model.create(&context), status, text);
    REQUIRE(context == nullptr);
    REQUIRE(fake.live() == 0);  // nothing is left behind
    REQUIRE(std::string(fake.violation()).empty());
  };
  refuse("devices=0", TCC_ERROR_DEVICE, "no CUDA device 0: the driver shows 0");
  refuse("arch=75", TCC_ERROR_DEVICE, "build it with --target t4");
  refuse("arch=75", TCC_ERROR_DEVICE, "only sm_80 (PTX)");
  refuse("driver=12040", TCC_ERROR_DEVICE, "the NVIDIA driver supports CUDA 12.4");
  refuse("memory=16", TCC_ERROR_RESOURCES, "allocating 84 bytes for the weights");
  refuse("memory=100", TCC_ERROR_RESOURCES, "allocating 288 bytes for the workspace");
  refuse("fail=cuModuleLoadData:2", TCC_ERROR_RESOURCES, "free device memory");
  refuse("fail=cuModuleGetFunction:500:2", TCC_ERROR_DEVICE, "halve");
  refuse("fail=cuFuncSetAttribute:1", TCC_ERROR_DEVICE, "dynamic shared memory");
  refuse("fail=cuMemcpyHtoDAsync_v2:999", TCC_ERROR_DEVICE, "copying the weights");
  refuse("fail=cuDevicePrimaryCtxRetain:46", TCC_ERROR_DEVICE, "another process has the device");
}

TEST_CASE("a launch that fails is named, and the rest of the run is left out", "[errors]") {
  FakeCuda& fake = start_with_kernels("fail=cuLaunchKernel:701:4");
  const Model model;
  OnDevice memory;
  Context c(model);
  REQUIRE(memory.run(c.context) == TCC_OK);
  require_error(memory.run(c.context), TCC_ERROR_DEVICE, "halve: ");  // the fourth launch
  require_error(memory.run(c.context), TCC_ERROR_DEVICE, "does not fit this device");
  REQUIRE(fake.calls("cuLaunchCooperativeKernel") == 1);
}

TEST_CASE("an error that loses the CUDA context is told by every later run", "[errors]") {
  FakeCuda& fake = start_with_kernels("fail=cuLaunchCooperativeKernel:719");
  const Model model;
  {
    OnDevice memory;
    {
      Context c(model);
      require_error(memory.run(c.context), TCC_ERROR_DEVICE, "relu: ");
      require_error(memory.run(c.context), TCC_ERROR_DEVICE, "start the process again");
      require_error(tcc_rt_self_test(c.context), TCC_ERROR_DEVICE, "lost");
    }
    tcc_context* context = nullptr;
    require_error(model.create(&context), TCC_ERROR_DEVICE, "lost");
  }
  FakeCuda::start();
  REQUIRE(fake.live() == 0);
}

TEST_CASE("code is chosen by CUDA's rules of compatibility") {
  auto code = [](uint32_t architecture, uint32_t flags) {
    return tcc_rt_gpu_code{architecture, flags, 0, 0, nullptr, nullptr, ""};
  };
  const std::vector<tcc_rt_gpu_code> codes = {code(80, 0), code(90, TCC_RT_GPU_SPECIFIC), code(86, 0), code(90, 0),
                                              code(80, TCC_RT_GPU_PTX)};
  const tcc_rt_gpu gpu{&tcc_rt_cuda_ops, codes.data(), 5, 13000};
  auto choice = [&](const tcc_rt_gpu& from, uint32_t capability) -> int {
    const tcc_rt_gpu_code* chosen = tcc_rt_cuda_choose_code(&from, capability);
    return chosen == nullptr ? -1 : static_cast<int>(chosen - from.codes);
  };
  REQUIRE(choice(gpu, 75) == -1);  // older than everything
  REQUIRE(choice(gpu, 80) == 0);   // its own
  REQUIRE(choice(gpu, 86) == 2);   // its own rather than that of 8.0
  REQUIRE(choice(gpu, 89) == 2);   // an older minor revision
  REQUIRE(choice(gpu, 90) == 1);   // the specific one
  REQUIRE(choice(gpu, 100) == 4);  // nothing but PTX
  const tcc_rt_gpu specific{&tcc_rt_cuda_ops, &codes[1], 1, 13000};
  REQUIRE(choice(specific, 90) == 0);
  REQUIRE(choice(specific, 100) == -1);
  const tcc_rt_gpu_code only_ptx = code(90, TCC_RT_GPU_PTX | TCC_RT_GPU_SPECIFIC);
  const tcc_rt_gpu specific_ptx{&tcc_rt_cuda_ops, &only_ptx, 1, 13000};
  REQUIRE(choice(specific_ptx, 100) == -1);
}

TEST_CASE("damaged plans for GPUs are refused", "[errors]") {
  FakeCuda::start();
  tcc_context* context = nullptr;
  auto refuse = [&](auto&& damage, const std::string& text) {
    Model model;
    damage(model);
    require_error(model.create(&context), TCC_ERROR_INTERNAL, text);
  };
  refuse([](Model& m) { m.gpu.num_codes = 0; }, "code for no GPU");
  refuse([](Model& m) { m.code.num_steps = 1; }, "1 steps of 2");
  refuse([](Model& m) { m.steps[1].kernel = 2; }, "no kernel");
  refuse([](Model& m) { m.launches[2].block[1] = 17; }, "impossible launch");
  refuse([](Model& m) { m.launches[0].grid[2] = 0; }, "impossible launch");
  refuse([](Model& m) { m.args[1].offset = 1000; }, "out of bounds");
  refuse([](Model& m) { m.input.alignment = 24; }, "power of two");
}

TEST_CASE("the driver's table matches the driver's functions", "[unit]") {
  FakeCuda::start();
  const tcc_cuda_driver& cuda = driver();
#define TCC_PRESENT(member, symbol, parameters) REQUIRE(cuda.member != nullptr);
  TCC_CUDA_DRIVER_FUNCTIONS(TCC_PRESENT)
  TCC_CUDA_GRAPH_FUNCTIONS(TCC_PRESENT)
#undef TCC_PRESENT
}

TEST_CASE("a forked child makes no call of the driver", "[errors]") {
  FakeCuda& fake = start_with_kernels();
  const Model model;
  OnDevice memory;
  Context c(model);
  fake.clear();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(10);
    bool right = memory.run(c.context) == TCC_ERROR_INVALID_ARGUMENT;
    right = right && tcc_rt_self_test(c.context) == TCC_ERROR_INVALID_ARGUMENT;
    tcc_rt_context_destroy(c.context);
    _exit(right && std::string(fake.log()).empty() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  REQUIRE(memory.run(c.context) == TCC_OK);
}

TEST_CASE("two threads make contexts of one model at once") {
  FakeCuda& fake = start_with_kernels();
  const Model model;
  std::vector<float> wanted = expected(some_input());
  std::vector<int> wrong(2, 0);
  {
    Context keep(model, TCC_CREATE_HOST_TENSORS);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 20; ++round) {
          tcc_context* context = nullptr;
          if (model.create(&context) != TCC_OK) ++wrong[t];
          tcc_rt_context_destroy(context);
        }
      });
    for (std::thread& t : threads) t.join();
    REQUIRE(fake.calls("cuModuleLoadData") == 2);
  }
  REQUIRE(wrong == std::vector<int>{0, 0});
}
