/* launch.h from C99: what a program without a GPU and without a package sees. */
#include <stdio.h>
#include <string.h>
#include <tunefarm/launch.h>

static int failures = 0;

static void expect(int holds, const char* what, const tunefarm_error* error) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "FAILED: %s (%s)\n", what, error->message);
}

int main(void) {
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  tunefarm_package* package = NULL;
  tunefarm_kernel* kernel = NULL;
  tunefarm_plan plan = TUNEFARM_PLAN_INIT;
  tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
  tunefarm_argument argument = TUNEFARM_ARGUMENT_INIT;
  tunefarm_load_options options = TUNEFARM_LOAD_OPTIONS_INIT;
  tunefarm_dim dim = {"dtype", TUNEFARM_STRING, {0}};
  struct {
    size_t size;
    char message[8];
  } small = {sizeof(small), {0}};
  dim.value.text = "bf16";

  expect(options.device == -1, "the current device is the default", &error);
  expect(tunefarm_launch_version() > 0, "a version", &error);
  expect(tunefarm_package_open("/nowhere/x.tfpack", &package, &error) == TUNEFARM_NOT_FOUND, "no file", &error);
  expect(strcmp(error.message, "The package /nowhere/x.tfpack cannot be opened: No such file or directory.") == 0,
         "its sentence", &error);
  expect(package == NULL, "no package", &error);
  expect(tunefarm_package_open("/nowhere/x.tfpack", &package, NULL) == TUNEFARM_NOT_FOUND, "without an error", &error);
  expect(tunefarm_package_open("/nowhere", &package, (tunefarm_error*)&small) == TUNEFARM_NOT_FOUND, "a small error",
         &error);
  expect(strcmp(small.message, "The pac") == 0, "which is cut", &error);
  expect(tunefarm_package_open_bytes("no package", 10, &package, &error) == TUNEFARM_BAD_PACKAGE, "no package", &error);
  expect(tunefarm_kernel_load(package, "k", &dim, 1, &options, &kernel, &error) == TUNEFARM_INVALID_ARGUMENT, "NULL",
         &error);
  expect(strcmp(error.message, "The argument 'package' of the call is NULL.") == 0, "its sentence", &error);
  expect(tunefarm_kernel_update(kernel, package, &error) == TUNEFARM_INVALID_ARGUMENT, "no update", &error);
  expect(tunefarm_kernel_plan(kernel, NULL, 0, &plan, &error) == TUNEFARM_INVALID_ARGUMENT, "no plan", &error);
  expect(tunefarm_kernel_argument(kernel, 0, &argument, &error) == TUNEFARM_INVALID_ARGUMENT, "no argument", &error);
  expect(tunefarm_kernel_prepare(kernel, &launch, &error) == TUNEFARM_INVALID_ARGUMENT, "no preparation", &error);
  expect(tunefarm_kernel_launch(kernel, &launch, &error) == TUNEFARM_INVALID_ARGUMENT, "no launch", &error);
  expect(tunefarm_kernel_dim_name(kernel, 0) == NULL && tunefarm_kernel_dim_count(kernel) == 0, "no dims", &error);
  expect(tunefarm_package_kernel_name(package, 0) == NULL, "no kernels", &error);
  tunefarm_kernel_close(kernel);
  tunefarm_package_close(package);
  return failures == 0 ? 0 : 1;
}
