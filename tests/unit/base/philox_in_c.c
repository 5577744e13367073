// philox.h must stay valid C.
#include "server/base/philox.h"

void PhiloxInC(const unsigned int counter[4], const unsigned int key[2], unsigned int output[4]);
void PhiloxInC(const unsigned int counter[4], const unsigned int key[2], unsigned int output[4]) {
  tunefarm_philox4x32_10(counter, key, output);
}
