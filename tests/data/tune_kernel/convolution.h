#pragma once

#define INPUT(y, x) input[(y) * (image_width + filter_width - 1) + (x)]
