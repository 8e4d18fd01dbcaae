// Header, example, pkg-config and CMake files.
#include <algorithm>
#include <string_view>

#include "model_data.h"
#include "tcc/rt/blob.h"

namespace tcc::package {
namespace {

std::string_view model_abi_text() {
  return {reinterpret_cast<const char*>(tcc_rt_model_abi_begin),
          static_cast<size_t>(tcc_rt_model_abi_end - tcc_rt_model_abi_begin)};
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  return text;
}

std::string replace_all(std::string_view text, std::string_view what, const std::string& with) {
  std::string out;
  for (size_t at = 0;;) {
    size_t next = text.find(what, at);
    out += text.substr(at, next == std::string_view::npos ? next : next - at);
    if (next == std::string_view::npos) return out;
    out += with;
    at = next + what.size();
  }
}

std::string tensor_lines(const PackagePlan& plan, const PublicTensors& tensors,
                         const std::vector<graph::SymbolicShape>* shapes, const char* what) {
  std::string text;
  for (size_t i = 0; i < tensors.values.size(); ++i) {
    const graph::Value& v = plan.graph->value(tensors.values[i]);
    text +=
        fmt::format("//   {} {}: {} [{}], {}{} bytes\n", what, i, graph::dtype_name(v.dtype),
                    v.shape.empty() ? "" : graph::shape_text(v.shape), shapes != nullptr ? "at most " : "", v.bytes());
    // Names are the model's own: dimensions are numbered.
    std::vector<std::string> names;
    for (size_t d = 0; shapes != nullptr && d < plan.dynamic->dims.size(); ++d) names.push_back(fmt::format("d{}", d));
    for (int32_t c = 0; shapes != nullptr && c < plan.dynamic->counts; ++c) names.push_back(fmt::format("n{}", c));
    if (shapes != nullptr) text += fmt::format("//     of shape {}\n", graph::symbolic_text((*shapes)[i], names));
  }
  return text;
}

constexpr std::string_view kExample =
    R"(/* Runs the model once on random inputs and prints the first values of each output.
 *
 *   cc example.c $(PKG_CONFIG_PATH=. pkg-config --cflags --libs @ID@) && ./a.out
@ABOUT@ */
#include "@ID@.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Inputs: floats of 32 and 64 bits get small numbers, every other type zeros. */
static void fill(const tcc_tensor_info *info, void *data) {
  size_t i, count = info->bytes / (info->dtype.bits / 8);
  memset(data, 0, info->bytes);
  if (info->dtype.code != TCC_DTYPE_FLOAT) return;
  for (i = 0; i < count; ++i) {
    double value = (double)(i * 7 % 13) / 13.0 - 0.5;
    if (info->dtype.bits == 32) ((float *)data)[i] = (float)value;
    if (info->dtype.bits == 64) ((double *)data)[i] = value;
  }
}

static void print(const tcc_tensor_info *info, uint32_t index, const tcc_dltensor *tensor) {
  const void *data = tensor->data;
  size_t i, count = 1;
  int32_t d;
  for (d = 0; d < tensor->ndim; ++d) count *= (size_t)tensor->shape[d]; /* the actual extents */
  printf("output %u:", (unsigned)index);
  for (i = 0; i < count && i < 8; ++i) {
    const tcc_dldtype t = info->dtype;
    if (t.code == TCC_DTYPE_FLOAT && t.bits == 32) printf(" %.6g", ((const float *)data)[i]);
    else if (t.code == TCC_DTYPE_FLOAT && t.bits == 64) printf(" %.6g", ((const double *)data)[i]);
    else if (t.code == TCC_DTYPE_INT && t.bits == 64) printf(" %lld", (long long)((const int64_t *)data)[i]);
    else if (t.code == TCC_DTYPE_INT && t.bits == 32) printf(" %ld", (long)((const int32_t *)data)[i]);
    else printf(" 0x%02x", ((const unsigned char *)data)[i * (t.bits / 8)]);
  }
  printf("%s\n", count > 8 ? " ..." : "");
}

static tcc_dltensor *make_tensors(const tcc_tensor_info *infos, uint32_t count) {
  uint32_t i;
  tcc_dltensor *tensors = calloc(count ? count : 1, sizeof *tensors);
  if (!tensors) return NULL;
  for (i = 0; i < count; ++i) {
    tensors[i].data = malloc(infos[i].bytes ? infos[i].bytes : 1);
    tensors[i].shape = malloc(((size_t)infos[i].ndim + 1) * sizeof(int64_t));
    if (!tensors[i].data || !tensors[i].shape) return NULL;
    tensors[i].device.device_type = TCC_DEVICE_CPU;
    tensors[i].ndim = infos[i].ndim;
    tensors[i].dtype = infos[i].dtype;
    memcpy(tensors[i].shape, infos[i].dims, (size_t)infos[i].ndim * sizeof(int64_t));
  }
  return tensors;
}

static void free_tensors(tcc_dltensor *tensors, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; ++i) {
    free(tensors[i].data);
    free(tensors[i].shape);
  }
  free(tensors);
}

int main(void) {
  const tcc_model_api *api = tcc_@ID@_query(TCC_MODEL_ABI_VERSION);
  const tcc_model_info *info;
  tcc_context *context = NULL;
@OPTIONS@  tcc_dltensor *inputs, *outputs;
  uint32_t i;
  if (!api) {
    fprintf(stderr, "the library is newer than this header\n");
    return 1;
  }
  info = api->info();
@CREATE@ != TCC_OK) {
    fprintf(stderr, "create: %s\n", api->last_error());
    return 1;
  }
  inputs = make_tensors(info->inputs, info->num_inputs);
  outputs = make_tensors(info->outputs, info->num_outputs);
  if (!inputs || !outputs) {
    fprintf(stderr, "out of memory\n");
    return 1;
  }
  for (i = 0; i < info->num_inputs; ++i) fill(&info->inputs[i], inputs[i].data);
  if (api->run(context, inputs, info->num_inputs, outputs, info->num_outputs, NULL, 0, NULL) != TCC_OK) {
    fprintf(stderr, "run: %s\n", api->last_error());
    return 1;
  }
  for (i = 0; i < info->num_outputs; ++i) print(&info->outputs[i], i, &outputs[i]);
  free_tensors(inputs, info->num_inputs);
  free_tensors(outputs, info->num_outputs);
  api->destroy(context);
  return 0;
}
)";

constexpr std::string_view kCreate = "  if (api->create(NULL, &context)";

// A GPU's example passes host memory: without a CUDA header it has no other.
constexpr std::string_view kAboutGpu = R"( *
 * The tensors here are in host memory: the context is told to make room for copies of them on the device. A program
 * that has its data on the device creates without that flag, passes device pointers (device_type TCC_DEVICE_CUDA) and
 * its stream to run(), and goes on at once: run() only enqueues work.
)";
constexpr std::string_view kCreateGpu = R"(  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = TCC_CREATE_HOST_TENSORS;
  if (api->create(&options, &context))";

constexpr std::string_view kPkgConfig = R"(libdir=${pcfiledir}
includedir=${pcfiledir}

Name: @ID@
Description: A compiled model. Programs look for the library in their own folder.
Version: @VERSION@
Cflags: -I${includedir}
Libs: -L${libdir} -Wl,-rpath,$ORIGIN -l@ID@
)";

constexpr std::string_view kCmakeConfig = R"(# find_package(@ID@ CONFIG) gives the target @ID@::@ID@.
if(NOT TARGET @ID@::@ID@)
  add_library(@ID@::@ID@ SHARED IMPORTED)
  set_target_properties(@ID@::@ID@ PROPERTIES
    IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/lib@ID@.so"
    IMPORTED_SONAME "lib@ID@.so"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}")
endif()
)";

}  // namespace

std::string make_header(const PackagePlan& plan, const ModelLayout& layout, const std::string& id) {
  const DynamicPlan* dynamic = plan.dynamic;
  std::string guard = fmt::format("TCC_MODEL_{}_H", upper(id));
  std::string text = fmt::format("// lib{}.so: a model compiled by tcc. C99 and C++.\n//\n", id);
  for (size_t d = 0; dynamic != nullptr && d < dynamic->dims.size(); ++d)
    text += fmt::format("//   d{}, a size from {} to {}; info()->dims[{}] has its name\n", d, dynamic->dims[d].low,
                        dynamic->dims[d].high, d);
  for (int32_t c = 0; dynamic != nullptr && c < dynamic->counts; ++c)
    text += fmt::format("//   n{}, at most {}: run() computes it, and writes it into the shape of the output\n", c,
                        dynamic->buckets.back().bounds[dynamic->dims.size() + static_cast<size_t>(c)]);
  text += tensor_lines(plan, public_inputs(plan), dynamic != nullptr ? &dynamic->inputs : nullptr, "input");
  text += tensor_lines(plan, public_outputs(plan), dynamic != nullptr ? &dynamic->outputs : nullptr, "output");
  text += fmt::format("//\n// Workspace {} bytes, weights {} bytes. example.c shows a whole program.\n",
                      layout.workspace_bytes, layout.weights_bytes);
  std::string architectures;
  for (const ArchitectureCode& a : plan.architectures)
    architectures +=
        fmt::format("{}{}{}", architectures.empty() ? "" : ", ", target::sm_name(a.target), a.ptx ? " (PTX)" : "");
  if (!architectures.empty())
    text += fmt::format("// Runs on GPUs: {}. No CUDA header is needed; streams are passed as void*.\n", architectures);
  text += fmt::format("#ifndef {0}\n#define {0}\n\n", guard);
  text += model_abi_text();
  text += fmt::format(
      "\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n"
      "// The model's table of functions, or NULL when the library is too new for max_abi.\n"
      "const tcc_model_api* tcc_{}_query(uint32_t max_abi);\n\n"
      "#ifdef __cplusplus\n}}\n#endif\n\n#endif  // {}\n",
      id, guard);
  return text;
}

std::string make_example(const PackagePlan& plan, const std::string& id) {
  const bool gpu = !plan.architectures.empty();
  std::string text = replace_all(kExample, "@ABOUT@", std::string(gpu ? kAboutGpu : ""));
  text = replace_all(text, "@OPTIONS@", gpu ? "  tcc_create_options options;\n" : "");
  text = replace_all(text, "@CREATE@", std::string(gpu ? kCreateGpu : kCreate));
  return replace_all(text, "@ID@", id);
}

std::string make_pkg_config(const PackageOptions& options) {
  return replace_all(replace_all(kPkgConfig, "@ID@", options.id), "@VERSION@",
                     options.tool_version.empty() ? "0" : options.tool_version);
}

std::string make_cmake_config(const std::string& id) {
  return replace_all(kCmakeConfig, "@ID@", id);
}

}  // namespace tcc::package
