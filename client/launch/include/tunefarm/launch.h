/* tunefarm/launch.h: launches tuned kernels from a package (`tunefarm export package`).
 *
 * libtunefarm-launch.so needs the C library alone. It finds the CUDA driver (libcuda.so.1) when a CUDA kernel is loaded
 * and so links into any program, beside any other library. A package with kernels for the CPU needs no driver.
 *
 *   tunefarm_package* package = NULL;
 *   tunefarm_kernel* kernel = NULL;
 *   tunefarm_error error = TUNEFARM_ERROR_INIT;
 *   if (tunefarm_package_open("vector_add.tfpack", &package, &error) != TUNEFARM_OK ||
 *       tunefarm_kernel_load(package, "vector_add", NULL, 0, NULL, &kernel, &error) != TUNEFARM_OK) {
 *     fprintf(stderr, "%s\n", error.message);
 *   }
 *
 * A package is code: it runs with the rights of the process that launches it. Its checksum finds accidents and is no
 * signature.
 *
 * Threads: a package and a kernel may be used by any number of threads at once; closing one ends its use. Every
 * structure begins with its size, which the *_INIT macros fill in, so that later versions may add fields at the end.
 * Fields that are not set are zero.
 */
#pragma once
#ifndef TUNEFARM_LAUNCH_H_
#define TUNEFARM_LAUNCH_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tunefarm_status {
  TUNEFARM_OK = 0,
  /* A name, value or argument that the kernel does not take. */
  TUNEFARM_INVALID_ARGUMENT = 1,
  /* No such file or kernel, or no config for the problem on this device. */
  TUNEFARM_NOT_FOUND = 2,
  /* The file is cut short, damaged, of a newer version, or no package at all. */
  TUNEFARM_BAD_PACKAGE = 3,
  /* The package has nothing for this device or driver. */
  TUNEFARM_INCOMPATIBLE = 4,
  /* No CUDA driver, no device, or no current context. */
  TUNEFARM_NO_DEVICE = 5,
  /* The plan is of another generation: plan and prepare again. */
  TUNEFARM_STALE = 6,
  /* The driver refused a call. */
  TUNEFARM_DEVICE_ERROR = 7,
  TUNEFARM_OUT_OF_MEMORY = 8
} tunefarm_status;

typedef struct tunefarm_error {
  size_t size;
  /* One sentence, ended by a zero byte; empty after success. Longer ones are cut. */
  char message[1016];
} tunefarm_error;
#define TUNEFARM_ERROR_INIT       \
  {                               \
    sizeof(tunefarm_error), { 0 } \
  }

/* A file with kernels, mapped into memory. */
typedef struct tunefarm_package tunefarm_package;
/* A kernel of a package with everything loaded that a launch may need. */
typedef struct tunefarm_kernel tunefarm_kernel;

typedef enum tunefarm_value_type {
  TUNEFARM_BOOL = 0,
  TUNEFARM_INT = 1,
  TUNEFARM_FLOAT = 2,
  TUNEFARM_STRING = 3
} tunefarm_value_type;

/* A dim of the problem by name, such as {"dtype", TUNEFARM_STRING, {.text = "bf16"}}. */
typedef struct tunefarm_dim {
  const char* name;
  tunefarm_value_type type;
  union {
    int64_t number; /* TUNEFARM_INT, and 0 or 1 of TUNEFARM_BOOL */
    double real;
    const char* text;
  } value;
} tunefarm_dim;

/* How well a plan's config matches the problem. */
typedef enum tunefarm_match {
  TUNEFARM_MATCH_EXACT = 0,
  /* Tuned for the nearest problem by the kernel's own look-up rules. */
  TUNEFARM_MATCH_NEAREST = 1,
  /* Tuned on another device of the same compute capability. */
  TUNEFARM_MATCH_SAME_ARCH = 2,
  /* The default config of the definition. */
  TUNEFARM_MATCH_DEFAULT = 3
} tunefarm_match;

/* ---- Packages ---- */

/* The version of the library: 10000 * major + 100 * minor + patch. */
uint32_t tunefarm_launch_version(void);

/* Maps and checks the whole file. `path` must not change while the package is open. Errors: NOT_FOUND, BAD_PACKAGE,
 * OUT_OF_MEMORY. In every function `error` may be NULL, and a result is NULL after an error. */
tunefarm_status tunefarm_package_open(const char* path, tunefarm_package** package, tunefarm_error* error);
/* The same for bytes in memory, which are copied. */
tunefarm_status tunefarm_package_open_bytes(const void* bytes, size_t size, tunefarm_package** package,
                                            tunefarm_error* error);
/* Kernels that were loaded from it stay usable. NULL is allowed. */
void tunefarm_package_close(tunefarm_package* package);
size_t tunefarm_package_kernel_count(const tunefarm_package* package);
/* Lives as long as the package; NULL beyond the last. */
const char* tunefarm_package_kernel_name(const tunefarm_package* package, size_t index);

/* ---- Kernels ---- */

typedef struct tunefarm_load_options {
  size_t size;
  /* A CUDA device by the driver's number. Only this device's kernels are loaded. -1, which TUNEFARM_LOAD_OPTIONS_INIT
   * sets: the device of the calling thread's current context. */
  int32_t device;
} tunefarm_load_options;
#define TUNEFARM_LOAD_OPTIONS_INIT \
  { sizeof(tunefarm_load_options), -1 }

/* Loads all binaries of the kernel that fit the device and the dims, which are `dims` and those given at launch. Dims
 * that are baked into binaries must be given here, or take their defaults. What is loaded stays loaded until the
 * process ends, since a CUDA graph may hold it. `options` may be NULL.
 * Errors: INVALID_ARGUMENT (an unknown dim, or a value that it cannot have), NOT_FOUND, INCOMPATIBLE, NO_DEVICE,
 * DEVICE_ERROR, OUT_OF_MEMORY. */
tunefarm_status tunefarm_kernel_load(const tunefarm_package* package, const char* name, const tunefarm_dim* dims,
                                     size_t dim_count, const tunefarm_load_options* options, tunefarm_kernel** kernel,
                                     tunefarm_error* error);
/* Takes over what another package, such as a newer export, has for the same kernel, dims and device. From then on plans
 * are made from it, and launches follow with the first launch or preparation that is not captured: by their generation
 * only where the new config's work space fits into theirs and the prepared layout is the same, else they are STALE. A
 * launch that is captured goes on with the config of its generation (for other dims than the plan's, with the package
 * that has it), or, without one, with what launches chose from before; where another thread launches or prepares
 * outside of the capture meanwhile, only the generation holds it. Configs that both packages have keep their
 * generations, and the same content changes nothing.
 *
 * May be called from any thread while others launch, and while streams are captured. What was loaded stays, with the
 * earlier packages, until the kernel is closed; so there are at most 1,000 updates. After an error all is as before.
 * Errors: as tunefarm_kernel_load; INCOMPATIBLE, too, where arguments or the dims of a launch differ. */
tunefarm_status tunefarm_kernel_update(tunefarm_kernel* kernel, const tunefarm_package* package, tunefarm_error* error);
/* No launch may be under way. NULL is allowed. */
void tunefarm_kernel_close(tunefarm_kernel* kernel);

/* The CUDA device, by the driver's number, that the kernel was loaded for; -1: it runs on the CPU. The addresses of a
 * launch belong to it. */
int32_t tunefarm_kernel_device(const tunefarm_kernel* kernel);

/* The dims that a launch gives, in the order in which it gives them: those not baked and not fixed at load. */
size_t tunefarm_kernel_dim_count(const tunefarm_kernel* kernel);
const char* tunefarm_kernel_dim_name(const tunefarm_kernel* kernel, size_t index);

typedef enum tunefarm_access { TUNEFARM_IN = 1, TUNEFARM_OUT = 2, TUNEFARM_INOUT = 3 } tunefarm_access;

/* One of the caller's buffers. */
typedef struct tunefarm_argument {
  size_t size;
  const char* name;      /* lives as long as the kernel */
  const char* data_type; /* "f32", "bf16", "i64", ... */
  tunefarm_access access;
} tunefarm_argument;
#define TUNEFARM_ARGUMENT_INIT \
  { sizeof(tunefarm_argument), NULL, NULL, TUNEFARM_IN }

/* The buffers that a launch hands over, in order. */
size_t tunefarm_kernel_argument_count(const tunefarm_kernel* kernel);
tunefarm_status tunefarm_kernel_argument(const tunefarm_kernel* kernel, size_t index, tunefarm_argument* argument,
                                         tunefarm_error* error);

/* ---- Plans ---- */

/* What a launch for given dims does and needs. */
typedef struct tunefarm_plan {
  size_t size;
  /* Names what was chosen: config, work space and prepared layout; 0 is none. */
  uint64_t generation;
  /* Of work space that a launch needs, aligned to 256 bytes; 0: none. */
  uint64_t workspace_bytes;
  /* Whether tunefarm_kernel_prepare must run once on the arguments before the first launch. */
  int32_t needs_prepare;
  tunefarm_match match;
  /* Distance of a NEAREST match, as LookupConfig counts it. */
  double distance;
  /* What was measured for the tuned problem, in nanoseconds; 0: nothing. */
  double median_ns;
  /* "tile_m=128,stages=4"; lives as long as the kernel. */
  const char* config;
} tunefarm_plan;
#define TUNEFARM_PLAN_INIT \
  { sizeof(tunefarm_plan), 0, 0, 0, TUNEFARM_MATCH_EXACT, 0, 0, NULL }

/* Chooses the config for run-time dims. Errors: INVALID_ARGUMENT (a dim out of bounds), NOT_FOUND (no config of the
 * package is near enough or keeps its constraints). */
tunefarm_status tunefarm_kernel_plan(const tunefarm_kernel* kernel, const int64_t* dims, size_t dim_count,
                                     tunefarm_plan* plan, tunefarm_error* error);
/* Elements that an argument must have for these dims. */
tunefarm_status tunefarm_kernel_argument_length(const tunefarm_kernel* kernel, size_t index, const int64_t* dims,
                                                size_t dim_count, uint64_t* length, tunefarm_error* error);

/* ---- Launches ---- */

typedef struct tunefarm_launch {
  size_t size;
  /* A CUstream (or cudaStream_t) of the current context; NULL: its default stream. Ignored on the CPU. */
  void* stream;
  /* In the order of tunefarm_kernel_dim_name. */
  const int64_t* dims;
  size_t dim_count;
  /* Device addresses (on the CPU: pointers), in the order of tunefarm_kernel_argument. */
  void* const* arguments;
  size_t argument_count;
  /* Bytes of each argument, which are then checked; NULL: they are not. */
  const uint64_t* argument_bytes;
  /* See tunefarm_plan.workspace_bytes. Aligned to 256 bytes. */
  void* workspace;
  uint64_t workspace_bytes;
  /* Of the plan that the workspace and the preparation were made for; 0: of the one that the dims choose now, which is
   * STALE after an update of a kernel with configs that need preparation. */
  uint64_t generation;
} tunefarm_launch;
#define TUNEFARM_LAUNCH_INIT \
  { sizeof(tunefarm_launch), NULL, NULL, 0, NULL, 0, NULL, NULL, 0, 0 }

/* Runs the steps that change the caller's buffers once for a config, such as a new layout of weights. Enqueued on the
 * stream. OK at once where there are none. */
tunefarm_status tunefarm_kernel_prepare(const tunefarm_kernel* kernel, const tunefarm_launch* launch,
                                        tunefarm_error* error);

/* Enqueues the kernel's launches on the stream; on the CPU, runs them. Loads nothing, allocates nothing and takes no
 * lock, so that it may be captured into a graph. What was enqueued before an error stays enqueued.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (as tunefarm_kernel_plan), STALE, DEVICE_ERROR, NO_DEVICE. */
tunefarm_status tunefarm_kernel_launch(const tunefarm_kernel* kernel, const tunefarm_launch* launch,
                                       tunefarm_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TUNEFARM_LAUNCH_H_ */
