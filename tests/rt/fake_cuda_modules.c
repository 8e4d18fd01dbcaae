// Code of the fake CUDA driver: cubins and PTX are read for what they say of their kernels, launches are checked
// against that, and executed by the functions that were given for them.
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda_state.h"

// .nv.info of a kernel: attributes of four bytes (format, name, 16-bit value) and, with format 4, that many bytes more.
static void read_attributes(function* f, const unsigned char* at, size_t bytes) {
  for (size_t i = 0; i + 4 <= bytes;) {
    uint16_t size;
    memcpy(&size, at + i + 2, 2);
    if (at[i] == 4 && at[i + 1] == 0x17) {  // EIATTR_KPARAM_INFO
      uint32_t flags;
      memcpy(&flags, at + i + 12, sizeof flags);
      ++f->parameters;
      f->maps += flags >> 18 == sizeof(fake_cuda_tensor_map);
    }
    if (at[i] == 4 && at[i + 1] == 0x05) {  // EIATTR_MAX_THREADS
      uint32_t dims[3];
      memcpy(dims, at + i + 4, sizeof dims);
      f->max_threads = (int)(dims[0] * dims[1] * dims[2]);
    }
    if (at[i] == 4 && at[i + 1] == 0x3d) memcpy(f->cluster, at + i + 4, sizeof f->cluster);  // EIATTR_CTA_PER_CLUSTER
    i += 4 + (at[i] == 4 ? size : 0);
  }
}

static function* add_function(module* m, const char* name, size_t length) {
  function* f = &m->functions[m->count++];
  snprintf(f->name, sizeof f->name, "%.*s", (int)length, name);
  f->owner = m;
  f->max_threads = 1024;
  f->dynamic_limit = 48 << 10;
  f->cluster[0] = f->cluster[1] = f->cluster[2] = 1;
  return f;
}

// The whole file, to be freed; NULL: it cannot be read.
static char* text_of(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  rewind(file);
  char* text = calloc(1, (size_t)bytes + 1);
  const size_t got = fread(text, 1, (size_t)bytes, file);
  fclose(file);
  if (got == (size_t)bytes) return text;
  free(text);
  return NULL;
}

// The text that a cubin was made beside.
static char* ptx_of(const module* m, int arch) {
  char version[16], entry[160], path[600];
  DIR* folder = m->count > 0 && set.ptx_folder[0] ? opendir(set.ptx_folder) : NULL;
  if (!folder) return NULL;
  snprintf(version, sizeof version, ".sm_%d", arch);
  snprintf(entry, sizeof entry, ".entry %s(", m->functions[0].name);
  char* found = NULL;
  for (const struct dirent* file; !found && (file = readdir(folder));) {
    const size_t length = strlen(file->d_name);
    if (length < 4 || strcmp(file->d_name + length - 4, ".ptx") != 0 || !strstr(file->d_name, version)) continue;
    snprintf(path, sizeof path, "%s/%s", set.ptx_folder, file->d_name);
    found = text_of(path);
    if (found && !strstr(found, entry)) free(found), found = NULL;
  }
  closedir(folder);
  return found;
}

static int load_cubin(module* m, const unsigned char* image) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof header);
  const int new_format = image[EI_ABIVERSION] >= 8;  // of CUDA 13
  const int arch = (int)(new_format ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff);
  if (new_format && set.driver < 13000) return 200;
  if (arch / 10 != set.arch / 10 || arch > set.arch) return 209;
  const Elf64_Shdr* sections = (const void*)(image + header.e_shoff);
  const char* names = (const char*)image + sections[header.e_shstrndx].sh_offset;
  for (int s = 0; s < header.e_shnum; ++s) {
    const char* name = names + sections[s].sh_name;
    if (strncmp(name, ".nv.info.", 9) != 0) continue;
    read_attributes(add_function(m, name + 9, strlen(name + 9)), image + sections[s].sh_offset, sections[s].sh_size);
  }
  if (fake_cuda_run) m->ptx = ptx_of(m, arch);
  return 0;
}

static int load_ptx(module* m, const char* text) {
  int arch = 0;
  const char* target = strstr(text, ".target sm_");
  if (!target || sscanf(target, ".target sm_%d", &arch) != 1) return 218;
  if (set.driver < 13000) return 222;
  if (arch > set.arch) return 218;
  if (fake_cuda_run) {
    const fake_cuda_shape none = {{0}, {0}, 0, 0};
    const int code = fake_cuda_run(text, NULL, none, NULL, 0, NULL, 0, NULL);
    if (code) return code;
  }
  m->ptx = strdup(text);
  for (const char* at = strstr(text, ".entry "); at; at = strstr(at + 1, ".entry ")) {
    const char *name = at + 7, *end = name + strcspn(name, "( \n"), *close = strchr(end, ')');
    function* f = add_function(m, name, (size_t)(end - name));
    for (const char* p = strstr(end, ".param"); p && p < close; p = strstr(p + 1, ".param")) ++f->parameters;
    for (const char* p = strstr(end, "[128]"); p && p < close; p = strstr(p + 1, "[128]")) ++f->maps;
    const char *body = strchr(end, '{'), *cluster = strstr(end, ".reqnctapercluster");
    if (cluster && body && cluster < body)
      sscanf(cluster, ".reqnctapercluster %u, %u, %u", &f->cluster[0], &f->cluster[1], &f->cluster[2]);
  }
  return 0;
}

API int cuModuleLoadData(void** out, const void* image) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  module* m = calloc(1, sizeof *m);
  const int wrong = memcmp(image, ELFMAG, SELFMAG) == 0 ? load_cubin(m, image) : load_ptx(m, image);
  if (wrong) {
    free(m);
    return wrong;
  }
  ++state.live_things;
  *out = m;
  return 0;
}
static void free_module(module* m) {
  free(m->ptx);
  free(m);
}
API int cuModuleUnload(void* m) {
  if (state.lost) free_module(m);  // nothing of a lost context is used again
  ENTER();
  drain_all();
  --state.live_things;
  free_module(m);
  return 0;
}
API int cuModuleGetFunction(void** out, void* handle, const char* name) {
  ENTER();
  module* m = handle;
  for (int i = 0; i < m->count; ++i) {
    if (strcmp(m->functions[i].name, name) == 0) return *out = &m->functions[i], 0;
  }
  return 500;
}
API int cuModuleGetGlobal_v2(address* pointer, size_t* bytes, void* m, const char* name) {
  ENTER();
  (void)pointer, (void)bytes, (void)m, (void)name;
  return 500;
}
API int cuFuncGetAttribute(int* value, int attribute, void* handle) {
  ENTER();
  const function* f = handle;
  *value = attribute == 0 ? f->max_threads : attribute == 8 ? f->dynamic_limit : attribute == 4 ? 32 : 0;
  return 0;
}
API int cuFuncSetAttribute(void* handle, int attribute, int value) {
  ENTER();
  if (attribute != 8 || value > 227 << 10) return 1;
  ((function*)handle)->dynamic_limit = value;
  return 0;
}

enum { kMultiprocessors = 108, kMaxBlocks = 8 };  // kMaxBlocks: of a cluster, on every device that has clusters

static int resident_blocks(unsigned threads) {
  return (int)(2048 / threads);
}

// The blocks of a cluster start together, and those of a cooperative launch are resident together: 0, or the error.
static int check_company(const function* f, const unsigned* grid, unsigned threads, int cooperative) {
  const unsigned blocks = f->cluster[0] * f->cluster[1] * f->cluster[2];
  if (blocks > 1 && (set.arch < 90 || blocks > kMaxBlocks)) return 912;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] % f->cluster[i] != 0) return 912;
  }
  const unsigned long long all = (unsigned long long)grid[0] * grid[1] * grid[2];
  return cooperative && all > (unsigned long long)kMultiprocessors * (unsigned)resident_blocks(threads) ? 720 : 0;
}

static int launch(function* f, const unsigned* grid, const unsigned* block, unsigned shared, int cooperative,
                  void* handle, void** parameters) {
  const unsigned threads = block[0] * block[1] * block[2];
  if (threads == 0 || grid[0] * grid[1] * grid[2] == 0 || grid[1] > 65535 || grid[2] > 65535) return 1;
  if (threads > 1024 || (int)threads > f->max_threads) return 701;
  if ((int)shared > f->dynamic_limit) return 1;
  const int company = check_company(f, grid, threads, cooperative);
  if (company) return company;
  if (f->parameters > kMaxParameters || f->maps > kMaxMaps) abort();
  work w = {.kind = kLaunch, .f = f, .cost = 2e-6 + 1e-8 * grid[0] * grid[1] * grid[2]};
  for (int i = 0; i < 3; ++i) w.shape.grid[i] = grid[i], w.shape.block[i] = block[i];
  w.shape.shared = shared;
  w.shape.cooperative = cooperative;
  const int pointers = f->parameters - f->maps;
  for (int p = 0; p < pointers; ++p) {
    memcpy(&w.values[p], parameters[p], sizeof w.values[p]);
    if (!holds(w.values[p], 1, f->name)) return 1;
  }
  for (int m = 0; m < f->maps; ++m) {
    memcpy(&w.maps[m], parameters[pointers + m], sizeof w.maps[m]);
    if (!is_tensor_map(&w.maps[m], f->name)) return 1;
  }
  note(f->name);
  enqueue(handle, &w);
  return 0;
}

API int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void* handle, void** parameters, void** extra) {
  ENTER();
  NEEDS_CONTEXT();
  (void)extra;
  return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, 0, handle, parameters);
}
API int cuLaunchCooperativeKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                  unsigned shared, void* handle, void** parameters) {
  ENTER();
  NEEDS_CONTEXT();
  return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, 1, handle, parameters);
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* f, int threads, size_t shared) {
  ENTER();
  (void)f, (void)shared;
  *blocks = resident_blocks((unsigned)threads);
  return 0;
}
// CUlaunchAttribute and CUlaunchConfig of cuda.h.
typedef struct {
  int id;
  char pad[4];
  unsigned value[16];
} launch_attribute;
typedef struct {
  unsigned grid[3], block[3];
  unsigned shared;
  void* stream;
  const launch_attribute* attributes;
  unsigned attribute_count;
} launch_config;

// One cluster fewer than the multiprocessors have room for, as on a device whose groups have lost some of them.
API int cuOccupancyMaxActiveClusters(int* clusters, void* f, const launch_config* config) {
  ENTER();
  NEEDS_CONTEXT();
  const function* kernel = f;
  if (set.arch < 90 || config->attribute_count != 1 || config->attributes[0].id != 4) return 1;
  if (config->shared > 48 << 10 && (int)config->shared > kernel->dynamic_limit) return 1;
  const unsigned* size = config->attributes[0].value;
  *clusters = (int)(108 / (size[0] * size[1] * size[2])) - 1;
  return 0;
}

// --- execution -------------------------------------------------------------------------------------------------------

static void point_at(const work* w, void** parameters) {
  const int pointers = w->f->parameters - w->f->maps;
  for (int p = 0; p < kMaxParameters; ++p) parameters[p] = (void*)&w->values[p];
  for (int m = 0; m < w->f->maps; ++m) parameters[pointers + m] = (void*)&w->maps[m];
}

void run_launch(const work* w) {
  void* parameters[kMaxParameters];
  point_at(w, parameters);
  for (int k = 0; k < state.kernel_count; ++k) {
    if (strcmp(state.kernels[k].symbol, w->f->name) != 0) continue;
    state.kernels[k].kernel(parameters);
  }
  if (set.crash_name[0] && strstr(w->f->name, set.crash_name)) return lose_context(set.crash_code);
  while (set.hang_name[0] && strstr(w->f->name, set.hang_name)) sleep(1);
  void (*kernel)(void**) = NULL;
  if (set.code) *(void**)&kernel = dlsym(set.code, w->f->name);
  if (kernel) return kernel(parameters);
  if (!fake_cuda_run) return;
  if (!w->f->owner->ptx) {
    static int said;
    if (!said++)
      fprintf(stderr,
              "fake GPU: '%s' is machine code, which is not executed: its buffers keep what they hold. "
              "FAKE_CUDA=ptx=FOLDER names the folder of its text, which tcc build --emit ptx writes\n",
              w->f->name);
    return;
  }
  fake_cuda_piece pieces[kMaxParameters];
  const int pointers = w->f->parameters - w->f->maps;
  for (int p = 0; p < pointers; ++p) {
    const memory* m = owner_of(w->values[p]);
    pieces[p].begin = (void*)(uintptr_t)w->values[p];
    pieces[p].bytes = m ? (size_t)(m->begin + m->bytes - (unsigned char*)pieces[p].begin) : 0;
  }
  double seconds = 0;
  const int code =
      fake_cuda_run(w->f->owner->ptx, w->f->name, w->shape, pieces, pointers, w->maps, w->f->maps, &seconds);
  state.now += seconds;
  if (code) lose_context(code);
}
