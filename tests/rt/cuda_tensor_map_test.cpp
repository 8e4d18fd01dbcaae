// Tensor maps: the executor's requests to the driver, their moments, and the fake driver's refusals.
#include <cstring>
#include <vector>

#include "rt/fake_cuda_driver.h"
#include "tcc/rt/cuda_driver.h"
#include "tcc/rt/rt.h"

namespace {

constexpr int64_t kRows = 6, kColumns = 8;
const int64_t kDims[] = {kRows, kColumns};
constexpr char kImage[] =
    ".version 8.0\n.target sm_90a\n.visible .entry box(.param .u64 x, .param .u64 y, .param .align 64 .b8 a[128], "
    ".param .align 64 .b8 b[128])\n{ ret; }\n";

// y = 2 x, where the maps say that the tensors are.
void box(void** p) {
  fake_cuda_tensor_map x, y;
  std::memcpy(&x, p[2], sizeof x);
  std::memcpy(&y, p[3], sizeof y);
  for (uint64_t i = 0; i < x.dims[0] * x.dims[1]; ++i)
    static_cast<float*>(y.address)[i] = 2 * static_cast<float*>(x.address)[i];
}

struct Model {
  tcc_cuda_tensor_map maps[2] = {{{kColumns, kRows}, {kColumns * 4}, {8, 4}, 2, TCC_CUDA_TENSOR_F32, 32, 0, 0},
                                 {{kColumns, kRows}, {kColumns * 4}, {8, 6}, 2, TCC_CUDA_TENSOR_F32, 0, 1, 0}};
  tcc_rt_gpu_launch launch{"box", {1, 1, 1}, {32, 1, 1}, 0, 0, maps, 2, 0};
  tcc_rt_gpu_kernel kernel{kImage, sizeof kImage, &launch, 1, 2};
  tcc_rt_arg args[2] = {{TCC_RT_ARG_INPUT, 0, 0}, {TCC_RT_ARG_OUTPUT, 0, 0}};
  tcc_rt_gpu_step step{0, 0, args};
  tcc_rt_gpu_code code{90, TCC_RT_GPU_PTX | TCC_RT_GPU_SPECIFIC, 1, 1, &kernel, &step, "sm_90a"};
  tcc_rt_gpu gpu{&tcc_rt_cuda_ops, &code, 1, 13000};
  tcc_tensor_info input{"x", kDims, kRows* kColumns * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, 16, 0};
  tcc_tensor_info output{"y", kDims, kRows* kColumns * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, 16, 0};
  tcc_rt_plan plan{};
  Model() {
    plan.rt_version = TCC_RT_VERSION;
    plan.num_steps = 1;
    plan.metadata_json = "{}";
    plan.metadata_bytes = 2;
    plan.info = {sizeof(tcc_model_info), 0, "m", &input, &output, 1, 1, 0, 64, 0, 0, TCC_DEVICE_CUDA, 0};
    plan.gpu = &gpu;
  }
  Model(const Model&) = delete;
  tcc_status create(tcc_context** context) const {
    tcc_create_options options{};
    options.struct_size = sizeof options;
    options.cuda_driver = FakeCuda::path();
    return tcc_rt_context_create(&plan, &options, context);
  }
};

const tcc_cuda_driver& driver() {
  const tcc_cuda_driver* driver = nullptr;
  REQUIRE(tcc_cuda_driver_open(FakeCuda::path(), &driver) == TCC_OK);
  return *driver;
}

tcc_dltensor view(tcc_cu_ptr data) {
  return {reinterpret_cast<void*>(data),
          {TCC_DEVICE_CUDA, 0},
          2,
          {TCC_DTYPE_FLOAT, 32, 1},
          const_cast<int64_t*>(kDims),
          nullptr,
          0};
}

}  // namespace

TEST_CASE("tensor maps are made where a tensor moved, and go behind the addresses") {
  FakeCuda& fake = FakeCuda::start("arch=90");
  fake.register_kernel("box", box);
  const Model model;
  const tcc_cuda_driver& cuda = driver();
  tcc_context* context = nullptr;
  const tcc_status created = model.create(&context);
  INFO(tcc_rt_last_error());
  REQUIRE(created == TCC_OK);
  tcc_cu_context primary = nullptr;
  REQUIRE(cuda.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
  REQUIRE(cuda.cuCtxSetCurrent(primary) == 0);
  tcc_cu_ptr x = 0, y = 0, z = 0;
  for (tcc_cu_ptr* p : {&x, &y, &z}) REQUIRE(cuda.cuMemAlloc(p, kRows * kColumns * 4) == 0);
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 1;
  REQUIRE(cuda.cuMemcpyHtoD(x, values.data(), values.size() * 4) == 0);
  const auto run = [&](tcc_cu_ptr to) {
    const tcc_dltensor in = view(x), out = view(to);
    fake.clear();
    const tcc_status status = tcc_rt_run_plan(context, &in, 1, &out, 1, nullptr, 0, nullptr);
    INFO(tcc_rt_last_error() << fake.violation());
    REQUIRE(status == TCC_OK);
    const int made = fake.calls("cuTensorMapEncodeTiled");
    std::vector<float> got(values.size());
    REQUIRE(cuda.cuMemcpyDtoH(got.data(), to, got.size() * 4) == 0);
    for (size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == 2 * values[i]);
    return made;
  };
  CHECK(run(y) == 2);
  CHECK(run(y) == 0);
  CHECK(run(z) == 1);
  CHECK(run(y) == 1);
  for (tcc_cu_ptr p : {x, y, z}) cuda.cuMemFree(p);
  tcc_rt_context_destroy(context);
  cuda.cuCtxSetCurrent(nullptr);
  cuda.cuDevicePrimaryCtxRelease(0);
  CHECK(std::string(fake.violation()).empty());
  CHECK(fake.live() == 0);
}

TEST_CASE("a driver without tensor maps is refused by name") {
  FakeCuda::start("arch=90");
  tcc_cuda_driver old = driver();
  old.cuTensorMapEncodeTiled = nullptr;
  const Model model;
  tcc_cu_tensor_map map;
  REQUIRE(tcc_cuda_encode_tensor_map(&old, &model.maps[0], 256, &map) == TCC_ERROR_DEVICE);
  CHECK(std::string(tcc_rt_last_error()).find("older than CUDA 12.0") != std::string::npos);
}

TEST_CASE("a plan's tensor map of a buffer that is not there is refused") {
  FakeCuda::start("arch=90");
  Model model;
  model.maps[1].buffer = 2;
  tcc_context* context = nullptr;
  REQUIRE(model.create(&context) == TCC_ERROR_INTERNAL);
  CHECK(std::string(tcc_rt_last_error()).find("impossible launch") != std::string::npos);
}

TEST_CASE("the fake driver keeps the manual's rules of tensor maps") {
  const Model model;
  const auto refused = [&](const std::string& why, auto change) {
    FakeCuda& fake = FakeCuda::start("arch=90");
    const tcc_cuda_driver& cuda = driver();
    tcc_cuda_tensor_map map = model.maps[0];
    tcc_cu_ptr address = 4096;
    change(map, address);
    tcc_cu_tensor_map out;
    const tcc_status status = tcc_cuda_encode_tensor_map(&cuda, &map, address, &out);
    INFO(why << ": " << fake.violation());
    CHECK((status == TCC_OK) == why.empty());
    CHECK(std::string(fake.violation()).find(why) != std::string::npos);
  };
  refused("", [](auto&, auto&) {});
  refused("begins at a multiple of 16", [](auto&, auto& address) { address += 8; });
  refused("a stride is a multiple of 16", [](auto& map, auto&) { map.strides[0] = 40; });
  refused("rows overlap", [](auto& map, auto&) { map.strides[0] = 16; });
  refused("1 to 256 elements", [](auto& map, auto&) { map.box[1] = 257; });
  refused("multiples of 16 bytes", [](auto& map, auto&) { map.box[0] = 6; });
  refused("longer than the swizzle", [](auto& map, auto&) { map.box[0] = 16; });
  refused("1 to 5 dimensions", [](auto& map, auto&) { map.rank = 0; });
  refused("an extent", [](auto& map, auto&) { map.dims[1] = 0; });
}
