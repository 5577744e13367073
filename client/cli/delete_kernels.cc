#include "client/cli/delete_kernels.h"

#include <fmt/core.h>

#include <vector>

#include "client/cli/options/kernel_argument.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Service = v1::KernelService::StubInterface;

constexpr std::string_view kIdPrefix = "kernels/";

// What is stored under the name, or under one that `text` is the id of, newest first.
absl::StatusOr<std::vector<v1::Kernel>> StoredVersions(Connection* connection, const std::string& text) {
  const bool is_id = text.rfind(kIdPrefix, 0) == 0;
  const size_t at = is_id ? std::string::npos : text.find('@');
  const std::string name = text.substr(0, at);
  const std::string version = at == std::string::npos ? "" : text.substr(at + 1);
  if (at != std::string::npos && version.empty()) return InvalidArgument("'{}': write NAME or NAME@VERSION", text);
  std::vector<v1::Kernel> versions;
  v1::ListKernelsRequest request;
  request.set_page_size(1000);
  do {
    ASSIGN_OR_RETURN(const v1::ListKernelsResponse page,
                     Connection::Call(connection->kernels(), &Service::ListKernels, request));
    for (const v1::Kernel& kernel : page.kernels()) {
      const bool is_meant = is_id ? kernel.name() == text
                                  : kernel.display_name() == name &&
                                        kernel.name().compare(kIdPrefix.size(), version.size(), version) == 0;
      if (is_meant) versions.push_back(kernel);
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (versions.empty()) return NotFound("no kernel '{}' is stored; tunefarm kernels list shows all", text);
  if (!version.empty() && versions.size() > 1) {
    return InvalidArgument("'{}' stands for {} stored definitions; write more digits of the version", text,
                           versions.size());
  }
  return versions;
}

}  // namespace

absl::StatusOr<ExitCode> DeleteKernels(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const std::vector<v1::Kernel> versions, StoredVersions(connection, text));
  if (versions.size() > 1 &&
      !session->Confirm(fmt::format("Delete all {} stored definitions of {}?", versions.size(), text))) {
    session->Note("Nothing was deleted.");
    return kExitOk;
  }
  for (const v1::Kernel& kernel : versions) {
    v1::DeleteKernelRequest request;
    request.set_name(kernel.name());
    RETURN_IF_ERROR(Connection::Call(connection->kernels(), &Service::DeleteKernel, request).status());
    session->Note(fmt::format("{} is deleted; best configs and ended jobs stay.",
                              VersionText(kernel.display_name(), kernel.name())));
  }
  return kExitOk;
}

}  // namespace tunefarm::cli
