"""TensorFlow Lite's C structs, for delegates and operators that were compiled against them.

Layouts are those that TensorFlow Lite publishes in `c/common.h`; they are read and written with
ctypes. `picture.Picture` is a subgraph as C sees it.
"""
