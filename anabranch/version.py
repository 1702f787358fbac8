"""The version of this program, read by the build, the command line and the APIs."""

__version__ = "0.1.0"
