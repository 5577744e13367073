"""What the good configs do."""

import numpy


def inputs(elements, seed):
    return numpy.random.default_rng(seed).standard_normal(elements, dtype=numpy.float32)


def doubled(x, y, chunk, chunks):
    for at in range(chunks):
        numpy.multiply(x[at * chunk:(at + 1) * chunk], 2, out=y[at * chunk:(at + 1) * chunk])
    return y
