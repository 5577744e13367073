class TensorDescriptor:
    """Over an array of NumPy's; its values are not checked."""

    def __init__(self, base, shape, strides, block_shape, padding="zero"):
        self.base, self.shape, self.strides, self.block_shape, self.padding = base, shape, strides, block_shape, padding

    @staticmethod
    def from_tensor(tensor, block_shape, padding="zero"):
        strides = [stride // tensor.itemsize for stride in tensor.strides]
        return TensorDescriptor(tensor, list(tensor.shape), strides, block_shape, padding)
