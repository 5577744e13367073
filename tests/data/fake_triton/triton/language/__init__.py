class constexpr:
    def __init__(self, value):
        self.value = value


class dtype:
    pass


float16 = dtype()
