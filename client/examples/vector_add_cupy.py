"""c = a + b by the tuned kernel of a package, on arrays of CuPy: once by itself, and in a CUDA graph.

    tunefarm export package vector_add.tfpack --kernel vector_add
    python3 vector_add_cupy.py vector_add.tfpack
"""

import sys

import tunefarm.launch

try:
    import cupy
except ImportError:
    sys.exit("vector_add_cupy.py: CuPy is not installed; pip install cupy-cuda12x, or -cuda13x")


def main(path, count=1 << 20):
    a, b = cupy.random.rand(2, count, dtype="f4")
    c = cupy.empty_like(a)
    kernel = tunefarm.launch.open(path).kernel("vector_add")
    print(kernel, kernel.plan(N=count))

    kernel(a=a, b=b, c=c, N=count)  # on CuPy's current stream
    cupy.testing.assert_array_equal(c, a + b)

    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        kernel(a=a, b=b, c=c, N=count)
        graph = stream.end_capture()
        a *= 2
        graph.launch(stream)
    stream.synchronize()
    cupy.testing.assert_array_equal(c, a + b)
    print(f"c = a + b for {count} elements")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except tunefarm.TunefarmError as error:
        sys.exit(f"vector_add_cupy.py: {error}")
