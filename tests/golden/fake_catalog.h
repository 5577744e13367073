// The catalog that fake_services.h describes: its changes, and what was looked up in vain.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/golden/fake_data.h"
#include "tests/golden/fake_status.h"
#include "tunefarm/v1/catalog_service.grpc.pb.h"

namespace tunefarm::golden {

// Bests of one kernel: that of LookupConfig, pinned and noted, and a plain one.
inline v1::BestConfig PinnedBest() {
  v1::BestConfig best = Best();
  best.set_program_digest("program");
  best.set_pinned(true);
  best.set_note("checked\nby hand");
  best.set_revision(12);
  return best;
}

inline v1::BestConfig PlainBest() {
  v1::BestConfig best = Best();
  best.set_program_digest("program");
  best.mutable_problem()->set_key("N=4096");
  best.mutable_measurement()->set_median_ns(2500);
  best.clear_baseline_ns();
  best.set_job("jobs/18");
  best.set_revision(9);
  return best;
}

class FakeCatalog final : public v1::CatalogService::Service {
 public:
  grpc::Status WatchBestConfigs(grpc::ServerContext*, const v1::WatchBestConfigsRequest* request,
                                grpc::ServerWriter<v1::WatchBestConfigsResponse>* writer) override {
    v1::WatchBestConfigsResponse response;
    response.set_catalog_id("catalog");
    if (request->after_revision() == 0) {
      response.set_reset(true);
      *response.add_bests() = PlainBest();
      writer->Write(response);  // more follows
      response.clear_reset();
      *response.mutable_bests(0) = PinnedBest();
      response.set_revision(12);
      writer->Write(response);
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away");
    }
    if (request->after_revision() != 12 || request->catalog_id() != "catalog") return grpc::Status::OK;
    response.set_revision(12);
    writer->Write(response);  // a heartbeat
    *response.add_retired() = KeyOf(PlainBest());
    response.set_revision(13);
    writer->Write(response);
    return grpc::Status(grpc::StatusCode::INTERNAL, "the end of the story");
  }
  grpc::Status PinBestConfig(grpc::ServerContext*, const v1::PinBestConfigRequest* request,
                             v1::PinBestConfigResponse* response) override {
    *response->mutable_best() = PinnedBest();
    if (request->from_revision() != 0) response->mutable_best()->set_note(request->reason());
    return CheckKey(request->key());
  }
  grpc::Status UnpinBestConfig(grpc::ServerContext*, const v1::UnpinBestConfigRequest* request,
                               v1::UnpinBestConfigResponse* response) override {
    *response->mutable_best() = PlainBest();
    return CheckKey(request->key());
  }
  grpc::Status RetireBestConfig(grpc::ServerContext*, const v1::RetireBestConfigRequest* request,
                                v1::RetireBestConfigResponse* response) override {
    response->set_revision(14);
    return CheckKey(request->key());
  }
  grpc::Status AnnotateBestConfig(grpc::ServerContext*, const v1::AnnotateBestConfigRequest* request,
                                  v1::AnnotateBestConfigResponse* response) override {
    *response->mutable_best() = PlainBest();
    response->mutable_best()->set_note(request->note());
    return CheckKey(request->key());
  }
  grpc::Status ListBestConfigChanges(grpc::ServerContext*, const v1::ListBestConfigChangesRequest* request,
                                     v1::ListBestConfigChangesResponse* response) override {
    if (request->kernel() == "nothing") return grpc::Status::OK;
    // One change a page, so that every list takes several.
    const int revision = request->page_token().empty() ? 12 : std::stoi(request->page_token());
    v1::BestConfigChange* const change = response->add_changes();
    change->set_revision(revision);
    change->set_changed_at_ms(MillisecondsAgo(90 * 60));
    *change->mutable_best() = revision == 9 ? PlainBest() : PinnedBest();
    change->set_kind(revision == 12   ? v1::BEST_CONFIG_CHANGE_KIND_ANNOTATED
                     : revision == 11 ? v1::BEST_CONFIG_CHANGE_KIND_PINNED
                     : revision == 10 ? v1::BEST_CONFIG_CHANGE_KIND_RETIRED
                                      : v1::BEST_CONFIG_CHANGE_KIND_PROMOTED);
    if (revision == 11) change->set_reason("in production");
    if (revision > 9 && !request->has_key()) response->set_next_page_token(std::to_string(revision - 1));
    return grpc::Status::OK;
  }
  grpc::Status ListMisses(grpc::ServerContext*, const v1::ListMissesRequest* request,
                          v1::ListMissesResponse* response) override {
    std::vector<v1::Miss> chosen = Chosen(request->kernel(), request->device_class_id());
    // Two a page, so that every list takes several.
    const size_t first = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    const size_t size = std::min<size_t>(2, static_cast<size_t>(request->page_size()));
    for (size_t i = first; i < std::min(first + size, chosen.size()); ++i) *response->add_misses() = chosen[i];
    if (first + size < chosen.size()) response->set_next_page_token(std::to_string(first + size));
    if (!chosen.empty()) response->set_not_counted(1234);
    return grpc::Status::OK;
  }
  grpc::Status DeleteMisses(grpc::ServerContext*, const v1::DeleteMissesRequest* request,
                            v1::DeleteMissesResponse* response) override {
    response->set_deleted(static_cast<int64_t>(Chosen(request->kernel(), request->device_class_id()).size()));
    return grpc::Status::OK;
  }

 private:
  static std::vector<v1::Miss> Chosen(const std::string& kernel, const std::string& class_id) {
    std::vector<v1::Miss> misses = Misses();
    std::erase_if(misses, [&](const v1::Miss& miss) {
      return (!kernel.empty() && miss.kernel_name() != kernel) ||
             (!class_id.empty() && miss.device_class_id() != class_id);
    });
    return misses;
  }
  static v1::BestConfigKey KeyOf(const v1::BestConfig& best) {
    v1::BestConfigKey key;
    key.set_program_digest(best.program_digest());
    key.set_problem_key(best.problem().key());
    key.set_device_class_id(best.device_class_id());
    return key;
  }
  static grpc::Status CheckKey(const v1::BestConfigKey& key) {
    if (key.problem_key() == "N=1048576" && key.device_class_id() == "cpu-1") return grpc::Status::OK;
    return Missing("there is no best config for " + key.problem_key(), "BEST_NOT_FOUND");
  }
};

}  // namespace tunefarm::golden
