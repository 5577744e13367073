class constexpr:
    def __init__(self, value):
        self.value = value
