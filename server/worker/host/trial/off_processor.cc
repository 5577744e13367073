#include "server/worker/host/trial/off_processor.h"

namespace tunefarm {

OffProcessor::OffProcessor(int processor) {
  if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof(allowed_), &allowed_) != 0) return;
  cpu_set_t others = allowed_;
  CPU_CLR(static_cast<unsigned>(processor), &others);
  is_off_ = CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0;
}

OffProcessor::~OffProcessor() {
  if (is_off_) (void)sched_setaffinity(0, sizeof(allowed_), &allowed_);
}

}  // namespace tunefarm
