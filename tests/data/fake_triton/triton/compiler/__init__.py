class ASTSource:
    def __init__(self, fn, signature, constexprs=None, attrs=None):
        assert list(signature) == fn.arg_names, signature
        self.fn, self.signature, self.constants, self.attrs = fn, signature, constexprs or {}, attrs or {}
