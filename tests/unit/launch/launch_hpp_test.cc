// The C++ header over the shared library, as its users have it: C++17, without exceptions.
#include <cstdio>
#include <tunefarm/launch.hpp>

namespace {

int failures = 0;

void Expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what);
}

}  // namespace

int main() {
  using tunefarm::launch::Kernel;
  using tunefarm::launch::Package;
  tunefarm::launch::Error error;
  Package package = Package::Open("/nowhere/x.tfpack", &error);
  Expect(!package && error.status() == TUNEFARM_NOT_FOUND && !error.ok(), "there is no such file");
  Expect(std::string_view(error.message()).find("/nowhere/x.tfpack") != std::string_view::npos, "it is named");
  Expect(package.KernelNames().empty(), "and has no kernels");
  package = Package::FromBytes("no package", 10, &error);
  Expect(!package && error.status() == TUNEFARM_BAD_PACKAGE, "these are no package");
  Kernel kernel = package.Load("k", {{"dtype", "bf16"}, {"N", 768}, {"scale", 0.5}, {"causal", true}}, &error);
  Expect(!kernel && error.status() == TUNEFARM_INVALID_ARGUMENT, "nor is there a kernel");
  Expect(!kernel.Update(package, &error) && error.status() == TUNEFARM_INVALID_ARGUMENT, "to be updated");
  tunefarm::launch::Plan plan;
  Expect(!kernel.MakePlan({4096}, &plan, &error) && kernel.ArgumentLength(0, {4096}) == 0, "or a plan");
  Expect(!kernel.Prepare(nullptr, {4096}, {&plan}) && !kernel.Launch(nullptr, {4096}, {&plan}, &error), "or a launch");
  Expect(kernel.dim_count() == 0 && kernel.dim_name(0).empty() && kernel.argument_count() == 0, "or anything of it");
  return failures == 0 ? 0 : 1;
}
