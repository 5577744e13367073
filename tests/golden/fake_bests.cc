#include "tests/golden/fake_bests.h"

#include "server/base/check.h"
#include "server/definition/value_proto.h"
#include "server/expression/config.h"

namespace tunefarm::golden {
namespace {

// From "A=1,B=true", as configs are written everywhere.
template <typename Map>
void Fill(const std::string& text, Map* values) {
  const auto config = Config::FromText(text);
  TUNEFARM_CHECK_OK(config);
  for (const auto& [name, value] : *config) (*values)[name] = definition::ToProto(value);
}

v1::BestConfig Best(const std::string& kernel, const std::string& device, const std::string& dims,
                    const std::string& config, double median_ns, double baseline_ns) {
  v1::BestConfig best;
  best.set_kernel_name(kernel);
  best.set_program_digest("program");
  best.mutable_problem()->set_key(dims);
  Fill(dims, best.mutable_problem()->mutable_dims());
  best.set_device_class_id(device == "NVIDIA H200" ? "nvidia_h200-1" : device == "Example CPU" ? "cpu-1" : "cpu-2");
  best.set_device_class_name(device);
  Fill(config, best.mutable_config()->mutable_values());
  best.mutable_measurement()->set_median_ns(median_ns);
  best.mutable_measurement()->set_ci_low_ns(0.99 * median_ns);
  best.mutable_measurement()->set_ci_high_ns(1.01 * median_ns);
  best.mutable_measurement()->set_samples(100);
  best.set_baseline_ns(baseline_ns);
  if (baseline_ns > 0) best.set_baseline_label("default config");
  best.set_job("jobs/17");
  best.set_ordinal(7);
  best.set_promoted_at_ms(1'700'000'000'000);
  return best;
}

std::string Layer(int topk, int64_t tokens) {
  return "E=128,K=2048,N=1536,dtype=bf16,fuse_mul_post=false,permute_x=true,permute_y=false,tokens=" +
         std::to_string(tokens) + ",topk=" + std::to_string(topk);
}

std::string Tiles(int m, int n, int k, int warps, int stages, const std::string& path) {
  return "BLOCK_SIZE_M=" + std::to_string(m) + ",BLOCK_SIZE_N=" + std::to_string(n) +
         ",BLOCK_SIZE_K=" + std::to_string(k) + ",GROUP_SIZE_M=8,num_warps=" + std::to_string(warps) +
         ",num_stages=" + std::to_string(stages) + ",path=" + path +
         ",use_tma_load_w=" + (path == "hopper" ? "true" : "false") + ",use_tma_load_x=false,use_tma_store=false";
}

constexpr int64_t kTokens[] = {1, 64, 1024};

}  // namespace

std::vector<v1::BestConfig> CatalogBests() {
  const std::string gpu = "NVIDIA H200", grouped = "grouped_gemm_forward";
  std::vector<v1::BestConfig> bests = {
      Best("scale_host", "Example CPU", "N=1048576", "CHUNK=8192,UNROLL=4", 41200, 95000),
      Best("scale_host", "Example CPU", "N=4096", "CHUNK=256,UNROLL=8", 1250, 0),
      Best("scale_host", "Other CPU", "N=4096", "CHUNK=512,UNROLL=8", 2500, 5000),
      Best(grouped, gpu, Layer(8, 64), Tiles(16, 128, 64, 4, 4, "portable"), 210000, 350000),
      Best(grouped, gpu, Layer(8, 1), Tiles(16, 64, 64, 4, 5, "portable"), 40000, 61000),
      Best(grouped, gpu, Layer(8, 1024), Tiles(128, 192, 64, 12, 4, "hopper"), 480000, 910000),
      Best(grouped, gpu, Layer(8, 4096), Tiles(128, 256, 64, 8, 3, "hopper"), 1450000, 2900000),
      Best(grouped, gpu, Layer(4, 64), Tiles(32, 128, 64, 4, 4, "portable"), 120000, 200000),
      Best("gemm", gpu, "K=1024,M=8,N=4096,dtype=bf16", "BM=16,BN=64,BK=64,GROUP_SIZE_M=1,num_warps=4,num_stages=4",
           9000, 0),
      Best("gemm", gpu, "K=1024,M=500,N=4096,dtype=bf16", "BM=64,BN=128,BK=64,GROUP_SIZE_M=4,num_warps=8,num_stages=3",
           15000, 0),
      Best("gemm", gpu, "K=1024,M=512,N=4096,dtype=bf16", "BM=128,BN=128,BK=64,GROUP_SIZE_M=8,num_warps=8,num_stages=3",
           15500, 0),
      Best("gemm", gpu, "K=1024,M=512,N=512,dtype=bf16", "BM=64,BN=64,BK=32,GROUP_SIZE_M=8,num_warps=4,num_stages=3",
           5500, 0),
  };
  for (size_t i = 0; i < bests.size(); ++i) bests[i].set_revision(static_cast<int64_t>(i) + 1);
  bests[2].set_program_digest("older program");
  bests[0].set_note("the usual size | by hand");
  bests[0].set_pinned(true);
  return bests;
}

v1::Job GroupedJob() {
  v1::Job job;
  job.set_name("jobs/27");
  job.set_kernel_name("grouped_gemm_forward");
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  for (int number = 1; number <= 3; ++number) {
    v1::Study* const study = job.add_studies();
    study->set_name("jobs/27/studies/" + std::to_string(number));
    Fill(Layer(8, kTokens[number - 1]), study->mutable_problem()->mutable_dims());
    study->mutable_problem()->set_key(Layer(8, kTokens[number - 1]));
    study->set_device_class_id("nvidia_h200-1");
    study->set_device_class_name("NVIDIA H200");
    study->set_state(v1::STUDY_STATE_ENDED);
    study->mutable_baseline()->mutable_measurement()->set_median_ns(600000.0 * number);
  }
  return job;
}

std::vector<v1::Trial> GroupedTrials(int study) {
  const std::string configs[] = {Tiles(128, 192, 64, 12, 4, "hopper"), Tiles(64, 128, 64, 8, 4, "hopper"),
                                 Tiles(64, 64, 64, 4, 3, "portable")};
  std::vector<v1::Trial> trials;
  for (int i = 0; i < 3; ++i) {
    v1::Trial trial;
    trial.set_name("jobs/27/studies/" + std::to_string(study) + "/trials/" + std::to_string(i));
    trial.set_ordinal(i);
    trial.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
    trial.set_outcome(v1::OUTCOME_OK);
    Fill(configs[i], trial.mutable_config()->mutable_values());
    trial.mutable_measurement()->set_median_ns(200000.0 * study * (i + 2) / 2);
    trials.push_back(std::move(trial));
  }
  trials[2].set_outcome(study == 3 ? v1::OUTCOME_WRONG_RESULT : v1::OUTCOME_OK);
  return trials;
}

}  // namespace tunefarm::golden
