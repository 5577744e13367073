// tunefarm/launch.hpp: tunefarm/launch.h for C++17. Header only; nothing throws but std::bad_alloc.
//
//   tunefarm::launch::Error error;
//   auto package = tunefarm::launch::Package::Open("moe.tfpack", &error);
//   auto kernel = package.Load("grouped_gemm", {{"dtype", "bf16"}, {"N", 768}}, &error);
//   if (!kernel.Launch(stream, {tokens}, {x, w, y}, &error)) std::puts(error.message());
//
// A function that fails returns an empty object or false, and says why in *error, which may be nullptr. Functions of an
// empty object fail with INVALID_ARGUMENT. Objects are moved, not copied, and close what they hold.
//
// Threads: as in launch.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tunefarm/launch.h"

namespace tunefarm::launch {

class Error {
 public:
  tunefarm_status status() const { return status_; }
  bool ok() const { return status_ == TUNEFARM_OK; }
  // One sentence; empty after success.
  const char* message() const { return text_.message; }

 private:
  friend class Package;
  friend class Kernel;
  static tunefarm_error* Text(Error* error) { return error == nullptr ? nullptr : &error->text_; }
  static bool Keep(tunefarm_status status, Error* error) {
    if (error != nullptr) error->status_ = status;
    return status == TUNEFARM_OK;
  }

  tunefarm_status status_ = TUNEFARM_OK;
  tunefarm_error text_ = TUNEFARM_ERROR_INIT;
};

// A dim of a problem: {"M", 4096}, {"dtype", "bf16"}, {"scale", 0.5}, {"causal", true}.
class Dim {
 public:
  Dim(std::string name, bool value) : Dim(std::move(name), TUNEFARM_BOOL) { dim_.value.number = value ? 1 : 0; }
  Dim(std::string name, int value) : Dim(std::move(name), static_cast<int64_t>(value)) {}
  Dim(std::string name, int64_t value) : Dim(std::move(name), TUNEFARM_INT) { dim_.value.number = value; }
  Dim(std::string name, double value) : Dim(std::move(name), TUNEFARM_FLOAT) { dim_.value.real = value; }
  Dim(std::string name, const char* value) : Dim(std::move(name), TUNEFARM_STRING) { text_ = value; }
  Dim(std::string name, std::string value) : Dim(std::move(name), TUNEFARM_STRING) { text_ = std::move(value); }

  // Valid as long as this.
  tunefarm_dim Get() const {
    tunefarm_dim dim = dim_;
    dim.name = name_.c_str();
    if (dim.type == TUNEFARM_STRING) dim.value.text = text_.c_str();
    return dim;
  }

 private:
  Dim(std::string name, tunefarm_value_type type) : name_(std::move(name)) { dim_.type = type; }

  std::string name_, text_;
  tunefarm_dim dim_ = {};
};

using Plan = tunefarm_plan;
using Dims = std::initializer_list<int64_t>;
using Arguments = std::initializer_list<void*>;

class Package;

class Kernel {
 public:
  Kernel() = default;
  explicit operator bool() const { return kernel_ != nullptr; }
  // For the functions of launch.h.
  tunefarm_kernel* get() const { return kernel_.get(); }

  // -1: it runs on the CPU.
  int device() const { return tunefarm_kernel_device(get()); }
  size_t dim_count() const { return tunefarm_kernel_dim_count(get()); }
  std::string_view dim_name(size_t index) const { return Text(tunefarm_kernel_dim_name(get(), index)); }
  size_t argument_count() const { return tunefarm_kernel_argument_count(get()); }
  bool Argument(size_t index, tunefarm_argument* argument, Error* error = nullptr) const {
    *argument = TUNEFARM_ARGUMENT_INIT;
    return Error::Keep(tunefarm_kernel_argument(get(), index, argument, Error::Text(error)), error);
  }

  // Takes over what another package has for it.
  bool Update(const Package& package, Error* error = nullptr);

  bool MakePlan(Dims dims, Plan* plan, Error* error = nullptr) const {
    *plan = TUNEFARM_PLAN_INIT;
    return Error::Keep(tunefarm_kernel_plan(get(), dims.begin(), dims.size(), plan, Error::Text(error)), error);
  }
  // Elements; 0 after an error.
  uint64_t ArgumentLength(size_t index, Dims dims, Error* error = nullptr) const {
    uint64_t length = 0;
    Error::Keep(tunefarm_kernel_argument_length(get(), index, dims.begin(), dims.size(), &length, Error::Text(error)),
                error);
    return length;
  }

  // Work space of a plan, and its generation; a default one for a kernel that needs none.
  struct Workspace {
    void* data = nullptr;
    uint64_t bytes = 0;
    uint64_t generation = 0;
  };
  bool Prepare(void* stream, Dims dims, Arguments arguments, Error* error = nullptr) const {
    return Prepare(stream, dims, arguments, Workspace(), error);
  }
  bool Prepare(void* stream, Dims dims, Arguments arguments, const Workspace& workspace, Error* error = nullptr) const {
    const tunefarm_launch launch = Fill(stream, dims, arguments, workspace);
    return Error::Keep(tunefarm_kernel_prepare(get(), &launch, Error::Text(error)), error);
  }
  bool Launch(void* stream, Dims dims, Arguments arguments, Error* error = nullptr) const {
    return Launch(stream, dims, arguments, Workspace(), error);
  }
  bool Launch(void* stream, Dims dims, Arguments arguments, const Workspace& workspace, Error* error = nullptr) const {
    const tunefarm_launch launch = Fill(stream, dims, arguments, workspace);
    return Error::Keep(tunefarm_kernel_launch(get(), &launch, Error::Text(error)), error);
  }

 private:
  friend class Package;
  struct Close {
    void operator()(tunefarm_kernel* kernel) const { tunefarm_kernel_close(kernel); }
  };
  explicit Kernel(tunefarm_kernel* kernel) : kernel_(kernel) {}
  static std::string_view Text(const char* text) { return text == nullptr ? std::string_view() : text; }
  static tunefarm_launch Fill(void* stream, Dims dims, Arguments arguments, const Workspace& workspace) {
    tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
    launch.stream = stream;
    launch.dims = dims.begin();
    launch.dim_count = dims.size();
    launch.arguments = arguments.begin();
    launch.argument_count = arguments.size();
    launch.workspace = workspace.data;
    launch.workspace_bytes = workspace.bytes;
    launch.generation = workspace.generation;
    return launch;
  }

  std::unique_ptr<tunefarm_kernel, Close> kernel_;
};

class Package {
 public:
  Package() = default;
  static Package Open(const std::string& path, Error* error = nullptr) {
    tunefarm_package* package = nullptr;
    Error::Keep(tunefarm_package_open(path.c_str(), &package, Error::Text(error)), error);
    return Package(package);
  }
  // The bytes are copied.
  static Package FromBytes(const void* bytes, size_t size, Error* error = nullptr) {
    tunefarm_package* package = nullptr;
    Error::Keep(tunefarm_package_open_bytes(bytes, size, &package, Error::Text(error)), error);
    return Package(package);
  }

  explicit operator bool() const { return package_ != nullptr; }
  tunefarm_package* get() const { return package_.get(); }

  std::vector<std::string> KernelNames() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < tunefarm_package_kernel_count(get()); ++i) {
      names.emplace_back(tunefarm_package_kernel_name(get(), i));
    }
    return names;
  }

  // `device`: a CUDA device by the driver's number; -1: that of the current context.
  Kernel Load(const std::string& name, const std::vector<Dim>& dims, Error* error = nullptr, int device = -1) const {
    std::vector<tunefarm_dim> given;
    for (const Dim& dim : dims) given.push_back(dim.Get());
    tunefarm_load_options options = TUNEFARM_LOAD_OPTIONS_INIT;
    options.device = device;
    tunefarm_kernel* kernel = nullptr;
    Error::Keep(
        tunefarm_kernel_load(get(), name.c_str(), given.data(), given.size(), &options, &kernel, Error::Text(error)),
        error);
    return Kernel(kernel);
  }

 private:
  struct Close {
    void operator()(tunefarm_package* package) const { tunefarm_package_close(package); }
  };
  explicit Package(tunefarm_package* package) : package_(package) {}

  std::unique_ptr<tunefarm_package, Close> package_;
};

inline bool Kernel::Update(const Package& package, Error* error) {
  return Error::Keep(tunefarm_kernel_update(get(), package.get(), Error::Text(error)), error);
}

}  // namespace tunefarm::launch
