"""The paths of the server: each module reads requests and words answers, and leaves the work to ``Services``."""
