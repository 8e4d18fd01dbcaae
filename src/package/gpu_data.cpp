// The part of a plan that says what runs on GPUs: a tcc_rt_gpu and all it points at.
#include <cstddef>

#include "model_data.h"
#include "tcc/codegen/tensor_map.h"
#include "tcc/rt/cuda_driver.h"
#include "tcc/support/check.h"

namespace tcc::package {
namespace {

using To = PlanImage::To;

uint32_t flag_if(bool set, uint32_t flag) {
  return set ? flag : 0;
}

class GpuWriter {
 public:
  GpuWriter(const PackagePlan& plan, const ModelLayout& layout, PlanImage& image, StringPool& strings)
      : plan_(plan), layout_(layout), image_(image), strings_(strings) {}

  int64_t write() {
    std::vector<tcc_rt_gpu_code> codes;
    std::vector<std::pair<int64_t, int64_t>> parts;  // kernels, steps
    for (size_t a = 0; a < plan_.architectures.size(); ++a) {
      const ArchitectureCode& architecture = plan_.architectures[a];
      parts.emplace_back(add_kernels(architecture), add_steps(architecture, layout_.args[a]));
      tcc_rt_gpu_code code{};
      code.architecture = static_cast<uint32_t>(architecture.target.cuda.sm_arch);
      code.flags = flag_if(architecture.ptx, TCC_RT_GPU_PTX) |
                   flag_if(!architecture.target.cuda.sm_suffix.empty(), TCC_RT_GPU_SPECIFIC);
      code.num_kernels = static_cast<uint32_t>(architecture.codes.size());
      code.num_steps = static_cast<uint32_t>(layout_.args[a].size());
      codes.push_back(code);
    }
    const int64_t at = image_.add(std::span<const tcc_rt_gpu_code>(codes));
    for (size_t a = 0; a < codes.size(); ++a) {
      const int64_t base = at + static_cast<int64_t>(a * sizeof(tcc_rt_gpu_code));
      point(base, offsetof(tcc_rt_gpu_code, kernels), To::kData, parts[a].first);
      point(base, offsetof(tcc_rt_gpu_code, steps), To::kData, parts[a].second);
      point(base, offsetof(tcc_rt_gpu_code, name), To::kStrings,
            strings_.add(target::sm_name(plan_.architectures[a].target)));
    }
    tcc_rt_gpu gpu{};
    gpu.num_codes = static_cast<uint32_t>(codes.size());
    gpu.toolkit = static_cast<uint32_t>(plan_.cuda_toolkit);
    const int64_t gpu_at = image_.add(gpu);
    image_.point_at_symbol(gpu_at + static_cast<int64_t>(offsetof(tcc_rt_gpu, ops)), "tcc_rt_cuda_ops");
    point(gpu_at, offsetof(tcc_rt_gpu, codes), To::kData, at);
    return gpu_at;
  }

 private:
  void point(int64_t base, size_t offset, To to, int64_t addend) {
    image_.point(base + static_cast<int64_t>(offset), to, addend);
  }

  int64_t add_maps(const std::vector<codegen::TensorMap>& tensors) {
    std::vector<tcc_cuda_tensor_map> maps;
    for (const codegen::TensorMap& t : tensors) maps.push_back(codegen::describe_to_driver<tcc_cuda_tensor_map>(t));
    return maps.empty() ? 0 : image_.add(std::span<const tcc_cuda_tensor_map>(maps));
  }

  int64_t add_launches(const codegen::Artifact& artifact) {
    std::vector<tcc_rt_gpu_launch> launches;
    std::vector<int64_t> maps;
    for (const codegen::Launch& l : artifact.launches) {
      tcc_rt_gpu_launch launch{};
      for (size_t d = 0; d < 3; ++d) {
        launch.grid[d] = static_cast<uint32_t>(l.grid[d]);
        launch.block[d] = static_cast<uint32_t>(l.block[d]);
      }
      launch.shared_bytes = static_cast<uint32_t>(l.shared_bytes);
      launch.flags = flag_if(l.cooperative, TCC_RT_GPU_COOPERATIVE);
      launch.num_tensor_maps = static_cast<uint32_t>(l.tensor_maps.size());
      launches.push_back(launch);
      maps.push_back(add_maps(l.tensor_maps));
    }
    const int64_t at = image_.add(std::span<const tcc_rt_gpu_launch>(launches));
    for (size_t i = 0; i < launches.size(); ++i)
      point(at + static_cast<int64_t>(i * sizeof(tcc_rt_gpu_launch)), offsetof(tcc_rt_gpu_launch, symbol), To::kStrings,
            strings_.add(artifact.launches[i].symbol));
    for (size_t i = 0; i < launches.size(); ++i)
      if (launches[i].num_tensor_maps > 0)
        point(at + static_cast<int64_t>(i * sizeof(tcc_rt_gpu_launch)), offsetof(tcc_rt_gpu_launch, tensor_maps),
              To::kData, maps[i]);
    return at;
  }

  int64_t add_kernels(const ArchitectureCode& architecture) {
    std::vector<tcc_rt_gpu_kernel> kernels;
    std::vector<int64_t> launches, images;
    for (const TaskCode& code : architecture.codes) {
      launches.push_back(add_launches(code.artifact));
      images.push_back(image_.add_device_code(code.artifact.code));
      kernels.push_back({nullptr, code.artifact.code.size(), nullptr,
                         static_cast<uint32_t>(code.artifact.launches.size()),
                         static_cast<uint32_t>(code.artifact.buffers.size())});
    }
    const int64_t at = image_.add(std::span<const tcc_rt_gpu_kernel>(kernels));
    for (size_t i = 0; i < kernels.size(); ++i) {
      const int64_t base = at + static_cast<int64_t>(i * sizeof(tcc_rt_gpu_kernel));
      point(base, offsetof(tcc_rt_gpu_kernel, image), To::kDeviceCode, images[i]);
      point(base, offsetof(tcc_rt_gpu_kernel, launches), To::kData, launches[i]);
    }
    return at;
  }

  int64_t add_steps(const ArchitectureCode& architecture, const std::vector<std::vector<tcc_rt_arg>>& lists) {
    std::vector<int64_t> args;
    for (const auto& list : lists) args.push_back(image_.add(std::span<const tcc_rt_arg>(list)));
    std::vector<tcc_rt_gpu_step> steps;
    for (const task::GroupBinding& binding : plan_.tasks->bindings) {
      TCC_CHECK(static_cast<size_t>(binding.task) < architecture.codes.size());
      steps.push_back({static_cast<uint32_t>(binding.task), 0, nullptr});
    }
    const int64_t at = image_.add(std::span<const tcc_rt_gpu_step>(steps));
    for (size_t i = 0; i < steps.size(); ++i)
      point(at + static_cast<int64_t>(i * sizeof(tcc_rt_gpu_step)), offsetof(tcc_rt_gpu_step, args), To::kData,
            args[i]);
    return at;
  }

  const PackagePlan& plan_;
  const ModelLayout& layout_;
  PlanImage& image_;
  StringPool& strings_;
};

}  // namespace

int64_t add_gpu_code(const PackagePlan& plan, const ModelLayout& layout, PlanImage& image, StringPool& strings) {
  return GpuWriter(plan, layout, image, strings).write();
}

}  // namespace tcc::package
