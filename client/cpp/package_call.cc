// The client's call for a package.

#include <utility>

#include "client/cpp/client_impl.h"
#include "tunefarm/client/client.h"

namespace tunefarm::client {
namespace {

// Compiling takes longer than other calls.
constexpr Duration kPackageTimeout = std::chrono::minutes(10);

}  // namespace

Result<Package> Client::Impl::ExportPackage(const v1::ExportPackageRequest& request, Duration timeout) {
  if (is_offline()) return Status{Code::kUnimplemented, "there is no daemon behind a snapshot file", "OFFLINE"};
  const MonotonicTime end = Clock::Real()->Now() + timeout;
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  if (!calls_->Add(&context)) return Status{Code::kCancelled, "the client was closed", "CLOSED"};
  Package package;
  int64_t file_bytes = 0;
  v1::ExportPackageResponse response;
  auto reader = packages_->ExportPackage(&context, request);
  while (reader->Read(&response)) {
    if (response.has_contents()) {
      file_bytes = response.contents().file_bytes();
      package.bests = response.contents().bests();
      package.left_out.assign(response.contents().left_out().begin(), response.contents().left_out().end());
    }
    package.bytes += response.data();
  }
  const grpc::Status status = reader->Finish();
  reader.reset();
  calls_->Remove(&context);
  if (!status.ok()) return Explained(status, end - Clock::Real()->Now());
  if (package.bytes.empty() || static_cast<int64_t>(package.bytes.size()) != file_bytes) {
    return Status{Code::kInternal,
                  "the daemon sent " + std::to_string(package.bytes.size()) + " bytes of a package of " +
                      std::to_string(file_bytes),
                  "PACKAGE_CUT"};
  }
  return package;
}

Result<Package> Client::ExportPackage(const PackageSpec& spec, std::chrono::milliseconds timeout) const {
  v1::ExportPackageRequest request;
  request.set_kernel(spec.kernel);
  request.set_device_class(spec.device);
  for (const auto& [name, values] : spec.dims) {
    v1::DimFilter* const dim = request.add_dims();
    dim->set_dim(name);
    for (const Value& value : values) dim->add_values(value.ToText());
  }
  return impl_->ExportPackage(request, timeout.count() > 0 ? Duration(timeout) : kPackageTimeout);
}

}  // namespace tunefarm::client
