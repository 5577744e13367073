#include "server/worker/host/kernel_calls.h"

#include <dlfcn.h>
#include <ffi.h>

#include <array>
#include <cstring>
#include <utility>

#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/host/library_gemm.h"

namespace tunefarm {
namespace {

ffi_type* FfiTypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_I8:
      return &ffi_type_sint8;
    case v1::DATA_TYPE_U8:
      return &ffi_type_uint8;
    case v1::DATA_TYPE_I16:
      return &ffi_type_sint16;
    case v1::DATA_TYPE_U16:
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
      return &ffi_type_uint16;
    case v1::DATA_TYPE_I32:
      return &ffi_type_sint32;
    case v1::DATA_TYPE_U32:
      return &ffi_type_uint32;
    case v1::DATA_TYPE_I64:
      return &ffi_type_sint64;
    case v1::DATA_TYPE_U64:
      return &ffi_type_uint64;
    case v1::DATA_TYPE_F32:
      return &ffi_type_float;
    case v1::DATA_TYPE_F64:
      return &ffi_type_double;
    default:
      return nullptr;
  }
}

}  // namespace

struct KernelCalls::Call {
  StepPlan::Kind kind = StepPlan::Kind::kKernel;
  bool timed = true;
  // kKernel. The vectors are filled once; libffi keeps pointers into them.
  void (*entry)() = nullptr;
  ffi_cif cif = {};
  std::vector<ffi_type*> types;
  std::vector<std::array<std::byte, 8>> values;
  std::vector<void*> addresses;
  // kMemset
  std::span<std::byte> memset_target;
  uint8_t memset_byte = 0;
  // kLibraryOp
  HostGemm gemm;
};

KernelCalls::KernelCalls() = default;
KernelCalls::~KernelCalls() = default;
KernelCalls::KernelCalls(KernelCalls&&) noexcept = default;
KernelCalls& KernelCalls::operator=(KernelCalls&&) noexcept = default;

absl::StatusOr<KernelCalls> KernelCalls::Resolve(void* library, const std::vector<StepPlan>& steps,
                                                 const BufferViews& buffers,
                                                 const std::map<std::string, std::string>& lowered_names) {
  KernelCalls calls;
  for (const StepPlan& step : steps) {
    auto call = std::make_unique<Call>();
    call->kind = step.kind;
    call->timed = step.timed;
    if (step.kind == StepPlan::Kind::kMemset) {
      const auto buffer = buffers.find(step.memset_buffer);
      if (buffer == buffers.end()) return InvalidArgument("the memset step names no buffer: {}", step.memset_buffer);
      call->memset_target = buffer->second.bytes;
      call->memset_byte = step.memset_byte;
    } else if (step.kind == StepPlan::Kind::kLibraryOp) {
      ASSIGN_OR_RETURN(call->gemm, PlanHostGemm(step, buffers));
    } else {
      const auto lowered = lowered_names.find(step.entry);
      const std::string& symbol = lowered == lowered_names.end() ? step.entry : lowered->second;
      void* const address = library == nullptr ? nullptr : dlsym(library, symbol.c_str());
      if (address == nullptr) {
        return NotFound("the binary has no entry '{}'; is it declared extern \"C\" and not static?", symbol);
      }
      call->entry = reinterpret_cast<void (*)()>(address);
      for (const std::string& argument : step.arguments) {
        std::array<std::byte, 8> value = {};
        if (const auto scalar = step.scalars.find(argument); scalar != step.scalars.end()) {
          value = scalar->second.bytes;
          call->types.push_back(FfiTypeOf(scalar->second.type));
        } else if (const auto buffer = buffers.find(argument); buffer != buffers.end()) {
          std::byte* const data = buffer->second.bytes.data();
          std::memcpy(value.data(), &data, sizeof(data));
          call->types.push_back(&ffi_type_pointer);
        } else {
          call->types.push_back(nullptr);
        }
        if (call->types.back() == nullptr) {
          return InvalidArgument(
              "argument {} of {} is neither a buffer nor a scalar, and a host kernel can take no other", argument,
              step.entry);
        }
        call->values.push_back(value);
      }
      for (std::array<std::byte, 8>& value : call->values) call->addresses.push_back(value.data());
      if (ffi_prep_cif(&call->cif, FFI_DEFAULT_ABI, static_cast<unsigned>(call->types.size()), &ffi_type_void,
                       call->types.data()) != FFI_OK) {
        return InvalidArgument("{} cannot be called with its {} arguments", step.entry, call->types.size());
      }
    }
    calls.calls_.push_back(std::move(call));
  }
  return calls;
}

int64_t KernelCalls::Run() {
  Clock* const clock = Clock::Real();
  int64_t total_ns = 0;
  MonotonicTime start = {};
  bool timing = false;
  for (const std::unique_ptr<Call>& call : calls_) {
    if (call->timed != timing) {
      if (timing) total_ns += (clock->Now() - start).count();
      if (call->timed) start = clock->Now();
      timing = call->timed;
    }
    switch (call->kind) {
      case StepPlan::Kind::kKernel:
        ffi_call(&call->cif, call->entry, nullptr, call->addresses.data());
        break;
      case StepPlan::Kind::kMemset:
        std::memset(call->memset_target.data(), call->memset_byte, call->memset_target.size());
        break;
      case StepPlan::Kind::kLibraryOp:
        RunHostGemm(call->gemm);
        break;
    }
  }
  if (timing) total_ns += (clock->Now() - start).count();
  return total_ns;
}

}  // namespace tunefarm
