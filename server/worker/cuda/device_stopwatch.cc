#include "server/worker/cuda/device_stopwatch.h"

namespace tunefarm::cuda {

DeviceStopwatch::~DeviceStopwatch() {
  for (CUevent event : {begin_, end_}) {
    if (event != nullptr) (void)gpu_.driver().cuEventDestroy(event);
  }
}

Failure DeviceStopwatch::Start() {
  const Driver& driver = gpu_.driver();
  for (CUevent* event : {&begin_, &end_}) {
    if (*event != nullptr) continue;
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuEventCreate(event, CU_EVENT_DEFAULT), "An event could not be made"));
  }
  return driver.Check(driver.cuEventRecordWithFlags(begin_, gpu_.stream(), CU_EVENT_RECORD_DEFAULT),
                      "An event could not be recorded");
}

Failure DeviceStopwatch::Stop() {
  const Driver& driver = gpu_.driver();
  return driver.Check(driver.cuEventRecordWithFlags(end_, gpu_.stream(), CU_EVENT_RECORD_DEFAULT),
                      "An event could not be recorded");
}

Failure DeviceStopwatch::Add() {
  const Driver& driver = gpu_.driver();
  float milliseconds = 0;
  TUNEFARM_RETURN_IF_FAILED(
      driver.Check(driver.cuEventElapsedTime(&milliseconds, begin_, end_), "A time could not be read"));
  milliseconds_ += static_cast<double>(milliseconds);
  return {};
}

Failure DeviceStopwatch::Time(const std::function<Failure()>& work) {
  TUNEFARM_RETURN_IF_FAILED(Start());
  TUNEFARM_RETURN_IF_FAILED(work());
  TUNEFARM_RETURN_IF_FAILED(Stop());
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize("The kernel crashed"));
  return Add();
}

}  // namespace tunefarm::cuda
