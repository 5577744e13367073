// A kernel whose dims follow every rule of lookups, and a catalog that tests file its bests in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/check.h"
#include "server/catalog/catalog.h"
#include "server/store/best_store.h"

namespace tunefarm {

// N by ratio, G by bucket (up to 8, up to 64), E exactly if nothing else is said; T must divide N. `change` is made
// to the definition before it is compiled.
inline std::shared_ptr<const KernelPlan> Plan(const std::string& options = "", const std::string& name = "scale",
                                              tunefarm::v1::LookupRule rule_of_e = tunefarm::v1::LOOKUP_RULE_EXACT,
                                              const std::function<void(tunefarm::v1::Kernel*)>& change = nullptr) {
  auto kernel = ParseKernelText(R"pb(
                                      display_name: "scale"
                                      language: LANGUAGE_CUDA
                                      sources { path: "scale.cu" }
                                      dims {
                                        name: "N"
                                        default_value { int_value: 1024 }
                                        lookup: LOOKUP_RULE_LOG
                                      }
                                      dims {
                                        name: "G"
                                        default_value { int_value: 4 }
                                        lookup: LOOKUP_RULE_BUCKET
                                        bucket_bounds: [ 8, 64 ]
                                      }
                                      dims {
                                        name: "E"
                                        default_value { int_value: 1 }
                                      }
                                      parameters {
                                        name: "T"
                                        values { ints: [ 32, 64, 96 ] }
                                      }
                                      constraints { expression: "N % T == 0" reason: "whole tiles" }
                                      arguments {
                                        name: "y"
                                        buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
                                      }
                                      launches {
                                        kernel {
                                          entry: "scale"
                                          grid: "N // T"
                                          block: "T"
                                          arguments: [ "y" ]
                                        }
                                      }
                                      reference {
                                        steps {
                                          kernel {
                                            entry: "plain"
                                            grid: "1"
                                            block: "1"
                                            arguments: [ "y" ]
                                          }
                                        }
                                      })pb" +
                                    options,
                                "kernel.pbtxt");
  TUNEFARM_CHECK_OK(kernel);
  kernel->set_display_name(name);
  kernel->mutable_dims(2)->set_lookup(rule_of_e);
  if (change != nullptr) change(&*kernel);
  kernel->mutable_sources(0)->set_content("__global__ void scale(float*) {}");
  auto plan = KernelPlan::Compile(*kernel);
  TUNEFARM_CHECK_OK(plan);
  return *plan;
}

class CatalogCase : public testing::Test {
 protected:
  CatalogCase() : h200_(*FindKnownClass("H200")), h100_(*FindKnownClass("H100")), a100_(*FindKnownClass("A100")) {
    for (const DeviceClass& known : {h200_, h100_, a100_}) catalog_.AddClass(known.Id(), known);
  }

  static ResolvedProblem Problem(const KernelPlan& plan, int64_t n, int64_t g = 4, int64_t e = 1) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["N"].set_int_value(n);
    (*problem.mutable_dims())["G"].set_int_value(g);
    (*problem.mutable_dims())["E"].set_int_value(e);
    auto resolved = plan.ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  }

  void File(const KernelPlan& plan, const ResolvedProblem& problem, const DeviceClass& device_class, int64_t t) {
    FileIn(&catalog_, plan, problem, device_class, t);
  }

  void FileIn(Catalog* catalog, const KernelPlan& plan, const ResolvedProblem& problem, const DeviceClass& device_class,
              int64_t t) {
    tunefarm::v1::BestConfig best;
    *best.mutable_problem() = problem.ToProto();
    (*best.mutable_config()->mutable_values())["T"].set_int_value(t);
    best.set_toolkit_version("13.0");
    BestRow row;
    row.kernel_name = plan.display_name();
    row.program_digest = plan.program_digest();
    row.problem_key = problem.key;
    row.class_id = device_class.Id();
    row.detail = best.SerializeAsString();
    row.revision = ++revision_;
    TUNEFARM_CHECK_OK(catalog->Update(row));
    filed_rows_.push_back(row);
  }

  BestKey Key(const KernelPlan& plan, const ResolvedProblem& problem, const DeviceClass& device_class) const {
    return {plan.program_digest(), problem.key, device_class.Id()};
  }

  CatalogAnswer Ask(const KernelPlan& plan, const ResolvedProblem& problem, const DeviceClass& device_class,
                    const std::string& toolkit = "13.0", tunefarm::v1::Match worst = tunefarm::v1::MATCH_UNSPECIFIED) {
    return AskIn(catalog_, plan, problem, device_class, toolkit, worst);
  }

  static CatalogAnswer AskIn(const Catalog& catalog, const KernelPlan& plan, const ResolvedProblem& problem,
                             const DeviceClass& device_class, const std::string& toolkit, tunefarm::v1::Match worst) {
    const std::string class_id = device_class.Id();
    CatalogQuery query{&plan, &problem, &device_class, class_id, "", toolkit, worst};
    return catalog.Lookup(query);
  }

  static int64_t T(const CatalogAnswer& answer) { return answer.best->config().values().at("T").int_value(); }

  Catalog catalog_;
  const DeviceClass h200_, h100_, a100_;
  int64_t revision_ = 0;
  std::vector<BestRow> filed_rows_;  // in the order in which they were
};

}  // namespace tunefarm
