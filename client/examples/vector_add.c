/* c = a + b by the tuned kernel of a package.
 *
 *   cc -std=c99 vector_add.c -ltunefarm-launch -o vector_add
 *   tunefarm export package vector_add.tfpack --kernel vector_add
 *   ./vector_add vector_add.tfpack             on the first CUDA device
 *   ./vector_add vector_add_host.tfpack cpu    the kernel vector_add_host, on the CPU
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tunefarm/launch.h>

static int (*allocate_managed)(void** address, size_t bytes, unsigned flags), (*synchronize)(void);

/* What is amiss, or NULL. A program with the CUDA toolkit includes <cuda.h> instead. */
static const char* start_device(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
  if (!driver) return "this machine has no CUDA driver (libcuda.so.1)";
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int (*retain)(void**, int) = (int (*)(void**, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*make_current)(void*) = (int (*)(void*))dlsym(driver, "cuCtxSetCurrent");
  allocate_managed = (int (*)(void**, size_t, unsigned))dlsym(driver, "cuMemAllocManaged");
  synchronize = (int (*)(void))dlsym(driver, "cuCtxSynchronize");
  if (!init || !retain || !make_current || !allocate_managed || !synchronize) return "libcuda.so.1 is no CUDA driver";
  return init(0) || retain(&context, 0) || make_current(context) ? "this machine has no CUDA device" : NULL;
}

static int fail(const char* reason) {
  fprintf(stderr, "vector_add: %s\n", reason);
  return 1;
}

int main(int argc, char** argv) {
  const int on_cpu = argc == 3 && strcmp(argv[2], "cpu") == 0;
  const char* amiss = on_cpu ? NULL : argc == 2 ? start_device() : "the arguments are PACKAGE [cpu]";
  if (amiss) return fail(amiss);
  tunefarm_package* package = NULL;
  tunefarm_kernel* kernel = NULL;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  if (tunefarm_package_open(argv[1], &package, &error) ||
      tunefarm_kernel_load(package, on_cpu ? "vector_add_host" : "vector_add", NULL, 0, NULL, &kernel, &error))
    return fail(error.message);
  const int64_t n = 1000003; /* the dim N */
  void* vectors[3];          /* a, b, c */
  for (int i = 0; i < 3; ++i) {
    vectors[i] = on_cpu ? malloc(n * sizeof(float)) : NULL;
    if (!on_cpu) allocate_managed(&vectors[i], n * sizeof(float), 1 /* any stream may use it */);
    if (!vectors[i]) return fail("no memory is left");
    for (int64_t j = 0; j < n; ++j) ((float*)vectors[i])[j] = i < 2 ? (float)(j % 1000 * (i + 1)) : -1;
  }
  tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
  launch.dims = &n, launch.dim_count = 1, launch.arguments = vectors, launch.argument_count = 3;
  if (tunefarm_kernel_launch(kernel, &launch, &error)) return fail(error.message);
  if (!on_cpu && synchronize()) return fail("the launch failed on the device");
  for (int64_t j = 0; j < n; ++j)
    if (((float*)vectors[2])[j] != (float)(j % 1000 * 3)) return fail("c is not a + b");
  return printf("c = a + b for %lld elements\n", (long long)n) < 0;
}
