"""The ideas that methods are made of: decomposition, kernel, convolution, residual buffer, aggregation.

Each module is one step of the paper. None of them counts retries, talks HTTP or writes files: that is the run's.
"""
