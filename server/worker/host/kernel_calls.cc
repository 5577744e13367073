#include "server/worker/host/kernel_calls.h"

#include <dlfcn.h>
#include <ffi.h>

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

ffi_type* FfiTypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_I8:
      return &ffi_type_sint8;
    case v1::DATA_TYPE_U8:
    case v1::DATA_TYPE_F8E4M3:
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
    case v1::DATA_TYPE_UNSPECIFIED:
      return &ffi_type_pointer;
    default:
      return nullptr;
  }
}

absl::StatusOr<HostCall> PlanKernelCall(const StepPlan& step, const BufferViews& buffers,
                                        const std::map<std::string, std::string>& lowered_names) {
  HostCall call;
  const auto lowered = lowered_names.find(step.entry);
  call.symbol = lowered == lowered_names.end() ? step.entry : lowered->second;
  for (const std::string& argument : step.arguments) {
    std::array<std::byte, 8> value = {};
    v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
    bool known = false;
    if (const auto scalar = step.scalars.find(argument); scalar != step.scalars.end()) {
      value = scalar->second.bytes;
      type = scalar->second.type;
      known = type != v1::DATA_TYPE_UNSPECIFIED && FfiTypeOf(type) != nullptr;
    } else if (const auto buffer = buffers.find(argument); buffer != buffers.end()) {
      std::byte* const data = buffer->second.bytes.data();
      std::memcpy(value.data(), &data, sizeof(data));
      known = true;
    }
    if (!known) {
      return InvalidArgument("argument {} of {} is neither a buffer nor a scalar, and a host kernel can take no other",
                             argument, step.entry);
    }
    call.types.push_back(type);
    call.values.push_back(value);
  }
  return call;
}

// Plain values one after another, as they lie in memory.
class Writer {
 public:
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <typename Elements>
  void PutAll(const Elements& elements) {
    Put(static_cast<uint32_t>(elements.size()));
    bytes_.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(*elements.data()));
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <typename T>
  void Get(T* value) {
    if (ok_ && left_.size() >= sizeof(*value)) {
      std::memcpy(static_cast<void*>(value), left_.data(), sizeof(*value));
      left_.remove_prefix(sizeof(*value));
    } else {
      ok_ = false;
    }
  }
  template <typename Elements>
  void GetAll(Elements* elements) {
    uint32_t count = 0;
    Get(&count);
    const size_t bytes = size_t{count} * sizeof(*elements->data());
    if (!ok_ || left_.size() < bytes) {
      ok_ = false;
      return;
    }
    elements->resize(count);
    if (bytes > 0) std::memcpy(elements->data(), left_.data(), bytes);
    left_.remove_prefix(bytes);
  }
  bool ok() const { return ok_; }

 private:
  std::string_view left_;
  bool ok_ = true;
};

void Encode(const std::vector<HostCall>& calls, Writer* writer) {
  writer->Put(static_cast<uint32_t>(calls.size()));
  for (const HostCall& call : calls) {
    writer->Put(call.kind);
    writer->Put(call.timed);
    writer->PutAll(call.symbol);
    writer->PutAll(call.types);
    writer->PutAll(call.values);
    writer->Put(call.memset_target);
    writer->Put(call.memset_byte);
  }
}

void Decode(Reader* reader, std::vector<HostCall>* calls) {
  uint32_t count = 0;
  reader->Get(&count);
  calls->clear();
  for (uint32_t i = 0; i < count && reader->ok(); ++i) {
    HostCall& call = calls->emplace_back();
    reader->Get(&call.kind);
    reader->Get(&call.timed);
    reader->GetAll(&call.symbol);
    reader->GetAll(&call.types);
    reader->GetAll(&call.values);
    reader->Get(&call.memset_target);
    reader->Get(&call.memset_byte);
  }
}

}  // namespace

absl::StatusOr<std::vector<HostCall>> PlanCalls(const std::vector<StepPlan>& steps, const BufferViews& buffers,
                                                const std::map<std::string, std::string>& lowered_names) {
  std::vector<HostCall> calls;
  calls.reserve(steps.size());
  for (const StepPlan& step : steps) {
    HostCall call;
    if (step.kind == StepPlan::Kind::kMemset) {
      const auto buffer = buffers.find(step.memset_buffer);
      if (buffer == buffers.end()) return InvalidArgument("the memset step names no buffer: {}", step.memset_buffer);
      call.memset_target = buffer->second.bytes;
      call.memset_byte = step.memset_byte;
    } else if (step.kind == StepPlan::Kind::kLibraryOp) {
      ASSIGN_OR_RETURN(call.gemm, PlanHostGemm(step, buffers));
    } else {
      ASSIGN_OR_RETURN(call, PlanKernelCall(step, buffers, lowered_names));
    }
    call.kind = step.kind;
    call.timed = step.timed;
    calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<bool> StretchesOf(const std::vector<HostCall>& calls) {
  std::vector<bool> stretches;
  for (const HostCall& call : calls) {
    if (stretches.empty() || stretches.back() != call.timed) stretches.push_back(call.timed);
  }
  return stretches;
}

std::string EncodeSequences(const HostSequences& sequences) {
  Writer writer;
  Encode(sequences.prepare, &writer);
  Encode(sequences.launches, &writer);
  return writer.Take();
}

bool DecodeSequences(std::string_view bytes, HostSequences* sequences) {
  Reader reader(bytes);
  Decode(&reader, &sequences->prepare);
  Decode(&reader, &sequences->launches);
  return reader.ok();
}

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

absl::StatusOr<KernelCalls> KernelCalls::Resolve(void* library, const std::vector<HostCall>& planned) {
  KernelCalls calls;
  calls.calls_.reserve(planned.size());
  for (const HostCall& plan : planned) {
    auto call = std::make_unique<Call>();
    call->kind = plan.kind;
    call->timed = plan.timed;
    call->memset_target = plan.memset_target;
    call->memset_byte = plan.memset_byte;
    call->gemm = plan.gemm;
    if (plan.kind == StepPlan::Kind::kKernel) {
      void* const address = library == nullptr ? nullptr : dlsym(library, plan.symbol.c_str());
      if (address == nullptr) {
        return NotFound("the binary has no entry '{}'; declare it extern \"C\", and not static", plan.symbol);
      }
      call->entry = reinterpret_cast<void (*)()>(address);
      call->values = plan.values;
      call->types.reserve(plan.types.size());
      for (const v1::DataType type : plan.types) call->types.push_back(FfiTypeOf(type));
      call->addresses.reserve(plan.types.size());
      for (std::array<std::byte, 8>& value : call->values) call->addresses.push_back(value.data());
      if (ffi_prep_cif(&call->cif, FFI_DEFAULT_ABI, static_cast<unsigned>(call->types.size()), &ffi_type_void,
                       call->types.data()) != FFI_OK) {
        return InvalidArgument("{} cannot be called with its {} arguments", plan.symbol, call->types.size());
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
    Make(call.get());
  }
  if (timing) total_ns += (clock->Now() - start).count();
  return total_ns;
}

void KernelCalls::RunStretch(size_t stretch) {
  size_t at = 0;
  for (size_t i = 0; i < calls_.size() && at <= stretch; ++i) {
    if (i > 0 && calls_[i]->timed != calls_[i - 1]->timed) ++at;
    if (at == stretch) Make(calls_[i].get());
  }
}

void KernelCalls::Make(Call* call) {
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

}  // namespace tunefarm
