#include "server/definition/kernel_plan.h"
