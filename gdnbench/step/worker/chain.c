/* Launches a list of kernels by the CUDA driver, as an engine that is written in C++ would: no Python between two.
 *
 * The few types and functions of the driver that are needed are declared here (CUDA driver API, "cuLaunchKernel",
 * "CUlaunchConfig", "CUlaunchAttribute"), so that no toolkit is needed to build it. Every function returns a CUresult.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NOT_FOUND 500 /* CUDA_ERROR_NOT_FOUND */
#define ATTRIBUTE_ACCESS_POLICY_WINDOW 1
#define ATTRIBUTE_COOPERATIVE 2
#define ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION 6
#define PROPERTY_STREAMING 1
#define PROPERTY_PERSISTING 2
#define MOST_ATTRIBUTES 3

/* One launch; the Python side has the same structure. */
typedef struct {
  void *function; /* CUfunction, or a CUkernel in its place */
  void **arguments;
  void *window_base; /* of the access policy window; its size is 0 where there is none */
  uint64_t window_bytes;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  float hit_ratio;
  int32_t programmatic; /* may begin before the launch in front of it has ended */
  int32_t cooperative;
} Launch;

/* CUDA_KERNEL_NODE_PARAMS_v2 */
typedef struct {
  void *function;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  void **arguments;
  void **extra;
  void *kernel;
  void *context;
} NodeParams;

/* CUlaunchAttribute: an id, padding to 8 bytes, and a value of 64. */
typedef struct {
  void *base;
  size_t bytes;
  float hit_ratio;
  int32_t hit, miss;
} Window;

typedef struct {
  int32_t id;
  char padding[4];
  union {
    char bytes[64];
    int32_t flag;
    Window window;
  } value;
} Attribute;

/* CUlaunchConfig */
typedef struct {
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  void *stream;
  Attribute *attributes;
  uint32_t count;
} Config;

static int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                            void **, void **);
static int (*launch_kernel_ex)(const Config *, void *, void **, void **);
static int (*read_node)(void *, NodeParams *);

/* Finds the driver's functions in a library, `libcuda.so.1`. */
int gdnbench_open(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (!handle) return NOT_FOUND;
  *(void **)&launch_kernel = dlsym(handle, "cuLaunchKernel");
  *(void **)&launch_kernel_ex = dlsym(handle, "cuLaunchKernelEx");
  *(void **)&read_node = dlsym(handle, "cuGraphKernelNodeGetParams_v2");
  return launch_kernel && launch_kernel_ex && read_node ? 0 : NOT_FOUND;
}

/* What a kernel node of a graph launches. Its arguments are the graph's, and live as long as it does. */
int gdnbench_read_node(void *node, Launch *launch) {
  NodeParams params;
  memset(&params, 0, sizeof params);
  int status = read_node(node, &params);
  if (status) return status;
  if (!params.arguments) return NOT_FOUND;
  memset(launch, 0, sizeof *launch);
  launch->function = params.function ? params.function : params.kernel;
  launch->arguments = params.arguments;
  memcpy(launch->grid, params.grid, sizeof launch->grid);
  memcpy(launch->block, params.block, sizeof launch->block);
  launch->shared_bytes = params.shared_bytes;
  return 0;
}

/* Launches all in order by cuLaunchKernel, which takes no attributes. */
int gdnbench_launch_plain(const Launch *launches, int count, void *stream) {
  for (int i = 0; i < count; ++i) {
    const Launch *it = &launches[i];
    int status = launch_kernel(it->function, it->grid[0], it->grid[1], it->grid[2], it->block[0], it->block[1],
                               it->block[2], it->shared_bytes, stream, it->arguments, NULL);
    if (status) return status;
  }
  return 0;
}

static uint32_t list_attributes(const Launch *launch, Attribute *attributes) {
  uint32_t count = 0;
  if (launch->programmatic) {
    attributes[count].id = ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.flag = 1;
  }
  if (launch->cooperative) {
    attributes[count].id = ATTRIBUTE_COOPERATIVE;
    attributes[count++].value.flag = 1;
  }
  if (launch->window_bytes) {
    attributes[count].id = ATTRIBUTE_ACCESS_POLICY_WINDOW;
    const Window window = {launch->window_base, (size_t)launch->window_bytes, launch->hit_ratio, PROPERTY_PERSISTING,
                           PROPERTY_STREAMING};
    attributes[count++].value.window = window;
  }
  return count;
}

/* Launches all in order by cuLaunchKernelEx, each with its attributes. */
int gdnbench_launch_extended(const Launch *launches, int count, void *stream) {
  Attribute attributes[MOST_ATTRIBUTES];
  memset(attributes, 0, sizeof attributes);
  for (int i = 0; i < count; ++i) {
    const Launch *it = &launches[i];
    Config config;
    memset(&config, 0, sizeof config);
    memcpy(config.grid, it->grid, sizeof config.grid);
    memcpy(config.block, it->block, sizeof config.block);
    config.shared_bytes = it->shared_bytes;
    config.stream = stream;
    config.attributes = attributes;
    config.count = list_attributes(it, attributes);
    int status = launch_kernel_ex(&config, it->function, it->arguments, NULL);
    if (status) return status;
  }
  return 0;
}
